package guardtest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/transcript"
)

// pathGemini is where the Gemini API and Vertex take requests.
var pathGemini = regexp.MustCompile(`/models/([^/:]+):(generateContent|streamGenerateContent)$`)

// gemini is generateContent, for one request: the path says what others have in
// the body.
type gemini struct {
	model  string
	stream bool
}

func (g gemini) decode(_ *Model, _ http.Header, body []byte, _ bool) (req transcript.Request, stream bool, no *refusal) {
	if no = violated(wire.Gemini{Model: g.model}.Validate(body)); no == nil {
		var err error
		if req, err = decodeGemini(body); err != nil {
			no = invalid("Invalid JSON payload received. %v", err)
		}
	}
	req.Model = g.model
	return req, g.stream, no
}

func (gemini) maxBody() int64 { return 20 << 20 }

func (gemini) types() (whole, stream string) {
	return "application/json; charset=UTF-8", "text/event-stream"
}

func (gemini) frame(e event) []byte { return fmt.Appendf(nil, "data: %s\r\n\r\n", e.data) }

// isInput: a call comes whole.
func (gemini) isInput(event) bool { return false }

func (gemini) word(no refusal, limit int64) refusal {
	switch text := geminiTexts[no.kind]; {
	case no.usual && no.kind == kindTooLarge:
		no.text = fmt.Sprintf(textPayload, limit)
	case no.usual && text != "":
		no.text = text
	}
	no.status, no.kind = geminiStatus(no.status)
	return no
}

// geminiTexts are the words for usual errors, by the kind of the Messages API.
var geminiTexts = map[string]string{
	kindOverloaded:   "The model is overloaded. Please try again later.",
	kindRate:         "Resource has been exhausted (e.g. check quota).",
	kindAPI:          "An internal error has occurred. Please retry.",
	kindUnauthorized: "Request had invalid authentication credentials.",
}

func (gemini) refuse(no *refusal, _ string) []byte {
	return encode(map[string]any{"error": map[string]any{"code": no.status, "message": no.text, "status": no.kind}})
}

func (g gemini) fail(no *refusal, _ message, requestID string) event {
	return event{"", g.refuse(no, requestID)}
}

func (gemini) head(http.Header, *refusal, string) {}

// geminiStatus returns the status of HTTP that stands for one of the Messages
// API, and its name.
func geminiStatus(status int) (int, string) {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusMethodNotAllowed:
		return http.StatusBadRequest, "INVALID_ARGUMENT"
	case http.StatusUnauthorized:
		return status, "UNAUTHENTICATED"
	case http.StatusPaymentRequired, http.StatusForbidden:
		return http.StatusForbidden, "PERMISSION_DENIED"
	case http.StatusNotFound:
		return status, "NOT_FOUND"
	case http.StatusTooManyRequests:
		return status, "RESOURCE_EXHAUSTED"
	case http.StatusServiceUnavailable, statusOverloaded:
		return http.StatusServiceUnavailable, "UNAVAILABLE"
	case http.StatusGatewayTimeout:
		return status, "DEADLINE_EXCEEDED"
	}
	return http.StatusInternalServerError, "INTERNAL"
}

func (gemini) judgeSize(m *Model, req Request) *refusal {
	switch {
	case m.MaxOutput > 0 && req.MaxOutput > m.MaxOutput:
		return invalid("Unable to submit request because it has a maxOutputTokens value of %d but the supported range is from 1 (inclusive) to %d (exclusive). Update the value and try again.", req.MaxOutput, m.MaxOutput+1)
	case m.Window > 0 && req.Tokens > m.Window:
		return overflow("The input token count (%d) exceeds the maximum number of tokens allowed (%d).", req.Tokens, m.Window)
	}
	return nil
}

type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text       string `json:"text"`
	Thought    bool   `json:"thought"`
	InlineData *struct {
		MimeType string `json:"mimeType"`
		Data     string `json:"data"`
	} `json:"inlineData"`
	FileData *struct {
		FileURI string `json:"fileUri"`
	} `json:"fileData"`
	FunctionCall *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	FunctionResponse *struct {
		Response map[string]json.RawMessage `json:"response"`
	} `json:"functionResponse"`
}

// decodeGemini reads a valid body into a request: calls that have no ID get
// one, and results are those of the calls before them, in their order.
func decodeGemini(body []byte) (req transcript.Request, err error) {
	var in struct {
		Contents          []geminiContent `json:"contents"`
		SystemInstruction geminiContent   `json:"systemInstruction"`
		Tools             []struct {
			FunctionDeclarations []struct {
				Name                 string          `json:"name"`
				Description          string          `json:"description"`
				ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
		GenerationConfig struct {
			MaxOutputTokens int `json:"maxOutputTokens"`
		} `json:"generationConfig"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return req, err
	}
	req.MaxOutput = in.GenerationConfig.MaxOutputTokens
	for _, p := range in.SystemInstruction.Parts {
		req.System += p.Text
	}
	for _, t := range in.Tools {
		for _, f := range t.FunctionDeclarations {
			req.Tools = append(req.Tools, transcript.Tool{Name: f.Name, Description: f.Description, InputSchema: f.ParametersJSONSchema})
		}
	}
	var calls []string // of the content before
	for i, content := range in.Contents {
		m := transcript.Message{Role: transcript.RoleUser}
		if content.Role == "model" {
			m.Role, calls = transcript.RoleAssistant, nil
		}
		for j, p := range content.Parts {
			block := p.block()
			switch b := block.(type) {
			case transcript.ToolCallBlock:
				b.ID = cmp.Or(b.ID, fmt.Sprintf("call_%d_%d", i, j))
				calls, block = append(calls, b.ID), b
			case transcript.ToolResultBlock:
				if j < len(calls) {
					b.CallID = calls[j]
				}
				block = b
			}
			m.Content = append(m.Content, block)
		}
		if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == m.Role {
			req.Messages[n-1].Content = append(req.Messages[n-1].Content, m.Content...)
			continue
		}
		req.Messages = append(req.Messages, m)
	}
	return req, nil
}

// block returns a part as a block.
func (p geminiPart) block() transcript.Block {
	switch {
	case p.FunctionCall != nil:
		return transcript.ToolCallBlock{ID: p.FunctionCall.ID, Name: p.FunctionCall.Name, Input: p.FunctionCall.Args}
	case p.FunctionResponse != nil:
		text, isError := p.FunctionResponse.Response["output"], false
		if text == nil {
			text, isError = p.FunctionResponse.Response["error"], true
		}
		var s string
		if json.Unmarshal(text, &s) != nil {
			s, isError = string(encode(p.FunctionResponse.Response)), false
		}
		return transcript.ToolResultBlock{Content: []transcript.Block{transcript.TextBlock{Text: s}}, IsError: isError}
	case p.InlineData != nil:
		source := transcript.Source{Type: "base64", MediaType: p.InlineData.MimeType, Data: p.InlineData.Data}
		if strings.HasPrefix(source.MediaType, "image/") {
			return transcript.ImageBlock{Source: source}
		}
		return transcript.DocumentBlock{Source: source}
	case p.FileData != nil:
		return transcript.DocumentBlock{Source: transcript.Source{Type: "url", URL: p.FileData.FileURI}}
	case p.Thought:
		return transcript.ThinkingBlock{Thinking: p.Text}
	}
	return transcript.TextBlock{Text: p.Text}
}

// geminiParts returns the content of an answer as parts. Models that want
// signatures sign their first call.
func geminiParts(a message) (parts [][]byte) {
	called := false
	for _, b := range a.content {
		part := map[string]any{}
		switch b := b.(type) {
		case transcript.TextBlock:
			part["text"] = b.Text
			sign(part, b.Extra)
		case transcript.ThinkingBlock:
			part["text"], part["thought"] = b.Thinking, true
			sign(part, b.Extra)
		case transcript.ToolCallBlock:
			call := map[string]any{"name": b.Name, "args": inputOf(b)}
			if b.ID != "" {
				call["id"] = b.ID
			}
			part["functionCall"] = call
			if sign(part, b.Extra); !called && part["thoughtSignature"] == nil && !strings.Contains(a.model, "gemini-2") {
				part["thoughtSignature"] = base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "signature %d", a.id))
			}
			called = true
		case transcript.RawBlock:
			var raw struct{ Part json.RawMessage }
			if json.Unmarshal(b.JSON, &raw) != nil || raw.Part == nil {
				continue
			}
			parts = append(parts, raw.Part)
			continue
		default:
			continue
		}
		parts = append(parts, encode(part))
	}
	return parts
}

// sign puts the signature that a block says in ext on its part.
func sign(part map[string]any, extra transcript.Extra) {
	var ext struct {
		ThoughtSignature string `json:"thoughtSignature"`
	}
	if json.Unmarshal(extra["ext"], &ext) == nil && ext.ThoughtSignature != "" {
		part["thoughtSignature"] = ext.ThoughtSignature
	}
}

// inputOf returns the input of a call, which may be no JSON, as JSON.
func inputOf(b transcript.ToolCallBlock) json.RawMessage {
	if !json.Valid(b.Input) {
		return encode(string(b.Input))
	}
	return b.Input
}

// geminiBody puts an answer, or a piece of one, together.
func geminiBody(a message, parts [][]byte, last bool) []byte {
	list := []byte{'['}
	for i, p := range parts {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, p...)
	}
	candidate := fmt.Appendf(nil, `{"content":{"parts":%s],"role":"model"},"index":0`, list)
	prompt := a.usage.Input + a.usage.CacheRead + a.usage.CacheWrite
	output := min(1, a.usage.Output)
	if last {
		candidate = fmt.Appendf(candidate, `,"finishReason":%s`, encode(geminiStop(a.stop)))
		output = a.usage.Output
	}
	usage := fmt.Sprintf(`{"promptTokenCount":%d,"candidatesTokenCount":%d,"totalTokenCount":%d,"cachedContentTokenCount":%d}`,
		prompt, output, prompt+output, a.usage.CacheRead)
	return fmt.Appendf(nil, `{"candidates":[%s}],"usageMetadata":%s,"modelVersion":%s,"responseId":"resp_%06d"}`,
		candidate, usage, encode(a.model), a.id)
}

func geminiStop(stop transcript.StopReason) string {
	switch stop {
	case transcript.StopEndTurn, transcript.StopToolUse, transcript.StopSequence:
		return "STOP"
	case transcript.StopMaxTokens, transcript.StopContextWindow:
		return "MAX_TOKENS"
	case transcript.StopRefusal:
		return "SAFETY"
	default:
		return string(stop)
	}
}

func (gemini) whole(a message) []byte { return geminiBody(a, geminiParts(a), true) }

// events has texts in pieces, and the signature of one with an empty last piece.
func (gemini) events(a message) (events []event) {
	add := func(part []byte) { events = append(events, event{"", geminiBody(a, [][]byte{part}, false)}) }
	for _, part := range geminiParts(a) {
		var p map[string]any
		text, ok := "", json.Unmarshal(part, &p) == nil
		if ok {
			text, ok = p["text"].(string)
		}
		if !ok {
			add(part)
			continue
		}
		signature := p["thoughtSignature"]
		delete(p, "thoughtSignature")
		for _, piece := range split(text) {
			p["text"] = piece
			add(encode(p))
		}
		if signature != nil {
			p["text"], p["thoughtSignature"] = "", signature
			add(encode(p))
		}
	}
	return append(events, event{"", geminiBody(a, [][]byte{[]byte(`{"text":""}`)}, true)})
}
