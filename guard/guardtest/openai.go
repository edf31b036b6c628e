package guardtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// openAI is what both APIs of OpenAI have in common.
type openAI struct{ sse }

const textNotJSON = "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)"

// judge checks a body by its format and returns its members.
func (openAI) judge(body []byte, validate func([]byte) []rebuild.Violation, known, unknown string) (map[string]json.RawMessage, *refusal) {
	if at, _ := halfSurrogate(body); !json.Valid(body) || !utf8.Valid(body) || at >= 0 {
		return nil, invalid("%s", textNotJSON)
	}
	members, _ := object(body)
	if no := violated(validate(body)); no != nil {
		return members, no
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(strings.Fields(known), name) {
			return members, invalid(unknown, name)
		}
	}
	return members, nil
}

// openAIMember reads a member of a plain type.
func openAIMember[T any](members map[string]json.RawMessage, name, kind string, dst *T) *refusal {
	if value, ok := members[name]; ok && !isNull(value) && json.Unmarshal(value, dst) != nil {
		return invalid("Invalid type for '%s': expected %s.", name, kind)
	}
	return nil
}

// limit reads an output limit.
func (openAI) limit(members map[string]json.RawMessage, name string, dst *int) *refusal {
	if no := openAIMember(members, name, "an integer", dst); no != nil {
		return no
	}
	if value, ok := members[name]; ok && !isNull(value) && *dst < 1 {
		return invalid("Invalid '%s': integer below minimum value. Expected a value >= 1, but got %d instead.", name, *dst)
	}
	return nil
}

func (openAI) word(no refusal, _ int64) refusal {
	if !no.usual {
		return no
	}
	say := func(status int, kind, code, text string) {
		no.status, no.kind, no.code, no.text = status, kind, code, text
	}
	switch no.kind {
	case kindOverloaded:
		say(http.StatusServiceUnavailable, "server_error", "", "The engine is currently overloaded, please try again later")
	case kindRate:
		say(http.StatusTooManyRequests, "requests", "rate_limit_exceeded",
			"Rate limit reached on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again later.")
	case kindAPI:
		say(http.StatusInternalServerError, "server_error", "", "The server had an error while processing your request. Sorry about that!")
	case kindUnauthorized:
		say(http.StatusUnauthorized, kindInvalid, "invalid_api_key",
			"Incorrect API key provided: key. You can find your API key at https://platform.openai.com/account/api-keys.")
	}
	return no
}

func (openAI) head(h http.Header, _ *refusal, requestID string) { h.Set("X-Request-Id", requestID) }

func (openAI) refuse(no *refusal, _ string) []byte {
	return encode(map[string]any{"error": openAIError(no)})
}

func openAIError(no *refusal) map[string]any {
	orNull := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	return map[string]any{"message": no.text, "type": no.kind, "param": orNull(no.param), "code": orNull(no.code)}
}

// tooLong refuses a prompt that is longer than the window.
func (openAI) tooLong(param, format string, args ...any) *refusal {
	no := overflow(format, args...)
	no.param, no.code = param, "context_length_exceeded"
	return no
}

// tooMuch refuses a request for more output than the model gives.
func (openAI) tooMuch(m *Model, req Request, param string) *refusal {
	if m.MaxOutput == 0 || req.MaxOutput <= m.MaxOutput {
		return nil
	}
	no := invalid("max_tokens is too large: %d. This model supports at most %d completion tokens, whereas you provided %d.", req.MaxOutput, m.MaxOutput, req.MaxOutput)
	no.param, no.code = param, "invalid_value"
	return no
}

// usage returns the counts of an answer under the names of the API.
func (openAI) usage(u transcript.Usage, prompt, completion, details string) map[string]any {
	out := map[string]any{
		prompt: u.Prompt(), completion: u.Output, "total_tokens": u.Prompt() + u.Output,
		details: map[string]any{"cached_tokens": u.CacheRead},
	}
	for name, value := range u.Extra {
		out[name] = value
	}
	return out
}

// openAITurns puts the messages of a request together. What tools returned and
// what the user says behind it is one message.
type openAITurns []transcript.Message

func (l *openAITurns) add(role transcript.Role, blocks ...transcript.Block) {
	if n := len(*l); n > 0 && (*l)[n-1].Role == role {
		(*l)[n-1].Content = append((*l)[n-1].Content, blocks...)
		return
	}
	*l = append(*l, transcript.Message{Role: role, Content: blocks})
}

// openAIPart is a part of the content of a message, of either API.
type openAIPart struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Refusal  string          `json:"refusal"`
	ImageURL json.RawMessage `json:"image_url"` // an object or a string
	File     *openAIPart     `json:"file"`
	FileID   string          `json:"file_id"`
	FileURL  string          `json:"file_url"`
	FileName string          `json:"filename"`
	FileData string          `json:"file_data"`
}

// openAIBlocks returns the blocks of a valid content: a text or a list of parts.
func openAIBlocks(raw json.RawMessage) (blocks []transcript.Block) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if text != "" {
			blocks = append(blocks, transcript.TextBlock{Text: text})
		}
		return blocks
	}
	var parts []openAIPart
	_ = json.Unmarshal(raw, &parts) // valid
	for _, p := range parts {
		blocks = append(blocks, p.block())
	}
	return blocks
}

func (p openAIPart) block() transcript.Block {
	var url string
	var image struct{ URL string }
	if json.Unmarshal(p.ImageURL, &url) != nil && json.Unmarshal(p.ImageURL, &image) == nil {
		url = image.URL
	}
	switch p.Type {
	case "image_url", "input_image":
		return transcript.ImageBlock{Source: openAISource(url, p.FileID)}
	case "input_file":
		return transcript.DocumentBlock{Title: p.FileName, Source: openAISource(p.FileData+p.FileURL, p.FileID)}
	case "file":
		if p.File != nil {
			return transcript.DocumentBlock{Title: p.File.FileName, Source: openAISource(p.File.FileData, p.File.FileID)}
		}
	}
	return transcript.TextBlock{Text: p.Text + p.Refusal}
}

func openAISource(url, fileID string) transcript.Source {
	if data, ok := strings.CutPrefix(url, "data:"); ok {
		media, data, _ := strings.Cut(data, ";base64,")
		return transcript.Source{Type: "base64", MediaType: media, Data: data}
	}
	if fileID != "" {
		return transcript.Source{Type: "file", FileID: fileID}
	}
	return transcript.Source{Type: "url", URL: url}
}

// openAIResult returns the result of a call.
func openAIResult(callID string, content json.RawMessage) transcript.Block {
	return transcript.ToolResultBlock{CallID: callID}.WithContent(openAIBlocks(content)...)
}

// openAITool reads a definition; ok is false for a tool that the provider runs.
func openAITool(raw json.RawMessage) (t transcript.Tool, ok bool) {
	var def struct {
		Type        string          `json:"type"`
		Function    json.RawMessage `json:"function"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	if json.Unmarshal(raw, &def) != nil || def.Type != "function" {
		return t, false
	}
	if def.Function != nil {
		_ = json.Unmarshal(def.Function, &def) // valid
	}
	return transcript.Tool{Name: def.Name, Description: def.Description, InputSchema: def.Parameters}, true
}

// readTools reads the definitions of a valid request.
func (openAI) readTools(m *Model, req *transcript.Request, raw json.RawMessage) *refusal {
	var list []json.RawMessage
	_ = json.Unmarshal(raw, &list) // valid
	for _, v := range list {
		if t, ok := openAITool(v); ok {
			req.Tools = append(req.Tools, t)
		}
	}
	if m.RequireTools && len(list) == 0 && usesTools(req.Messages) {
		return invalid("Requests which include tool calls or their results must define tools.")
	}
	return nil
}

// openAIID returns the ID of an item of an answer.
func openAIID(prefix string, answer, item int) string {
	return fmt.Sprintf("%s_%06d_%d", prefix, answer, item)
}
