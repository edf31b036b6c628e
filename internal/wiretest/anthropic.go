package wiretest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/transcript"
)

// Anthropic is the Messages API.
type Anthropic struct {
	// Counting is set for requests that only count tokens.
	Counting bool
}

// imitators are models of other makers with the Messages API. They sign no reasoning.
var imitators = lazy.New(`(?i)deepseek|kimi|glm|minimax`)

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
	if r.body(body, a.Counting); len(r.found) == 0 {
		r.canonical()
		r.demanded()
		r.vision()
	}
	return r.req, r.found
}

func (r *referee) body(body []byte, counting bool) {
	at, half := halfSurrogate(body)
	m, ok := members(body)
	_ = r.want(isJSON(body), "json", -1, -1, "The request body is not valid JSON") &&
		r.want(at < 0, "json", -1, -1, "The request body is not valid JSON: %s: line 1 column %d (char %d)", half, at+1, at) &&
		r.need(ok, "Input should be a valid dictionary") &&
		field(r, m, "", "model", true, "string", &r.req.Model) &&
		(counting || field(r, m, "", "max_tokens", true, "integer", &r.req.MaxOutput) &&
			r.need(r.req.MaxOutput >= 1, "max_tokens: must be greater than or equal to 1")) &&
		field(r, m, "", "stream", false, "boolean", &r.req.Stream) &&
		r.system(m) && r.tools(m) && r.messages(m) &&
		field(r, m, "", "thinking", false, "dictionary", &r.think) &&
		r.need(m["thinking"] == nil || slices.Contains([]string{"enabled", "disabled", "adaptive", "between_tools"}, r.think.Type),
			"thinking: Input tag '%s' found using 'type' does not match any of the expected tags: 'adaptive', 'disabled', 'enabled'", r.think.Type)
	if len(r.found) > 0 {
		return
	}
	for _, name := range unknown(m) {
		whenCounting, known := anthropicMembers[name]
		r.need(known && (whenCounting || !counting), "%s: Extra inputs are not permitted", name)
	}
	r.mark(m[cacheControl])
}

const cacheControl = "cache_control"

// mark counts a cache mark outside of the messages.
func (r *referee) mark(value json.RawMessage) {
	if isGiven(value) {
		r.marks++
	}
}

// need flags a violation of the whole body unless ok, which it returns.
func (r *referee) need(ok bool, format string, args ...any) bool {
	return r.want(ok, "body", -1, -1, format, args...)
}

// field reads a member of a plain type and reports whether that is right.
func field[T any](r *referee, m map[string]json.RawMessage, at, name string, required bool, kind string, dst *T) bool {
	value, ok := m[name]
	if !ok {
		return r.need(!required, "%s%s: Field required", at, name)
	}
	return r.need(isGiven(value) && json.Unmarshal(value, dst) == nil, "%s%s: Input should be a valid %s", at, name, kind)
}

// each calls read for the objects of a list until it returns false, and reports
// whether it did not.
func (r *referee) each(m map[string]json.RawMessage, name string, required bool, read func(i int, value json.RawMessage, m map[string]json.RawMessage) bool) bool {
	var list []json.RawMessage
	if !field(r, m, "", name, required, "list", &list) {
		return false
	}
	for i, v := range list {
		m, ok := members(v)
		if !r.need(ok, "%s.%d: Input should be a valid dictionary", name, i) || !read(i, v, m) {
			return false
		}
	}
	return true
}

func (r *referee) system(m map[string]json.RawMessage) bool {
	if value := m["system"]; value == nil || json.Unmarshal(value, &r.req.System) == nil && isGiven(value) {
		return true
	}
	var texts []string
	ok := r.each(m, "system", true, func(i int, value json.RawMessage, _ map[string]json.RawMessage) bool {
		b, err := transcript.UnmarshalBlock(value)
		t, ok := b.(transcript.TextBlock)
		r.mark(t.Extra[cacheControl])
		texts = append(texts, t.Text)
		return r.need(ok && err == nil, "system.%d: Input should be a text block", i) &&
			r.need(strings.TrimSpace(t.Text) != "", "system: text content blocks must be non-empty")
	})
	r.req.System = strings.Join(texts, "\n")
	return ok
}

// tools reads the definitions. Tools that the provider runs have a type of
// their own and no schema; the [transcript.Request] lacks them.
func (r *referee) tools(m map[string]json.RawMessage) bool {
	return r.each(m, "tools", false, func(i int, _ json.RawMessage, tool map[string]json.RawMessage) bool {
		r.req.HasTools = true
		r.mark(tool[cacheControl])
		at, kind := fmt.Sprintf("tools.%d.", i), "custom"
		if isGiven(tool["type"]) && !field(r, tool, at, "type", true, "string", &kind) {
			return false
		}
		if kind != "" && kind != "custom" {
			return true
		}
		var t transcript.Tool
		at += "custom."
		if !field(r, tool, at, "name", true, "string", &t.Name) ||
			!field(r, tool, at, "description", false, "string", &t.Description) ||
			!field(r, tool, at, "input_schema", true, "dictionary", &t.InputSchema) {
			return false
		}
		r.req.Tools = append(r.req.Tools, t)
		return true
	})
}

func (r *referee) messages(m map[string]json.RawMessage) bool {
	return r.each(m, "messages", true, func(i int, value json.RawMessage, message map[string]json.RawMessage) bool {
		for _, name := range []string{"role", "content"} {
			if !r.need(message[name] != nil, "messages.%d.%s: Field required", i, name) {
				return false
			}
		}
		for _, name := range unknown(message, "role", "content") {
			return r.need(false, "messages.%d.%s: Extra inputs are not permitted", i, name)
		}
		var m transcript.Message
		if !r.need(json.Unmarshal(value, &m) == nil, "messages.%d.content: Input should be a valid list", i) {
			return false
		}
		r.req.Messages = append(r.req.Messages, m)
		return true
	})
}

// thinking is the member of that name: how the model is to reason.
type thinking struct {
	Type   string `json:"type"`
	Budget int    `json:"budget_tokens"`
}

// demanded checks a request that demands reasoning: it needs a budget, and in
// the last answer, if that called tools, reasoning to continue.
func (r *referee) demanded() {
	if r.think.Type != "enabled" {
		return
	}
	r.want(r.think.Budget >= 1024, "thinking", -1, -1, "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
	r.want(r.req.MaxOutput <= 0 || r.req.MaxOutput > r.think.Budget, "thinking", -1, -1, "`max_tokens` must be greater than `thinking.budget_tokens`.")
	for i, m := range slices.Backward(r.req.Messages) {
		if m.Role != transcript.RoleAssistant {
			continue
		}
		if len(m.ToolCalls()) > 0 && !transcript.IsReasoning(m.Content[0]) {
			r.flag("thinking", i, 0, "messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, a final `assistant` message must start with a thinking block.",
				i, transcript.BlockType(m.Content[0]))
		}
		return
	}
}

// small matches the models with a window of 200,000 tokens.
var small = lazy.New(`claude-(?:\d|haiku|(?:opus|sonnet)-4(?:-[0-5]\b|-\d{8}|@|$))`)

// vision checks the numbers on the page about images: of bytes in base64, of pixels, and
// in a request.
func (r *referee) vision() {
	const maxBytes, many = 5 << 20, 20
	side, what := 8000, ""
	n := 0
	for range r.images() {
		n++
	}
	if n > many {
		side, what = 2000, " for many-image requests"
	}
	for p, data := range r.images() {
		r.wantAt(len(data) <= maxBytes, p, "image", "image.source.base64", "image exceeds 5 MB maximum: %d bytes > %d bytes", len(data), maxBytes)
		r.wantAt(sideOf(data) <= side, p, "image", "image.source.base64.data", "At least one of the image dimensions exceed max allowed size%s: %d pixels", what, side)
	}
	most := 600
	if small.Get().MatchString(r.req.Model) {
		most = 100
	}
	r.count(most, "Too much media: 0 document pages + %d images > %d")
}

const (
	promptTooLong   = "prompt is too long: {prompt} tokens > {window} maximum"
	promptAndOutput = "input length and `max_tokens` exceed context limit: {prompt} + {output} > {window}, decrease input length or `max_tokens` and try again"
)

// Form returns what all answers have in common.
func (Anthropic) Form() Form {
	return Form{
		MaxBody: 32 << 20, Whole: typeJSON, Stream: typeEvents, Signs: true, requestID: "Request-Id",
		tooMuch: Refusal{Text: "max_tokens: {output} > {max}, which is the maximum allowed number of output tokens for {model}"},
		tooLong: Refusal{Text: promptTooLong},
		noRoom:  Refusal{Text: promptAndOutput},
	}
}

// Refuse returns the body of an error. For a body that is too large it comes
// from a proxy of the provider and contains no more than this.
func (Anthropic) Refuse(no *Refusal, requestID string) []byte {
	detail := map[string]string{"type": no.Kind, "message": no.Text}
	if no.Kind == KindTooLarge {
		return encode(map[string]any{"error": detail})
	}
	return encode(map[string]any{"type": "error", "error": detail, "request_id": requestID})
}

// Fail returns the event that ends a stream with an error.
func (a Anthropic) Fail(no *Refusal, _ Message, requestID string) Event {
	return Event{Data: sse("error", a.Refuse(no, requestID))}
}
