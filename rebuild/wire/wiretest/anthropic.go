package wiretest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// Anthropic is the Messages API.
type Anthropic struct {
	sse
	// Counting says that requests only ask for a count of tokens.
	Counting bool
}

// anthropicMembers are the members a request may have, true for those that it
// may have when it only asks for a count.
var anthropicMembers = map[string]bool{
	"cache_control": true, "container": false, "context_management": true, "inference_geo": false,
	"max_tokens": false, "mcp_servers": true, "messages": true, "metadata": false, "model": true,
	"output_config": true, "output_format": true, "service_tier": false, "speed": true,
	"stop_sequences": false, "stream": false, "system": true, "temperature": false, "thinking": true,
	"tool_choice": true, "tools": true, "top_k": false, "top_p": false,
}

// Decode reads the body of a request and judges it. Violations of the body as a whole
// hide all others.
func (a Anthropic) Decode(body []byte) (Request, []Violation) {
	r := referee{}
	r.req.Messages = []transcript.Message{}
	var think thinking
	if r.body(body, a.Counting, &think); len(r.found) == 0 {
		r.canonical()
		r.demanded(think)
		r.images()
	}
	return r.req, r.found
}

// Validate returns what is wrong with the body of a request.
func (a Anthropic) Validate(body []byte) []Violation { return validate(a, body) }

// body reads the members of a request.
func (r *referee) body(body []byte, counting bool, think *thinking) {
	if !isJSON(body) {
		r.flag("json", -1, -1, "The request body is not valid JSON")
		return
	}
	if at, text := halfSurrogate(body); at >= 0 {
		r.flag("json", -1, -1, "The request body is not valid JSON: %s: line 1 column %d (char %d)", text, at+1, at)
		return
	}
	m, ok := members(body)
	if !ok {
		r.flag("body", -1, -1, "Input should be a valid dictionary")
		return
	}
	_ = field(r, m, "", "model", true, "string", &r.req.Model) &&
		(counting || r.maxTokens(m)) &&
		field(r, m, "", "stream", false, "boolean", &r.req.Stream) &&
		r.system(m["system"]) && r.tools(m) && r.messages(m) && r.thinking(m["thinking"], think)
	if len(r.found) > 0 {
		return
	}
	for _, name := range unknown(m) {
		if whenCounting, known := anthropicMembers[name]; !known || counting && !whenCounting {
			r.flag("body", -1, -1, "%s: Extra inputs are not permitted", name)
		}
	}
	r.mark(m[cacheControl])
}

const cacheControl = "cache_control"

// mark counts a cache mark beside the messages.
func (r *referee) mark(value json.RawMessage) {
	if !isNull(value) {
		r.marks++
	}
}

// field reads a member of a plain type and reports whether that is right.
func field[T any](r *referee, m map[string]json.RawMessage, at, name string, required bool, kind string, dst *T) bool {
	value, ok := m[name]
	switch {
	case !ok && required:
		r.flag("body", -1, -1, "%s%s: Field required", at, name)
		return false
	case ok && (isNull(value) || json.Unmarshal(value, dst) != nil):
		r.flag("body", -1, -1, "%s%s: Input should be a valid %s", at, name, kind)
		return false
	}
	return true
}

func (r *referee) maxTokens(m map[string]json.RawMessage) bool {
	if !field(r, m, "", "max_tokens", true, "integer", &r.req.MaxOutput) {
		return false
	}
	if r.req.MaxOutput < 1 {
		r.flag("body", -1, -1, "max_tokens: must be greater than or equal to 1")
	}
	return r.req.MaxOutput >= 1
}

// wrong flags what is wrong with the body, in a shape that ends a check.
func (r *referee) wrong(format string, args ...any) bool {
	r.flag("body", -1, -1, format, args...)
	return false
}

// system reads a text or a list of texts.
func (r *referee) system(value json.RawMessage) bool {
	if value == nil || json.Unmarshal(value, &r.req.System) == nil && !isNull(value) {
		return true
	}
	var blocks []json.RawMessage
	if isNull(value) || json.Unmarshal(value, &blocks) != nil {
		return r.wrong("system: Input should be a valid list")
	}
	var texts []string
	for i, v := range blocks {
		b, err := transcript.UnmarshalBlock(v)
		t, ok := b.(transcript.TextBlock)
		switch {
		case err != nil || !ok:
			return r.wrong("system.%d: Input should be a text block", i)
		case strings.TrimSpace(t.Text) == "":
			return r.wrong("system: text content blocks must be non-empty")
		}
		r.mark(t.Extra[cacheControl])
		texts = append(texts, t.Text)
	}
	r.req.System = strings.Join(texts, "\n")
	return true
}

// tools reads the definitions. Tools that the provider runs have a type of
// their own and no schema; they are no part of the [transcript.Request].
func (r *referee) tools(m map[string]json.RawMessage) bool {
	var defs []json.RawMessage
	if !field(r, m, "", "tools", false, "list", &defs) {
		return false
	}
	r.req.HasTools = len(defs) > 0
	for i, v := range defs {
		tool, ok := members(v)
		if !ok {
			return r.wrong("tools.%d: Input should be a valid dictionary", i)
		}
		r.mark(tool[cacheControl])
		var kind string
		if k := tool["type"]; !isNull(k) && json.Unmarshal(k, &kind) != nil {
			return r.wrong("tools.%d.type: Input should be a valid string", i)
		}
		if kind != "" && kind != "custom" {
			continue
		}
		var t transcript.Tool
		at := fmt.Sprintf("tools.%d.custom.", i)
		if !field(r, tool, at, "name", true, "string", &t.Name) ||
			!field(r, tool, at, "description", false, "string", &t.Description) ||
			!field(r, tool, at, "input_schema", true, "dictionary", &t.InputSchema) {
			return false
		}
		r.req.Tools = append(r.req.Tools, t)
	}
	return true
}

func (r *referee) messages(m map[string]json.RawMessage) bool {
	var messages []json.RawMessage
	if !field(r, m, "", "messages", true, "list", &messages) {
		return false
	}
	for i, v := range messages {
		message, ok := members(v)
		if !ok {
			return r.wrong("messages.%d: Input should be a valid dictionary", i)
		}
		for _, name := range []string{"role", "content"} {
			if _, ok := message[name]; !ok {
				return r.wrong("messages.%d.%s: Field required", i, name)
			}
		}
		for _, name := range unknown(message, "role", "content") {
			return r.wrong("messages.%d.%s: Extra inputs are not permitted", i, name)
		}
		var m transcript.Message
		if json.Unmarshal(v, &m) != nil {
			return r.wrong("messages.%d.content: Input should be a valid list", i)
		}
		r.req.Messages = append(r.req.Messages, m)
	}
	return true
}

// thinking is the member of that name: how the model is to reason.
type thinking struct {
	Type   string `json:"type"`
	Budget int    `json:"budget_tokens"`
}

func (r *referee) thinking(value json.RawMessage, think *thinking) bool {
	if value == nil {
		return true
	}
	if isNull(value) || json.Unmarshal(value, think) != nil {
		return r.wrong("thinking: Input should be a valid dictionary")
	}
	switch think.Type {
	case "enabled", "disabled", "adaptive", "between_tools":
		return true
	}
	return r.wrong("thinking: Input tag '%s' found using 'type' does not match any of the expected tags: 'adaptive', 'disabled', 'enabled'", think.Type)
}

// demanded checks what a request that demands reasoning must have: a budget, and
// in the last answer, if that called tools, reasoning to go on from.
func (r *referee) demanded(think thinking) {
	const least = 1024
	if think.Type != "enabled" {
		return
	}
	if think.Budget < least {
		r.flag("thinking", -1, -1, "thinking.enabled.budget_tokens: Input should be greater than or equal to %d", least)
	}
	if r.req.MaxOutput > 0 && r.req.MaxOutput <= think.Budget {
		r.flag("thinking", -1, -1, "`max_tokens` must be greater than `thinking.budget_tokens`.")
	}
	for i, m := range slices.Backward(r.req.Messages) {
		if m.Role != transcript.RoleAssistant {
			continue
		}
		if len(m.ToolCalls()) > 0 && !isReasoning(m.Content[0]) {
			r.flag("thinking", i, 0, "messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, a final `assistant` message must start with a thinking block.",
				i, m.Content[0].BlockType())
		}
		return
	}
}

// images checks the sizes of images. They count as the base64 that they come in.
func (r *referee) images() {
	const most = 5 << 20
	check := func(b transcript.Block, p place) {
		image, ok := b.(transcript.ImageBlock)
		if n := len(image.Source.Data); ok && n > most {
			r.flag("image", p.message, p.block, "%s.image.source.base64: image exceeds 5 MB maximum: %d bytes > %d bytes", p, n, most)
		}
	}
	for i, m := range r.req.Messages {
		for j, b := range m.Content {
			check(b, place{i, j, -1})
			res, _ := b.(transcript.ToolResultBlock)
			for k, c := range res.Content {
				check(c, place{i, j, k})
			}
		}
	}
}

// Fit refuses a request that the model has no room for.
func (Anthropic) Fit(l Limits, req Request, tokens int) *Refusal {
	switch {
	case l.MaxOutput > 0 && req.MaxOutput > l.MaxOutput:
		return Invalid("max_tokens: %d > %d, which is the maximum allowed number of output tokens for %s", req.MaxOutput, l.MaxOutput, l.Model)
	case l.Window > 0 && tokens > l.Window:
		return overflow("prompt is too long: %d tokens > %d maximum", tokens, l.Window)
	case l.reserves(req, tokens):
		return overflow("input length and `max_tokens` exceed context limit: %d + %d > %d, decrease input length or `max_tokens` and try again",
			tokens, req.MaxOutput, l.Window)
	}
	return nil
}

// Whole returns an answer that is not streamed.
func (Anthropic) Whole(a Message) []byte { return a.json() }

// Events returns an answer as a stream.
func (Anthropic) Events(a Message) []Event { return a.events() }

// IsInput reports whether an event adds to the input of a call.
func (Anthropic) IsInput(e Event) bool {
	return e.Name == "content_block_delta" && bytes.Contains(e.Data, []byte(`"type":"`+kindInput))
}

// Word returns an error in the words of the provider.
func (Anthropic) Word(no Refusal, _ int64) Refusal { return no }

// Refuse returns the body of an error. That of a body that is too large comes
// from a proxy of the provider and has no more than this.
func (Anthropic) Refuse(no *Refusal, requestID string) []byte {
	detail := map[string]string{"type": no.Kind, "message": no.Text}
	if no.Kind == KindTooLarge {
		return encode(map[string]any{"error": detail})
	}
	return encode(map[string]any{"type": "error", "error": detail, "request_id": requestID})
}

// Fail returns the event that ends a stream with an error.
func (a Anthropic) Fail(no *Refusal, _ Message, requestID string) Event {
	return Event{"error", a.Refuse(no, requestID)}
}

// Head sets the headers of an answer.
func (Anthropic) Head(h http.Header, _ *Refusal, requestID string) { h.Set("Request-Id", requestID) }
