package messages

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// Raw blocks that the API takes back, with the members it knows.
var rawMembers = map[string][]string{
	"server_tool_use": {"id", "name", "input", CacheControl, "caller"},
	"mcp_tool_use":    {"id", "name", "server_name", "input", CacheControl, "caller"},
	"search_result":   {"source", "title", "content", "citations", CacheControl},

	"container_upload": {"file_id", CacheControl},

	"web_search_tool_result":                 serverResult,
	"web_fetch_tool_result":                  serverResult,
	"code_execution_tool_result":             serverResult,
	"bash_code_execution_tool_result":        serverResult,
	"text_editor_code_execution_tool_result": serverResult,
	"tool_search_tool_result":                serverResult,
	"advisor_tool_result":                    serverResult,
	"mcp_tool_result":                        append(slices.Clone(serverResult), "is_error"),
}

// standAlone maps the blocks that go back to their maker byte for byte to the member
// that they must have: the summary of a provider's compaction, and the place where
// another model took the answer over.
var standAlone = map[string]string{"compaction": "content", "fallback": "to"}

// isUnknown reports whether a block of an answer is whole and of a type that only
// its maker knows. It then goes back byte for byte.
func isUnknown(b transcript.RawBlock) bool {
	switch kind := transcript.BlockType(b); kind {
	case "", "text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking", "context", "tool_reference",
		format.OpaqueGemini, format.OpaqueBedrock:
		return false // incomplete, or not of this API
	default:
		return rawMembers[kind] == nil && standAlone[kind] == "" && js.HasEachOnce(b.JSON)
	}
}

// isUpload reports whether a block announces a file in the container of the
// provider's code execution. A user or an answer may have it.
func isUpload(b transcript.RawBlock) bool {
	return transcript.BlockType(b) == "container_upload" && jsontext.Valid(b.JSON) && js.String(b.JSON, "file_id") != ""
}

var serverResult = []string{"tool_use_id", "content", CacheControl, "caller"}

// ServerIDs holds the prefixes of IDs of calls that the provider runs itself.
var ServerIDs = map[string]string{"server_tool_use": "srvtoolu_", "mcp_tool_use": "mcptoolu_"}

// isServerTool reports whether b is a provider's own tool call or its result.
func isServerTool(b transcript.Block) bool {
	raw, ok := b.(transcript.RawBlock)
	return ok && (ServerIDs[transcript.BlockType(raw)] != "" || isServerResult(raw) || isUnknownCall(raw))
}

// isServerResult reports whether b is the result of such a call, even for an
// unknown tool.
func isServerResult(b transcript.RawBlock) bool {
	kind := transcript.BlockType(b)
	return (isUnknown(b) || strings.HasSuffix(kind, "_tool_result") && rawMembers[kind] != nil) && js.String(b.JSON, "tool_use_id") != ""
}

// isUnknownCall reports whether b looks like a provider's own call of an unknown
// type.
func isUnknownCall(b transcript.RawBlock) bool {
	return js.Get(b.JSON, "input") != nil && js.String(b.JSON, "id") != "" && isUnknown(b)
}

// A Half describes how an opaque block goes back: with the other half of its pair,
// by ID, or alone.
type Half struct {
	ID          string
	Call, Alone bool
}

// Pairs returns the indexes of an answer's opaque blocks that go back: pairs of a
// call that the provider ran and its result, and single blocks. open maps IDs of
// calls without results to indexes.
func (r *Renderer) Pairs(m transcript.Message, of func(b transcript.RawBlock) Half) (keep map[int]bool, open map[string]int) {
	if !slices.ContainsFunc(m.Content, format.IsType[transcript.RawBlock]) {
		return nil, nil
	}
	keep, open = map[int]bool{}, map[string]int{}
	closed := map[string]bool{}
	for j, b := range m.Content {
		h := r.half(format.OriginOf(m, j), b, of)
		call, found := open[h.ID]
		switch {
		case h.Alone:
			keep[j] = true
		case h.Call && !found && h.ID != "" && !r.IDs.Used[h.ID]:
			open[h.ID] = j
		case !h.Call && found:
			keep[call], keep[j] = true, true
			delete(open, h.ID)
			r.IDs.Used[h.ID] = true
		case !h.Call && r.waiting[h.ID] && !closed[h.ID]:
			keep[j], closed[h.ID] = true, true
		}
	}
	return keep, open
}

// half returns how an opaque block goes back, if a model made it that makes such blocks for
// the target. Blocks that only their maker knows go only to it.
func (r *Renderer) half(o transcript.Origin, b transcript.Block, of func(transcript.RawBlock) Half) (h Half) {
	raw, ok := b.(transcript.RawBlock)
	if !ok || !r.Kin(o) || !jsontext.Valid(raw.JSON) {
		return Half{}
	}
	if h = of(raw); !r.Native(o) && (h.Alone || isUnknown(raw) && r.API == format.APIAnthropic) {
		return Half{}
	}
	return h
}

// ServerPairs returns the pairs of answer i, and the calls without a result that stay.
func (r *Renderer) ServerPairs(i int, m transcript.Message) map[int]bool {
	keep, open := r.Pairs(m, serverHalf)
	for id, j := range open {
		if at, stays := r.stays[id]; stays && at == i {
			keep[j] = true
			r.IDs.Used[id] = true
		}
	}
	return keep
}

func serverHalf(b transcript.RawBlock) Half {
	switch {
	case isServerCall(b), isUnknownCall(b):
		return Half{ID: js.String(b.JSON, "id"), Call: true}
	case !isServerResult(b):
		must := standAlone[transcript.BlockType(b)]
		return Half{Alone: must != "" && js.Get(b.JSON, must) != nil || isUpload(b) || isUnknown(b)}
	case isUnknown(b) || !jsontext.IsNull(js.Get(b.JSON, "content")):
		return Half{ID: js.String(b.JSON, "tool_use_id")}
	}
	return Half{}
}

// staying returns the provider's calls that stay although their answer lacks the result,
// with the index of the answer. The result is in the next answer, or in a later one if the
// code calls the client's tools in all answers between; or it can still come. User
// messages between them hold only results: other blocks end the code. At the end the API
// wants the container of code that waits.
func (r *Renderer) staying() map[string]int {
	stays, waiting := map[string]int{}, map[string]int{}
	codes, seen := map[string]bool{}, map[string]bool{}
	for i, m := range r.Req.Messages {
		if m.Role == transcript.RoleUser {
			if slices.ContainsFunc(m.Content, func(b transcript.Block) bool { return !format.IsType[transcript.ToolResultBlock](b) }) {
				clear(waiting)
			}
			continue
		}
		called, stood := map[string]bool{}, false // by this answer; whether its last block stays
		for j, b := range m.Content {
			o := format.OriginOf(m, j)
			if call, ok := b.(transcript.ToolCallBlock); ok && r.Kin(o) {
				r.container = cmp.Or(js.Opt(js.String(call.Extra["ext"], "container")), r.container)
				id := js.String(call.Extra["caller"], "tool_id")
				called[id], codes[id] = true, true
			}
			h := r.half(o, b, serverHalf)
			at, open := waiting[h.ID]
			if stood = h.Call && !open && !seen[h.ID]; stood {
				waiting[h.ID], called[h.ID], seen[h.ID] = i, true, true
			} else if stood = h.ID != "" && !h.Call && open; stood {
				stays[h.ID] = at
				delete(waiting, h.ID)
			}
		}
		for _, call := range m.ToolCalls() {
			seen[call.ID] = true
		}
		if !format.HasCalls(m.Content) && (i < len(r.Req.Messages)-1 || !stood) {
			clear(called)
		}
		maps.DeleteFunc(waiting, func(id string, _ int) bool { return !called[id] })
	}
	for id, at := range waiting {
		if r.container != "" || !codes[id] {
			stays[id] = at
		}
	}
	return stays
}

// isCaller reports whether a value names code that called a tool and still runs.
func (r *Renderer) isCaller(value []byte) bool {
	id := js.String(value, "tool_id")
	return id == "" || r.waiting[id]
}

// Container returns the ID of the container in which code waits for the last results.
func (r *Renderer) Container() (id js.Opt) {
	if len(r.waiting) > 0 {
		id = r.container
	}
	return id
}

// isServerCall reports whether b is a complete call of a provider's own tool.
func isServerCall(b transcript.RawBlock) bool {
	kind := transcript.BlockType(b)
	rest, ok := strings.CutPrefix(js.String(b.JSON, "id"), ServerIDs[kind])
	return ServerIDs[kind] != "" && ok && format.IsID(rest) && format.IsID(js.String(b.JSON, "name")) && jsontext.IsObject(js.Get(b.JSON, "input")) &&
		(kind != "mcp_tool_use" || js.String(b.JSON, "server_name") != "")
}

// rawBlock returns b without members that the API does not know, if its type is known.
func (r *Renderer) rawBlock(entry string, b transcript.RawBlock) transcript.Block {
	if h := serverHalf(b); h.Call {
		r.waiting[h.ID] = true
	} else {
		defer delete(r.waiting, h.ID)
	}
	kind := transcript.BlockType(b)
	if rawMembers[kind] == nil {
		return b
	}
	return FilterMembers(b, func(name string, value []byte) bool {
		ok := name == "type" || slices.Contains(rawMembers[kind], name)
		switch name {
		case CacheControl, "caller", "citations":
			ok = ok && shaped(kind, name, value) && (name != "caller" || r.isCaller(value))
		}
		if !ok && name != "ext" {
			r.Note("dropped-member", entry, name+" of a "+kind+" block")
		}
		return ok
	})
}

// FilterMembers returns b with the members that keep accepts, in order.
func FilterMembers(b transcript.RawBlock, keep func(name string, value []byte) bool) transcript.Block {
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
