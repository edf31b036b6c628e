package wiretest

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/transcript"
)

// Validate checks a request by the rules of the Messages API as strictly as
// Anthropic does, and returns every violation in the order of the messages; none
// means that the API will accept them. Origins are ignored. A history of
// rebuild.Fold that ends with a user message has none.
func Validate(req transcript.Request) []Violation {
	r := referee{judge: judge{req: Request{Request: req}}}
	r.canonical()
	return r.found
}

func (r *referee) canonical() {
	r.envelope()
	for i, m := range r.req.Messages {
		r.role(i)
		if len(m.Content) == 0 {
			r.flag("content", i, -1, "messages.%d: all messages must have non-empty content except for the optional final assistant message", i)
		}
		for j, b := range m.Content {
			r.block(place{message: i, block: j, inner: -1}, m.Role, b)
		}
		r.calls(i)
		r.results(i)
		r.serverTools(i)
		r.thinkingOrder(i)
	}
	r.ends()
	if r.marks > maxMarks {
		r.flag("marks", -1, -1, "A maximum of %d blocks with cache_control may be provided. Found %d.", maxMarks, r.marks)
	}
}

const (
	maxMarks = 4
	maxID    = 64
)

// A referee holds what is known of a request while it is read.
type referee struct {
	judge
	ids   map[string]struct{} // of every call so far
	marks int
	// Reused from message to message.
	first, later idSet
}

// An idSet holds the few call IDs of one message, or many of them.
type idSet struct {
	few  []string
	many map[string]struct{}
}

func (s *idSet) reset() { s.few, s.many = s.few[:0], nil }

func (s *idSet) add(id string) {
	const few = 16
	if len(s.few) < few {
		s.few = append(s.few, id)
		return
	}
	if s.many == nil {
		s.many = map[string]struct{}{}
	}
	s.many[id] = struct{}{}
}

func (s *idSet) has(id string) bool {
	if slices.Contains(s.few, id) {
		return true
	}
	_, ok := s.many[id]
	return ok
}

// flagAt flags a block, or a member of it if path is not empty.
func (r *referee) flagAt(p place, rule, path, format string, args ...any) {
	if path != "" {
		path = "." + path
	}
	r.flag(rule, p.message, p.block, "%s%s: %s", p, path, fmt.Sprintf(format, args...))
}

// A place is a block of a message, or of a tool result if inner is not -1.
type place struct{ message, block, inner int }

func (p place) String() string {
	s := fmt.Sprintf("messages.%d.content.%d", p.message, p.block)
	if p.inner >= 0 {
		s += fmt.Sprintf(".tool_result.content.%d", p.inner)
	}
	return s
}

// envelope checks what is beside the messages.
func (r *referee) envelope() {
	if r.req.MaxOutput < 0 {
		r.flag("max-tokens", -1, -1, "max_tokens: Input should be greater than or equal to 1")
	}
	if r.req.System != "" && !visible(r.req.System) {
		r.flag("system", -1, -1, "system: text content blocks must contain non-whitespace text")
	}
	names := map[string]bool{}
	for i, t := range r.req.Tools {
		if !isWord(t.Name) || len(t.Name) > maxID {
			r.flag("name", -1, -1, "tools.%d.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'", i)
		}
		if names[t.Name] {
			r.flag("tools", -1, -1, "tools: Tool names must be unique.")
		}
		names[t.Name] = true
		if schema, ok := members(t.InputSchema); !ok {
			r.flag("tools", -1, -1, "tools.%d.input_schema: Input should be a valid dictionary", i)
		} else if jsonText(schema["type"]) != "object" {
			r.flag("tools", -1, -1, "tools.%d.input_schema.type: Input should be 'object'", i)
		}
	}
}

func (r *referee) role(i int) {
	before := transcript.Role("")
	if i > 0 {
		before = r.req.Messages[i-1].Role
	}
	switch role := r.req.Messages[i].Role; {
	case role == roleSystem:
		r.systemMessage(i, before)
	case role != transcript.RoleUser && role != transcript.RoleAssistant:
		r.flag("role", i, -1, "messages.%d.role: Input should be 'user' or 'assistant'", i)
	case i == 0 && role != transcript.RoleUser:
		r.flag("first-user", i, -1, `messages: first message must use the "user" role`)
	case role == before, role == transcript.RoleUser && before == roleSystem:
		r.flag("alternation", i, -1, `messages: roles must alternate between "user" and "assistant", but found multiple %q roles in a row`, role)
	}
}

// roleSystem is the role of messages that change what the system prompt says.
const roleSystem transcript.Role = "system"

// takesSystem matches the models that take the role.
var takesSystem = lazy.New(`claude-(opus-(4-([89]|[1-9]\d)\b|[5-9])|sonnet-(5-[5-9]|[6-9])|(fable|mythos)-[5-9])`)

// systemMessage checks a message of that role.
func (r *referee) systemMessage(i int, before transcript.Role) {
	switch {
	case !takesSystem.Get().MatchString(r.req.Model):
		r.flag("role", i, -1, "messages.%d: role 'system' is not supported on this model", i)
	case before != transcript.RoleUser:
		r.flag("role", i, -1, "messages.%d: a `system` message must follow a `user` message", i)
	}
	for j, b := range r.req.Messages[i].Content {
		if _, text := b.(transcript.TextBlock); !text {
			r.flag("block-role", i, j, "messages.%d: `system` messages can only have `text` blocks", i)
		}
	}
}

func (r *referee) ends() {
	n := len(r.req.Messages)
	if n == 0 {
		r.flag("messages", -1, -1, "messages: at least one message is required")
		return
	}
	if r.req.Messages[n-1].Role == transcript.RoleAssistant && !r.paused(n-1) {
		r.flag("prefill", n-1, -1, "This model does not support assistant message prefill. The conversation must end with a user message.")
	}
}

// paused reports whether message i is an answer that the provider stopped
// inside a tool of its own, to be sent back unchanged (pause_turn).
func (r *referee) paused(i int) bool {
	m := r.req.Messages[i]
	if i != len(r.req.Messages)-1 || m.Role != transcript.RoleAssistant || len(m.Content) == 0 {
		return false
	}
	raw, ok := m.Content[len(m.Content)-1].(transcript.RawBlock)
	return ok && ofServer(raw)
}

// calls checks that the calls of message i are answered as they must be.
func (r *referee) calls(i int) {
	m := r.req.Messages[i]
	if m.Role != transcript.RoleAssistant || !callsTools(m) {
		return
	}
	var next []transcript.Block
	if i+1 < len(r.req.Messages) && r.req.Messages[i+1].Role == transcript.RoleUser {
		next = r.req.Messages[i+1].Content
	}
	first, later := &r.first, &r.later // answered at the start of the next message, or not
	first.reset()
	later.reset()
	for leading, j := true, 0; j < len(next); j++ {
		res, ok := next[j].(transcript.ToolResultBlock)
		switch leading = leading && ok; {
		case leading:
			first.add(res.CallID)
		case ok:
			later.add(res.CallID)
		}
	}
	var missing, late []string
	for _, b := range m.Content {
		if call, ok := b.(transcript.ToolCallBlock); ok && !first.has(call.ID) {
			if later.has(call.ID) {
				late = append(late, call.ID)
			} else {
				missing = append(missing, call.ID)
			}
		}
	}
	const without = "messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
	if len(missing) > 0 {
		r.flag("missing-result", i, -1, without, i, strings.Join(missing, ", "))
	}
	if len(late) > 0 {
		r.flag("result-order", i+1, -1, without, i, strings.Join(late, ", "))
	}
}

// results checks that the results in message i answer calls of the previous
// message, each once.
func (r *referee) results(i int) {
	m := r.req.Messages[i]
	if m.Role != transcript.RoleUser {
		return
	}
	calls := &r.first
	calls.reset()
	toolsets := map[string]string{} // of calls that have one
	if i > 0 && r.req.Messages[i-1].Role == transcript.RoleAssistant {
		for _, b := range r.req.Messages[i-1].Content {
			if call, ok := b.(transcript.ToolCallBlock); ok {
				calls.add(call.ID)
				if name := jsonText(call.Extra["toolset_name"]); name != "" {
					toolsets[call.ID] = name
				}
			}
		}
	}
	answered := &r.later
	answered.reset()
	for j, b := range m.Content {
		res, ok := b.(transcript.ToolResultBlock)
		if !ok {
			continue
		}
		switch p := (place{i, j, -1}); {
		case !calls.has(res.CallID):
			r.flagAt(p, "orphan-result", "", "unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", res.CallID)
		case answered.has(res.CallID):
			r.flagAt(p, "doubled-result", "", "each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", res.CallID)
		default:
			answered.add(res.CallID)
			if got, want := jsonText(res.Extra["toolset_name"]), toolsets[res.CallID]; got != want {
				r.flagAt(p, "toolset", "", "`toolset_name` %q does not match that of the `tool_use` block, %q", got, want)
			}
		}
	}
}

// thinkingOrder checks that message i does not end with reasoning.
func (r *referee) thinkingOrder(i int) {
	m := r.req.Messages[i]
	if m.Role != transcript.RoleAssistant || len(m.Content) == 0 {
		return
	}
	if last := m.Content[len(m.Content)-1]; isReasoning(last) {
		r.flag("thinking-order", i, len(m.Content)-1, "messages.%d: The final block in an assistant message cannot be `%s`.", i, last.BlockType())
	}
}

func callsTools(m transcript.Message) bool {
	for _, b := range m.Content {
		if _, ok := b.(transcript.ToolCallBlock); ok {
			return true
		}
	}
	return false
}

func isReasoning(b transcript.Block) bool {
	switch b.(type) {
	case transcript.ThinkingBlock, transcript.RedactedThinkingBlock:
		return true
	}
	return false
}

// visible reports whether s has a character that is not white space or one of
// the separators U+001C to U+001F.
func visible(s string) bool {
	for _, r := range s {
		if !unicode.IsSpace(r) && (r < 0x1c || r > 0x1f) {
			return true
		}
	}
	return false
}

// isWord reports whether s matches ^[a-zA-Z0-9_-]+$.
func isWord(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return s != ""
}
