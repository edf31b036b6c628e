package wiretest

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// Form returns the common form of all answers.
func (Gemini) Form() Form {
	return Form{
		MaxBody: 20 << 20, Whole: "application/json; charset=UTF-8", Stream: "text/event-stream",
		kinds: map[int]string{
			http.StatusBadRequest: "INVALID_ARGUMENT", http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED",
			http.StatusNotFound: "NOT_FOUND", http.StatusTooManyRequests: "RESOURCE_EXHAUSTED", http.StatusServiceUnavailable: "UNAVAILABLE",
			http.StatusGatewayTimeout: "DEADLINE_EXCEEDED", http.StatusInternalServerError: "INTERNAL",
		},
		usual: map[string]Refusal{
			KindOverloaded:   {Text: "The model is overloaded. Please try again later."},
			KindRate:         {Text: "Resource has been exhausted (e.g. check quota)."},
			KindAPI:          {Text: "An internal error has occurred. Please retry."},
			KindUnauthorized: {Text: "Request had invalid authentication credentials."},
		},
		tooMuch: Refusal{Text: "Unable to submit request because it has a maxOutputTokens value of {output} but the supported range is from 1 (inclusive) to {end} (exclusive). Update the value and try again."},
		tooLong: Refusal{Text: "The input token count ({prompt}) exceeds the maximum number of tokens allowed ({window})."},
	}
}

// Refuse returns the body of an error.
func (Gemini) Refuse(no *Refusal, _ string) []byte {
	return encode(map[string]any{"error": map[string]any{"code": no.Status, "message": no.Text, "status": no.Kind}})
}

// Fail returns the event that ends a stream with an error.
func (g Gemini) Fail(no *Refusal, _ Message, requestID string) Event {
	return geminiEvent(g.Refuse(no, requestID))
}

func geminiEvent(data []byte) Event { return Event{Data: fmt.Appendf(nil, "data: %s\r\n\r\n", data)} }

// geminiParts returns the content of an answer as parts. Models that want
// signatures sign their first call.
func geminiParts(a Message) (parts [][]byte) {
	called := false
	for _, b := range a.Content {
		part := map[string]any{}
		var extra transcript.Extra
		switch b := b.(type) {
		case transcript.TextBlock:
			part["text"], extra = b.Text, b.Extra
		case transcript.ThinkingBlock:
			part["text"], part["thought"], extra = b.Thinking, true, b.Extra
		case transcript.ToolCallBlock:
			call := map[string]any{"name": b.Name, "args": inputOf(b)}
			if b.ID != "" {
				call["id"] = b.ID
			}
			part["functionCall"], extra = call, b.Extra
		case transcript.RawBlock:
			var raw struct{ Part json.RawMessage }
			if json.Unmarshal(b.JSON, &raw) == nil && raw.Part != nil {
				parts = append(parts, raw.Part)
			}
			continue
		default:
			continue
		}
		var ext struct{ ThoughtSignature string }
		_ = json.Unmarshal(extra["ext"], &ext) // most blocks lack it
		if part["functionCall"] != nil && !called {
			if called = true; !strings.Contains(a.Model, "gemini-2") {
				ext.ThoughtSignature = cmp.Or(ext.ThoughtSignature, base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "signature %d", a.ID)))
			}
		}
		if ext.ThoughtSignature != "" {
			part["thoughtSignature"] = ext.ThoughtSignature
		}
		parts = append(parts, encode(part))
	}
	return parts
}

// inputOf returns the input of a call as JSON, even if it is not JSON.
func inputOf(b transcript.ToolCallBlock) json.RawMessage {
	if !json.Valid(b.Input) {
		return encode(string(b.Input))
	}
	return b.Input
}

// geminiBody puts an answer, or a piece of one, together.
func geminiBody(a Message, parts [][]byte, last bool) []byte {
	candidate := fmt.Appendf(nil, `{"content":{"parts":[%s],"role":"model"},"index":0`, bytes.Join(parts, []byte(",")))
	prompt := a.Usage.Prompt()
	output := min(1, a.Usage.Output)
	if last {
		candidate = fmt.Appendf(candidate, `,"finishReason":%s`, encode(cmp.Or(geminiStops[a.Stop], string(a.Stop))))
		output = a.Usage.Output
	}
	usage := fmt.Sprintf(`{"promptTokenCount":%d,"candidatesTokenCount":%d,"totalTokenCount":%d,"cachedContentTokenCount":%d}`,
		prompt, output, prompt+output, a.Usage.CacheRead)
	return fmt.Appendf(nil, `{"candidates":[%s}],"usageMetadata":%s,"modelVersion":%s,"responseId":"resp_%06d"}`,
		candidate, usage, encode(a.Model), a.ID)
}

var geminiStops = map[transcript.StopReason]string{
	transcript.StopEndTurn: "STOP", transcript.StopToolUse: "STOP", transcript.StopSequence: "STOP",
	transcript.StopMaxTokens: "MAX_TOKENS", transcript.StopContextWindow: "MAX_TOKENS", transcript.StopRefusal: "SAFETY",
}

// Whole returns an answer that is not streamed.
func (Gemini) Whole(a Message) []byte { return geminiBody(a, geminiParts(a), true) }

// Events sends texts in pieces, and a text's signature with an empty last piece.
func (Gemini) Events(a Message) (events []Event) {
	add := func(part []byte) { events = append(events, geminiEvent(geminiBody(a, [][]byte{part}, false))) }
	for _, part := range geminiParts(a) {
		p := tree(part)
		text, ok := p["text"].(string)
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
	return append(events, geminiEvent(geminiBody(a, [][]byte{[]byte(`{"text":""}`)}, true)))
}
