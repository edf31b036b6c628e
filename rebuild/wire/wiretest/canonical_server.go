package wiretest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// The blocks of tools that the provider runs itself. A transcript holds them
// as raw blocks.
func serverCall(kind string) bool { return kind == "server_tool_use" || kind == "mcp_tool_use" }

func serverResult(kind string) bool {
	switch kind {
	case "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result",
		"bash_code_execution_tool_result", "text_editor_code_execution_tool_result",
		"tool_search_tool_result", "advisor_tool_result", "mcp_tool_result":
		return true
	}
	return false
}

// ofServer reports whether a block is a call that the provider runs or a result, of a
// type that may be newer than this.
func ofServer(b transcript.RawBlock) bool {
	m, _ := members(b.JSON)
	return serverCall(b.BlockType()) || m["input"] != nil || m["tool_use_id"] != nil
}

// raw checks a block that package transcript has no type for.
func (r *referee) raw(p place, role transcript.Role, b transcript.RawBlock) {
	kind := b.BlockType()
	m, ok := members(b.JSON)
	if !ok {
		r.flagAt(p, "block-type", "", "Input should be a valid dictionary")
		return
	}
	delete(m, "type")
	need := func(name string, ok bool) {
		if !ok {
			r.flagAt(p, "block-type", kind+"."+name, "Field required")
		}
		delete(m, name)
	}
	var optional []string
	switch {
	case serverCall(kind):
		r.only(p, role, transcript.RoleAssistant, kind)
		prefix := "srvtoolu_"
		if kind == "mcp_tool_use" {
			prefix = "mcptoolu_"
			need("server_name", jsonText(m["server_name"]) != "")
		}
		id := jsonText(m["id"])
		if rest, ok := strings.CutPrefix(id, prefix); !ok || !isWord(rest) {
			r.flagAt(p, "server-tool", kind+".id", "String should match pattern '^%s[a-zA-Z0-9_]+$'", prefix)
		}
		r.unique(p, id)
		r.name(p, kind+".name", jsonText(m["name"]))
		r.input(p, kind+".input", m["input"])
		for _, name := range []string{"id", "name", "input"} {
			delete(m, name)
		}
		optional = []string{"cache_control", "caller"}
	case serverResult(kind):
		r.only(p, role, transcript.RoleAssistant, kind)
		need("tool_use_id", jsonText(m["tool_use_id"]) != "")
		need("content", !isNull(m["content"]))
		if kind == "mcp_tool_result" {
			delete(m, "is_error")
		}
		optional = []string{"cache_control", "caller"}
	case kind == "search_result":
		r.only(p, role, transcript.RoleUser, kind)
		need("source", jsonText(m["source"]) != "")
		need("title", jsonText(m["title"]) != "")
		need("content", isTexts(m["content"]))
		optional = []string{"cache_control", "citations"}
	case kind == "compaction":
		r.only(p, role, transcript.RoleAssistant, kind)
		_, given := m["content"]
		need("content", given)
		optional = []string{"cache_control"}
		for _, name := range []string{"signature", "encrypted_content", "tool_changes"} {
			delete(m, name)
		}
	case kind == "fallback":
		r.only(p, role, transcript.RoleAssistant, kind)
		need("to", !isNull(m["to"]))
		delete(m, "trigger")
		delete(m, "from")
	case kind == "container_upload":
		need("file_id", jsonText(m["file_id"]) != "")
		optional = []string{"cache_control"}
	default:
		// A type that package transcript knows is raw when it has not the
		// members of its type.
		// Blocks of an answer may be of types that are newer than this.
		switch kind {
		case "text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking":
			r.flagAt(p, "block-type", kind, "Field required")
		default:
			if role == transcript.RoleAssistant && p.inner < 0 && kind != "" && kind != "context" {
				return
			}
			r.unknown(p, kind, "'document', 'image', 'redacted_thinking', 'search_result', 'server_tool_use', 'text', 'thinking', 'tool_result', 'tool_use'")
		}
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		r.member(p, kind, name, m[name], optional)
	}
}

// isTexts reports whether value is a list of text blocks that are not blank.
func isTexts(value json.RawMessage) bool {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil || len(list) == 0 {
		return false
	}
	for _, e := range list {
		if m, _ := members(e); jsonText(m["type"]) != "text" || !visible(jsonText(m["text"])) {
			return false
		}
	}
	return true
}

// serverTools checks that the provider's own tools are paired in message i.
func (r *referee) serverTools(i int) {
	type use struct {
		id, name string
		answered bool
	}
	var uses []use
	for j, b := range r.req.Messages[i].Content {
		raw, ok := b.(transcript.RawBlock)
		if !ok {
			continue
		}
		kind := raw.BlockType()
		m, _ := members(raw.JSON)
		switch {
		case serverCall(kind), m["input"] != nil: // those that are newer than this too
			uses = append(uses, use{id: jsonText(m["id"]), name: jsonText(m["name"])})
		case m["tool_use_id"] != nil:
			id := jsonText(m["tool_use_id"])
			k := slices.IndexFunc(uses, func(u use) bool { return u.id == id && !u.answered })
			if k < 0 {
				r.flagAt(place{i, j, -1}, "server-tool", "", "unexpected `tool_use_id` found in `%s` blocks: %s. Each `%s` block must have a corresponding `server_tool_use` block before it.", kind, id, kind)
				continue
			}
			uses[k].answered = true
		}
	}
	if r.paused(i) {
		return
	}
	for _, u := range uses {
		if !u.answered {
			r.flag("server-tool", i, -1, "messages.%d: `%s` tool use with id `%s` was found without a corresponding `%s_tool_result` block", i, u.name, u.id, u.name)
		}
	}
}
