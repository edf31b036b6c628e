package wiretest

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// The blocks of tools that the provider runs itself. A transcript holds them
// as raw blocks.
func serverCall(kind string) bool { return kind == "server_tool_use" || kind == "mcp_tool_use" }

// ofServer reports whether a block is a call that the provider runs or a result, of a
// type that may be newer than this.
func ofServer(b transcript.RawBlock) bool {
	m, _ := members(b.JSON)
	return serverCall(b.BlockType()) || m["input"] != nil || m["tool_use_id"] != nil
}

// serverCall checks a call that the provider runs, and takes what it checks from its
// members.
func (r *referee) serverCall(p place, kind string, m map[string]json.RawMessage) {
	prefix := "srvtoolu_"
	if kind == "mcp_tool_use" {
		prefix = "mcptoolu_"
	}
	id := jsonText(m["id"])
	rest, ok := strings.CutPrefix(id, prefix)
	r.wantAt(ok && isWord(rest), p, "server-tool", kind+".id", "String should match pattern '^%s[a-zA-Z0-9_]+$'", prefix)
	r.call(p, kind, id, jsonText(m["name"]), m["input"])
	for _, name := range []string{"id", "name", "input"} {
		delete(m, name)
	}
}

// serverTools checks that the provider's own tools are paired in message i.
func (r *referee) serverTools(i int) {
	type use struct{ id, name string }
	var open []use
	for j, b := range r.req.Messages[i].Content {
		raw, ok := b.(transcript.RawBlock)
		if !ok {
			continue
		}
		kind := raw.BlockType()
		m, _ := members(raw.JSON)
		switch {
		case serverCall(kind), m["input"] != nil: // those that are newer than this too
			open = append(open, use{jsonText(m["id"]), jsonText(m["name"])})
		case m["tool_use_id"] != nil:
			id := jsonText(m["tool_use_id"])
			k := slices.IndexFunc(open, func(u use) bool { return u.id == id })
			if r.wantAt(k >= 0, place{i, j, -1}, "server-tool", "", "unexpected `tool_use_id` found in `%s` blocks: %s. Each `%s` block must have a corresponding `server_tool_use` block before it.", kind, id, kind) {
				open = slices.Delete(open, k, k+1)
			}
		}
	}
	for _, u := range open {
		r.want(r.paused(i), "server-tool", i, -1, "messages.%d: `%s` tool use with id `%s` was found without a corresponding `%s_tool_result` block", i, u.name, u.id, u.name)
	}
}
