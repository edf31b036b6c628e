package wiretest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/transcript"
)

// openAI is what both APIs of OpenAI have in common.
type openAI struct{ sse }

// An openAIReferee reads and checks a body by the rules of one of OpenAI's APIs.
type openAIReferee struct{ judge }

// body decodes the members of a request.
func (r *openAIReferee) body(body []byte) map[string]json.RawMessage {
	at, _ := halfSurrogate(body)
	m, ok := members(body)
	if !ok || !isJSON(body) || at >= 0 {
		r.flag("json", -1, -1, "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)")
		return nil
	}
	if json.Unmarshal(m["model"], &r.req.Model) != nil || r.req.Model == "" {
		r.flag("model", -1, -1, "you must provide a model parameter")
	}
	return m
}

// envelope checks the other members of a request: those that are known, and the
// types of stream and of the output limits.
func (r *openAIReferee) envelope(m map[string]json.RawMessage, known, unknownText string, limits ...string) {
	for _, name := range unknown(m, strings.Fields(known)...) {
		r.flag("member", -1, -1, unknownText, name)
	}
	r.member(m, "stream", "a boolean", &r.req.Stream)
	for _, name := range limits {
		if r.member(m, name, "an integer", &r.req.MaxOutput) && r.req.MaxOutput < 1 {
			r.flag("max-tokens", -1, -1, "Invalid '%s': integer below minimum value. Expected a value >= 1, but got %d instead.", name, r.req.MaxOutput)
		}
	}
}

// member reads a member of a plain type, and reports whether there is one.
func (r *openAIReferee) member(m map[string]json.RawMessage, name, kind string, dst any) bool {
	value := m[name]
	if isNull(value) {
		return false
	}
	err := json.Unmarshal(value, dst)
	if err != nil {
		r.flag("type", -1, -1, "Invalid type for '%s': expected %s.", name, kind)
	}
	return err == nil
}

// list decodes a member that must be a list that is not empty.
func (r *openAIReferee) list(members map[string]json.RawMessage, name string) (list []json.RawMessage) {
	raw, ok := members[name]
	switch {
	case !ok:
		r.flag("missing", -1, -1, "Missing required parameter: '%s'.", name)
	case json.Unmarshal(raw, &list) != nil || list == nil:
		r.flag("type", -1, -1, "Invalid type for '%s': expected an array of objects, but got %s instead.", name, jsonType(raw))
	case len(list) == 0:
		r.flag("messages", -1, -1, "%s", emptyArray(name))
	}
	return list
}

func emptyArray(param string) string {
	return fmt.Sprintf("Invalid '%s': empty array. Expected an array with minimum length 1, but got an empty array instead.", param)
}

// jsonType names the type of a JSON value as the provider does.
func jsonType(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return "nothing"
	}
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	case bool:
		return "a boolean"
	}
	return "an integer"
}

const (
	maxOpenAITools = 128
	maxOpenAIName  = 64
)

var openAIName = lazy.New(`^[a-zA-Z0-9_-]+$`)

// name checks the name of a tool or, with its own limit, the ID of a call.
func (r *openAIReferee) name(rule, param, name string, most, message, block int) {
	switch {
	case name == "":
		r.flag(rule, message, block, "Invalid '%s': empty string. Expected a string with minimum length 1, but got an empty string instead.", param)
	case len(name) > most:
		r.flag(rule+"-length", message, block, "Invalid '%s': string too long. Expected a string with maximum length %d, but got a string with length %d instead.", param, most, len(name))
	case !openAIName.Get().MatchString(name):
		r.flag(rule+"-pattern", message, block, "Invalid '%s': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", param)
	}
}

// arguments checks the input of a call: a JSON object in a string.
func (r *openAIReferee) arguments(param string, raw json.RawMessage, message, block int) {
	var text string
	var object map[string]json.RawMessage
	switch {
	case len(raw) == 0:
		r.flag("input", message, block, "Missing required parameter: '%s'.", param)
	case json.Unmarshal(raw, &text) != nil || jsonType(raw) == "null":
		r.flag("input", message, block, "Invalid type for '%s': expected a string, but got %s instead.", param, jsonType(raw))
	case json.Unmarshal([]byte(text), &object) != nil || object == nil:
		r.flag("input", message, block, "Invalid '%s': the arguments are not a JSON object.", param)
	}
}

// tools checks the definitions; function returns the one that is to have a
// name, or nil.
func (r *openAIReferee) tools(raw json.RawMessage, function func(json.RawMessage) (param string, def json.RawMessage)) {
	if raw == nil {
		return
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		r.flag("tools", -1, -1, "Invalid type for 'tools': expected an array of objects, but got %s instead.", jsonType(raw))
		return
	}
	r.req.HasTools = len(list) > 0
	if len(list) > maxOpenAITools {
		r.flag("tools", -1, -1, "Invalid 'tools': array too long. Expected an array with maximum length %d, but got an array with length %d instead.", maxOpenAITools, len(list))
	}
	for i, v := range list {
		param, def := function(v)
		if param == "" {
			continue // run by the provider
		}
		var f struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		}
		if json.Unmarshal(def, &f) != nil {
			r.flag("tools", -1, -1, "Invalid type for 'tools[%d]%s': expected an object.", i, strings.TrimSuffix(param, "."))
			continue
		}
		r.name("tools", fmt.Sprintf("tools[%d]%sname", i, param), f.Name, maxOpenAIName, -1, -1)
		if schema, _ := members(f.Parameters); string(schema["type"]) != `"object"` {
			r.flag("tools", -1, -1, "Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"', got 'type: %s'.", f.Name, schema["type"])
		}
		r.req.Tools = append(r.req.Tools, transcript.Tool{Name: f.Name, Description: f.Description, InputSchema: f.Parameters})
	}
}

// content checks a text or a list of parts of some types, and returns its blocks.
func (r *openAIReferee) content(i int, param string, raw json.RawMessage, kinds []string, mayBeEmpty bool) (blocks []transcript.Block) {
	switch jsonType(raw) {
	case "a string":
		text := jsonText(raw)
		if text != "" {
			blocks = append(blocks, transcript.TextBlock{Text: text})
		} else if !mayBeEmpty {
			r.flag("text", i, -1, "Invalid '%s': empty string. Expected a string with minimum length 1, but got an empty string instead.", param)
		}
	case "an array":
		var parts []json.RawMessage
		_ = json.Unmarshal(raw, &parts) // is one
		if len(parts) == 0 && !mayBeEmpty {
			r.flag("content", i, -1, "%s", emptyArray(param))
		}
		for j, p := range parts {
			if b := r.part(i, j, fmt.Sprintf("%s[%d]", param, j), p, kinds); b != nil {
				blocks = append(blocks, b)
			}
		}
	default:
		r.flag("content", i, -1, "Invalid type for '%s': expected one of a string or array of objects, but got %s instead.", param, jsonType(raw))
	}
	return blocks
}

// part checks a part and returns its block, nil if it is not of a type that it may
// have.
func (r *openAIReferee) part(i, j int, param string, raw json.RawMessage, kinds []string) transcript.Block {
	var p openAIPart
	if json.Unmarshal(raw, &p) != nil {
		r.flag("part", i, j, "Invalid type for '%s': expected an object, but got %s instead.", param, jsonType(raw))
		return nil
	}
	if !slices.Contains(kinds, p.Type) {
		if p.Type == "image_url" {
			r.flag("part", i, j, "Invalid 'messages[%d]'. Image URLs are only allowed for messages with role 'user', but this message with role 'tool' contains an image URL.", i)
			return nil
		}
		r.flag("part", i, j, "Invalid value: '%s'. Supported values are: '%s'.", p.Type, strings.Join(kinds, "', '"))
		return nil
	}
	switch url := p.imageURL(); p.Type {
	case "text", "refusal", "input_text", "output_text":
		if p.Text == "" && p.Refusal == "" {
			r.flag("text", i, j, "Invalid '%s.%s': empty string. Expected a string with minimum length 1, but got an empty string instead.", param, p.Type)
		}
	case "image_url", "input_image":
		if p.Type == "image_url" {
			param += ".image_url"
		}
		if p.FileID == "" && !isHTTPS(url) && !isDataURL(url, "image/png", "image/jpeg", "image/gif", "image/webp") {
			r.flag("source", i, j, "Invalid '%s.%s'. Expected a valid URL, but got a value with an invalid format.", param, map[bool]string{true: "url", false: "image_url"}[p.Type == "image_url"])
		}
	case "input_audio":
		if !isBytes(p.Audio.Data) || p.Audio.Format == "" {
			r.flag("source", i, j, "Invalid '%s.input_audio'. Expected base64 data and a format.", param)
		}
	case "file":
		if p.File == nil || !p.File.isFile() {
			r.flag("source", i, j, "Invalid '%s.file'. Expected a file ID, or a filename and base64 data with a MIME type.", param)
		}
	case "input_file":
		if !p.isFile() && !isHTTPS(p.FileURL) {
			r.flag("source", i, j, "Invalid '%s'. Expected a file ID, a URL, or a filename and base64 data with a MIME type.", param)
		}
	}
	return p.block()
}

// isFile reports whether a part says where a file is: by an ID or by its bytes.
func (p openAIPart) isFile() bool {
	if p.FileID != "" {
		return p.FileData == ""
	}
	return p.FileName != "" && isDataURL(p.FileData, "application/pdf")
}

func isHTTPS(url string) bool { return strings.HasPrefix(strings.ToLower(url), "https://") }

// isDataURL reports whether url holds base64 of one of these media types.
func isDataURL(url string, types ...string) bool {
	kind, data, _ := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	_, err := base64.StdEncoding.DecodeString(data)
	return strings.HasPrefix(url, "data:") && slices.Contains(types, kind) && data != "" && err == nil && !strings.ContainsAny(data, "\r\n")
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
	Thinking []openAIPart    `json:"thinking"`
	Audio    struct {
		Data   string `json:"data"`
		Format string `json:"format"`
	} `json:"input_audio"`
}

// block returns a valid part as a block.
func (p openAIPart) block() transcript.Block {
	switch p.Type {
	case "thinking":
		var texts []string
		for _, chunk := range p.Thinking {
			texts = append(texts, chunk.Text)
		}
		return transcript.ThinkingBlock{Thinking: strings.Join(texts, "")}
	case "image_url", "input_image":
		return transcript.ImageBlock{Source: openAISource(p.imageURL(), p.FileID)}
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

// imageURL returns where an image is.
func (p openAIPart) imageURL() string {
	if url := jsonText(p.ImageURL); url != "" {
		return url
	}
	image, _ := members(p.ImageURL)
	return jsonText(image["url"])
}

// Word returns an error in the words of the provider.
func (openAI) Word(no Refusal, _ int64) Refusal {
	if !no.Usual {
		return no
	}
	say := func(status int, kind, code, text string) {
		no.Status, no.Kind, no.Code, no.Text = status, kind, code, text
	}
	switch no.Kind {
	case KindOverloaded:
		say(http.StatusServiceUnavailable, "server_error", "", "The engine is currently overloaded, please try again later")
	case KindRate:
		say(http.StatusTooManyRequests, "requests", "rate_limit_exceeded",
			"Rate limit reached on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again later.")
	case KindAPI:
		say(http.StatusInternalServerError, "server_error", "", "The server had an error while processing your request. Sorry about that!")
	case KindUnauthorized:
		say(http.StatusUnauthorized, KindInvalid, "invalid_api_key",
			"Incorrect API key provided: key. You can find your API key at https://platform.openai.com/account/api-keys.")
	}
	return no
}

// Head sets the headers of an answer.
func (openAI) Head(h http.Header, _ *Refusal, requestID string) { h.Set("X-Request-Id", requestID) }

// Refuse returns the body of an error.
func (openAI) Refuse(no *Refusal, _ string) []byte {
	return encode(map[string]any{"error": openAIError(no)})
}

func openAIError(no *Refusal) map[string]any {
	orNull := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	return map[string]any{"message": no.Text, "type": no.Kind, "param": orNull(no.Param), "code": orNull(no.Code)}
}

// tooLong refuses a prompt that is longer than the window.
func (openAI) tooLong(param, format string, args ...any) *Refusal {
	no := overflow(format, args...)
	no.Param, no.Code = param, "context_length_exceeded"
	return no
}

// tooMuch refuses a request for more output than the model gives.
func (openAI) tooMuch(l Limits, req Request, param string) *Refusal {
	if l.MaxOutput == 0 || req.MaxOutput <= l.MaxOutput {
		return nil
	}
	no := Invalid("max_tokens is too large: %d. This model supports at most %d completion tokens, whereas you provided %d.", req.MaxOutput, l.MaxOutput, req.MaxOutput)
	no.Param, no.Code = param, "invalid_value"
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

// openAIID returns the ID of an item of an answer.
func openAIID(prefix string, answer, item int) string {
	return fmt.Sprintf("%s_%06d_%d", prefix, answer, item)
}
