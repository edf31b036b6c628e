package wire

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Raw blocks that the API takes back, with the members it knows.
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

// isUnknown reports whether a block of an answer is of a type that only its maker
// knows, and whole: that goes back as it came, byte for byte.
func isUnknown(b transcript.RawBlock) bool {
	switch kind := b.BlockType(); kind {
	case "", "text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking", "context",
		opaqueGemini, opaqueBedrock:
		return false // without a member that the type has, or not of this API
	default:
		return rawMembers[kind] == nil && standAlone[kind] == "" && hasEachOnce(b.JSON)
	}
}

// hasEachOnce reports whether no member of an object is there twice.
func hasEachOnce(obj []byte) bool {
	seen := map[string]bool{}
	for name := range jsontext.Members(obj) {
		if seen[name] {
			return false
		}
		seen[name] = true
	}
	return len(seen) > 0
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
	return ok && (serverIDs[raw.BlockType()] != "" || isServerResult(raw) || isUnknownCall(raw))
}

// isServerResult reports whether b says that it is the result of such a call, of
// a tool that is known or not.
func isServerResult(b transcript.RawBlock) bool {
	kind := b.BlockType()
	return (isUnknown(b) || strings.HasSuffix(kind, "_tool_result") && rawMembers[kind] != nil) && stringMember(b.JSON, "tool_use_id") != ""
}

// isUnknownCall reports whether b looks like a call that the provider runs, of a type
// that is not known.
func isUnknownCall(b transcript.RawBlock) bool {
	return get(b.JSON, "input") != nil && stringMember(b.JSON, "id") != "" && isUnknown(b)
}

// A half says how an opaque block goes back: with the other half of its pair, which
// has the same ID, or alone.
type half struct {
	id          string
	call, alone bool
}

// pairs returns the indexes of the opaque blocks of an answer that go back: those of
// whole pairs of a call that the provider ran and its result, and those that stand
// alone. open has the calls without results by their IDs.
func (r *renderer) pairs(m transcript.Message, of func(b transcript.RawBlock) half) (keep map[int]bool, open map[string]int) {
	if !slices.ContainsFunc(m.Content, isType[transcript.RawBlock]) {
		return nil, nil
	}
	keep, open = map[int]bool{}, map[string]int{}
	for j, b := range m.Content {
		raw, ok := b.(transcript.RawBlock)
		if !ok || !r.native(originOf(m, j)) || !jsontext.Valid(raw.JSON) {
			continue
		}
		h := of(raw)
		call, found := open[h.id]
		switch {
		case h.alone:
			keep[j] = true
		case h.call && !found && h.id != "" && !r.ids.used[h.id]:
			open[h.id] = j
		case !h.call && found:
			keep[call], keep[j] = true, true
			delete(open, h.id)
			r.ids.take(h.id)
		}
	}
	return keep, open
}

// serverPairs returns those of answer i.
func (r *renderer) serverPairs(i int, m transcript.Message) map[int]bool {
	keep, open := r.pairs(m, func(b transcript.RawBlock) half {
		switch {
		case isServerCall(b), isUnknownCall(b):
			return half{id: stringMember(b.JSON, "id"), call: true}
		case !isServerResult(b):
			must := standAlone[b.BlockType()]
			return half{alone: must != "" && get(b.JSON, must) != nil || isUpload(b) || isUnknown(b)}
		case isUnknown(b) || !jsontext.IsNull(get(b.JSON, "content")):
			return half{id: stringMember(b.JSON, "tool_use_id")}
		}
		return half{}
	})
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

// isServerCall reports whether b is a whole call of a provider's own tool.
func isServerCall(b transcript.RawBlock) bool {
	kind := b.BlockType()
	rest, ok := strings.CutPrefix(stringMember(b.JSON, "id"), serverIDs[kind])
	return serverIDs[kind] != "" && ok && isID(rest) && isID(stringMember(b.JSON, "name")) && jsontext.IsObject(get(b.JSON, "input")) &&
		(kind != "mcp_tool_use" || stringMember(b.JSON, "server_name") != "")
}

// isSearchResult reports whether obj is a search result that a user or a tool
// gives: a source, a title and texts.
func isSearchResult(obj []byte) bool {
	if !jsontext.Valid(obj) || stringMember(obj, "type") != "search_result" ||
		stringMember(obj, "source") == "" || stringMember(obj, "title") == "" {
		return false
	}
	content := elements(get(obj, "content"))
	return len(content) > 0 && !slices.ContainsFunc(content, func(e json.RawMessage) bool {
		return stringMember(e, "type") != "text" || rebuild.IsBlank(stringMember(e, "text"))
	})
}

// rawBlock returns b without members that the API does not know, if they are known.
func (r *renderer) rawBlock(entry string, b transcript.RawBlock) transcript.Block {
	kind := b.BlockType()
	if rawMembers[kind] == nil {
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
