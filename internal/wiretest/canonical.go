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
// means that the API will accept the request. Origins are ignored. A history of
// rebuild.Fold that ends with a user message has none.
func Validate(req transcript.Request) []Violation {
	r := referee{judge: judge{req: Request{Request: req}}}
	r.canonical()
	return r.found
}

func (r *referee) canonical() {
	if r.defined == nil {
		r.defined = map[string]bool{}
	}
	r.envelope()
	r.ids = map[string]bool{}
	r.pairs(0)
	for i, m := range r.req.Messages {
		r.role(i)
		if len(m.Content) == 0 {
			r.flag("content", i, -1, "messages.%d: all messages must have non-empty content except for the optional final assistant message", i)
		}
		for j, b := range m.Content {
			r.block(place{message: i, block: j, inner: -1}, m.Role, b)
		}
		r.serverTools(i)
		if last := len(m.Content) - 1; last >= 0 && m.Role == transcript.RoleAssistant && transcript.IsReasoning(m.Content[last]) {
			r.flag("thinking-order", i, last, "messages.%d: The final block in an assistant message cannot be `%s`.", i, transcript.BlockType(m.Content[last]))
		}
		r.pairs(i + 1)
	}
	last := len(r.req.Messages) - 1
	if r.want(last >= 0, "messages", -1, -1, "messages: at least one message is required") {
		r.want(r.req.Messages[last].Role != transcript.RoleAssistant || r.paused(last), "prefill", last, -1,
			"This model does not support assistant message prefill. The conversation must end with a user message.")
	}
	r.want(r.marks <= 4, "marks", -1, -1, "A maximum of 4 blocks with cache_control may be provided. Found %d.", r.marks)
}

// A referee holds the state of a request while it is read.
type referee struct {
	judge
	ids       map[string]bool // of every call so far
	think     thinking
	marks     int
	open      []serverUse     // of the provider's own tools
	contained bool            // the request names a container
	inPath    bool            // the model is in the path, as for Vertex
	defined   map[string]bool // names of tools, the provider's included
}

// wantAt flags a block, or a member of it if path is not empty, unless it is ok.
func (r *referee) wantAt(ok bool, p place, rule, path, format string, args ...any) bool {
	if !ok {
		if path != "" {
			path = "." + path
		}
		r.flag(rule, p.message, p.block, "%s%s: %s", p, path, fmt.Sprintf(format, args...))
	}
	return ok
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

// envelope checks the members other than the messages.
func (r *referee) envelope() {
	r.want(r.req.MaxOutput >= 0, "max-tokens", -1, -1, "max_tokens: Input should be greater than or equal to 1")
	r.want(r.req.System == "" || visible(r.req.System), "system", -1, -1, "system: text content blocks must contain non-whitespace text")
	names := map[string]bool{}
	for i, t := range r.req.Tools {
		r.want(isName(t.Name), "name", -1, -1, "tools.%d.name: "+namePattern, i)
		r.want(!names[t.Name], "tools", -1, -1, "tools: Tool names must be unique.")
		names[t.Name], r.defined[t.Name] = true, true
		schema, ok := members(t.InputSchema)
		if r.want(ok, "tools", -1, -1, "tools.%d.input_schema: Input should be a valid dictionary", i) {
			r.want(jsonText(schema["type"]) == "object", "tools", -1, -1, "tools.%d.input_schema.type: Input should be 'object'", i)
		}
	}
}

// roleSystem is the role of messages that change the system prompt.
const roleSystem transcript.Role = "system"

// takesSystem matches the models that take the role.
var takesSystem = lazy.New(`claude-(opus-(4-([89]|[1-9]\d)\b|[5-9])|(sonnet|haiku)-(5-([5-9]|[1-9]\d)\b|[6-9])|(fable|mythos)-[5-9])`)

func (r *referee) role(i int) {
	before := transcript.Role("")
	if i > 0 {
		before = r.req.Messages[i-1].Role
	}
	m := r.req.Messages[i]
	switch role := m.Role; {
	case role == roleSystem && !takesSystem.Get().MatchString(r.req.Model):
		r.flag("role", i, -1, "messages.%d: role 'system' is not supported on this model", i)
	case role == roleSystem:
		r.want(before == transcript.RoleUser, "role", i, -1, "messages.%d: a `system` message must follow a `user` message", i)
	case role != transcript.RoleUser && role != transcript.RoleAssistant:
		r.flag("role", i, -1, "messages.%d.role: Input should be 'user' or 'assistant'", i)
	case i == 0:
		r.want(role == transcript.RoleUser, "first-user", i, -1, `messages: first message must use the "user" role`)
	case role == before, role == transcript.RoleUser && before == roleSystem:
		r.flag("alternation", i, -1, `messages: roles must alternate between "user" and "assistant", but found multiple %q roles in a row`, role)
	}
	for j, b := range m.Content {
		if _, text := b.(transcript.TextBlock); !text && m.Role == roleSystem {
			r.flag("block-role", i, j, "messages.%d: `system` messages can only have `text` blocks", i)
		}
	}
}

// paused reports whether message i is an answer that the provider stopped inside its
// own tool, to be sent back unchanged (pause_turn): its last block is a call that the
// provider runs, or its result, of any type, even a new one.
func (r *referee) paused(i int) bool {
	content := r.content(i, transcript.RoleAssistant)
	if i != len(r.req.Messages)-1 || len(content) == 0 {
		return false
	}
	raw, _ := content[len(content)-1].(transcript.RawBlock)
	m, _ := members(raw.JSON)
	return serverCall(jsonText(m["type"])) || m["input"] != nil || m["tool_use_id"] != nil
}

// content returns the content of message i if it has that role.
func (r *referee) content(i int, role transcript.Role) []transcript.Block {
	if i < 0 || i >= len(r.req.Messages) || r.req.Messages[i].Role != role {
		return nil
	}
	return r.req.Messages[i].Content
}

// pairs checks that message i begins with the results of the calls in the message
// before it, each once.
func (r *referee) pairs(i int) {
	calls := transcript.Message{Content: r.content(i-1, transcript.RoleAssistant)}.ToolCalls()
	content := r.content(i, transcript.RoleUser)
	result := func(id string) int { // the first result of a call
		return slices.IndexFunc(content, func(b transcript.Block) bool {
			res, ok := b.(transcript.ToolResultBlock)
			return ok && res.CallID == id
		})
	}
	var missing, late []string
	for _, call := range calls {
		switch j := result(call.ID); {
		case j < 0:
			missing = append(missing, call.ID)
		case slices.ContainsFunc(content[:j], isNoResult):
			late = append(late, call.ID)
		}
	}
	const without = "messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
	if missing != nil {
		r.flag("missing-result", i-1, -1, without, i-1, strings.Join(missing, ", "))
	}
	if late != nil {
		r.flag("result-order", i, -1, without, i-1, strings.Join(late, ", "))
	}
	for j, b := range content {
		res, ok := b.(transcript.ToolResultBlock)
		if !ok {
			continue
		}
		p := place{i, j, -1}
		k := slices.IndexFunc(calls, func(call transcript.ToolCallBlock) bool { return call.ID == res.CallID })
		if r.wantAt(k >= 0, p, "orphan-result", "", "unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", res.CallID) &&
			r.wantAt(result(res.CallID) == j, p, "doubled-result", "", "each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", res.CallID) {
			got, want := jsonText(res.Extra["toolset_name"]), jsonText(calls[k].Extra["toolset_name"])
			r.wantAt(got == want, p, "toolset", "", "`toolset_name` %q does not match that of the `tool_use` block, %q", got, want)
		}
	}
}

// A serverUse is a call that the provider runs, so far without its result.
type serverUse struct {
	id, name string
	at       int  // index of its answer
	codes    bool // code that called the client's tools
}

// serverTools checks the provider's own tools in message i: a result follows its call in
// one answer, or, if that answer also calls the client, in the next answer, unless code
// calls the client again there. The client's messages between them hold only results
// (platform.claude.com/docs: programmatic-tool-calling, handle-tool-calls).
func (r *referee) serverTools(i int) {
	m := r.req.Messages[i]
	calling := map[string]bool{}
	for j, b := range m.Content {
		call, isCall := b.(transcript.ToolCallBlock)
		raw, isRaw := b.(transcript.RawBlock)
		if !isCall && !isRaw {
			continue
		}
		p, kind := place{i, j, -1}, transcript.BlockType(b)
		block, _ := members(raw.JSON)
		value := block["caller"]
		if isCall {
			value = call.Extra["caller"]
		}
		caller, _ := members(value)
		if id := jsonText(caller["tool_id"]); id != "" {
			k := r.opened(id)
			if r.wantAt(k >= 0, p, "server-tool", kind+".caller", "tool_id %s does not name code that is running", id) && isCall {
				calling[id], r.open[k].codes = true, true
			}
		}
		switch {
		case serverCall(kind), block["input"] != nil: // new types as well
			r.open = append(r.open, serverUse{id: jsonText(block["id"]), name: jsonText(block["name"]), at: i})
		case block["tool_use_id"] != nil:
			id := jsonText(block["tool_use_id"])
			k := r.opened(id)
			if r.wantAt(k >= 0, p, "server-tool", "", "unexpected `tool_use_id` found in `%s` blocks: %s. Each `%s` block must have a corresponding `server_tool_use` block before it.", kind, id, kind) {
				r.open = slices.Delete(r.open, k, k+1)
			}
		}
	}
	calls := len(m.ToolCalls()) > 0
	r.open = slices.DeleteFunc(r.open, func(u serverUse) bool {
		waits := r.paused(i) || m.Role == ofUser && !slices.ContainsFunc(m.Content, isNoResult) || m.Role == ofAssistant && (u.at == i && calls || calling[u.id])
		return !r.want(waits, "server-tool", i, -1, "messages.%d: `%s` tool use with id `%s` was found without a corresponding `%s_tool_result` block", i, u.name, u.id, u.name)
	})
}

// opened returns the index of an open call, or -1.
func (r *referee) opened(id string) int {
	return slices.IndexFunc(r.open, func(u serverUse) bool { return u.id == id })
}

func isNoResult(b transcript.Block) bool {
	_, ok := b.(transcript.ToolResultBlock)
	return !ok
}

// visible reports whether s has a character other than white space and the
// separators U+001C to U+001F.
func visible(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsSpace(r) && (r < 0x1c || r > 0x1f) })
}

const (
	maxName     = 64 // characters of a name or an ID
	wordPattern = "String should match pattern '^[a-zA-Z0-9_-]+$'"
	namePattern = "String should match pattern '^[a-zA-Z0-9_-]{1,64}$'"
)

var word = lazy.New(`^[a-zA-Z0-9_-]+$`)

func isWord(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

func isName(s string) bool { return isWord(s) && len(s) <= maxName }
