package wire

import (
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Raw blocks that the API takes back, with the members it knows. Anything else
// is opaque and goes nowhere.
var rawMembers = map[string][]string{
	"server_tool_use": {"id", "name", "input", cacheControl, "caller"},
	"mcp_tool_use":    {"id", "name", "server_name", "input", cacheControl, "caller"},
	"search_result":   {"source", "title", "content", "citations", cacheControl},

	"container_upload": {"file_id", cacheControl},

	"web_search_tool_result":                 serverResult,
	"web_fetch_tool_result":                  serverResult,
	"code_execution_tool_result":             serverResult,
	"bash_code_execution_tool_result":        serverResult,
	"text_editor_code_execution_tool_result": serverResult,
	"tool_search_tool_result":                serverResult,
	"advisor_tool_result":                    serverResult,
	"mcp_tool_result":                        append(slices.Clone(serverResult), "is_error"),
}

// standAlone are the blocks that go back to their maker as they came, byte for byte,
// with the member that they must have: the summary of a compaction that the provider
// made, and the place where another model has taken the answer over.
var standAlone = map[string]string{"compaction": "content", "fallback": "to"}

// isWholeAlone reports whether a block is one of those and has its member.
func isWholeAlone(b transcript.RawBlock) bool {
	must, ok := standAlone[b.BlockType()]
	_, given := jsontext.Member(b.JSON, must)
	return ok && given
}

// isUpload reports whether a block says that a file is in the container of the
// provider's code execution. A user or an answer may have it.
func isUpload(b transcript.RawBlock) bool {
	return b.BlockType() == "container_upload" && jsontext.Valid(b.JSON) && stringMember(b.JSON, "file_id") != ""
}

var serverResult = []string{"tool_use_id", "content", cacheControl, "caller"}

// serverIDs holds how the IDs of calls that the provider runs itself begin.
var serverIDs = map[string]string{"server_tool_use": "srvtoolu_", "mcp_tool_use": "mcptoolu_"}

// isServerTool reports whether b is a call of a provider's own tool or a result.
func isServerTool(b transcript.Block) bool {
	raw, ok := b.(transcript.RawBlock)
	if !ok {
		return false
	}
	kind := raw.BlockType()
	_, call := serverIDs[kind]
	return call || strings.HasSuffix(kind, "_tool_result") && rawMembers[kind] != nil
}

// serverPairs returns the indexes of the blocks of answer i that belong to
// whole pairs of a call that the provider ran and its result, and of those that
// stand alone.
func (r *renderer) serverPairs(i int, m transcript.Message) map[int]bool {
	var keep map[int]bool
	open := map[string]int{} // index of the call by its ID
	for j, b := range m.Content {
		raw, ok := b.(transcript.RawBlock)
		if !ok || !r.native(originOf(m, j)) || !jsontext.Valid(raw.JSON) {
			continue
		}
		if keep == nil {
			keep = map[int]bool{}
		}
		kind := raw.BlockType()
		if isWholeAlone(raw) || isUpload(raw) {
			keep[j] = true
			continue
		}
		if prefix, call := serverIDs[kind]; call {
			if id := stringMember(raw.JSON, "id"); isServerCall(kind, prefix, raw.JSON) && !r.ids.used[id] {
				if _, twice := open[id]; !twice {
					open[id] = j
				}
			}
			continue
		}
		id := stringMember(raw.JSON, "tool_use_id")
		content, _ := jsontext.Member(raw.JSON, "content")
		if call, found := open[id]; found && isServerTool(raw) && !jsontext.IsNull(content) {
			keep[call], keep[j] = true, true
			delete(open, id)
			r.ids.take(id)
		}
	}
	// An answer that the provider paused ends with a call or a result of its
	// own and is continued as it is.
	if n := len(m.Content); i == len(r.req.Messages)-1 && n > 0 && isServerTool(m.Content[n-1]) {
		for id, j := range open {
			keep[j] = true
			r.ids.take(id)
		}
	}
	return keep
}

func isServerCall(kind, prefix string, obj []byte) bool {
	rest, ok := strings.CutPrefix(stringMember(obj, "id"), prefix)
	input, _ := jsontext.Member(obj, "input")
	return ok && isID(rest) && isID(stringMember(obj, "name")) && jsontext.IsObject(input) &&
		(kind != "mcp_tool_use" || stringMember(obj, "server_name") != "")
}

// isSearchResult reports whether obj is a search result that a user or a tool
// gives: a source, a title and texts.
func isSearchResult(obj []byte) bool {
	if !jsontext.Valid(obj) || stringMember(obj, "type") != "search_result" ||
		stringMember(obj, "source") == "" || stringMember(obj, "title") == "" {
		return false
	}
	content, _ := jsontext.Member(obj, "content")
	n := 0
	for e := range jsontext.Elements(content) {
		if stringMember(e, "type") != "text" || isBlank(stringMember(e, "text")) {
			return false
		}
		n++
	}
	return n > 0
}

// rawBlock returns b without the members that the API does not know.
func (r *renderer) rawBlock(entry string, b transcript.RawBlock) transcript.Block {
	kind := b.BlockType()
	if standAlone[kind] != "" {
		return b
	}
	return filterMembers(b, func(name string, value []byte) bool {
		ok := name == "type" || slices.Contains(rawMembers[kind], name)
		switch name {
		case cacheControl, "caller", "citations":
			ok = ok && shaped(kind, name, value)
		}
		if !ok && name != "ext" {
			r.note(rebuild.DroppedMember, entry, name+" of a "+kind+" block")
		}
		return ok
	})
}

// filterMembers returns b with the members that keep wants, in their order.
func filterMembers(b transcript.RawBlock, keep func(name string, value []byte) bool) transcript.Block {
	o := jsontext.AppendObject(nil)
	changed := false
	for name, value := range jsontext.Members(b.JSON) {
		if keep(name, value) {
			o.Value(name, value)
		} else {
			changed = true
		}
	}
	if !changed {
		return b
	}
	return transcript.RawBlock{JSON: o.End()}
}
