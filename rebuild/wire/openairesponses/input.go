package openairesponses

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/rebuild/wire/internal/openai"
	"github.com/convolog/convolog/transcript"
)

// A renderer turns the messages of one request into the items of the
// Responses API.
type renderer struct {
	openai.Renderer
	stored bool              // the provider stores its own items
	items  map[string]bool   // IDs of items given back
	kinds  map[string]string // of the last answer's calls other than functions, by their IDs
}

// Result renders a result as an item, without leftovers.
func (r *renderer) Result(entry string, b transcript.ToolResultBlock) (moved []transcript.Block) {
	r.DropExtra(entry, "tool_result", b.Extra)
	var parts []transcript.Block
	for _, c := range b.Content {
		parts = append(parts, r.Parts(r, entry, c)...)
	}
	id := r.IDs.Result(b.CallID)
	if kind := r.kinds[id]; clientCalls[kind] != "" {
		r.item(r.clientOutput(kind, id, b, parts))
	} else {
		r.item(js.Object("type", cmp.Or(kind, "function_call")+"_output", "call_id", id, "output", openai.Content(parts, partJSON)))
	}
	return nil
}

func (r *renderer) item(item js.Written) {
	r.Out = append(r.Out, format.Said{Items: []js.Written{item}})
}

// isOwnItem reports whether a raw block of an answer is an item that goes back as it
// came: of a tool that the provider ran, opaque, or of a type that only the provider
// knows. Parts of messages have no ID. An item that wants the client's output or
// approval, which a transcript cannot hold, does not go back.
func isOwnItem(b transcript.RawBlock, answer []transcript.Block) bool {
	kind := transcript.BlockType(b)
	if !jsontext.Valid(b.JSON) || !js.HasEachOnce(b.JSON) || !hasEnded(b.JSON) || clientCalls[kind] != "" || slices.Contains(notAsTheyCame, kind) ||
		js.String(b.JSON, "id")+js.String(b.JSON, "encrypted_content") == "" {
		return false
	}
	call := js.String(b.JSON, "call_id")
	return call == "" || slices.ContainsFunc(answer, func(other transcript.Block) bool {
		raw, ok := other.(transcript.RawBlock)
		return ok && js.String(raw.JSON, "call_id") == call && transcript.BlockType(raw) != kind && hasEnded(raw.JSON)
	})
}

// notAsTheyCame are the types of items that have their own blocks or want
// something from the client.
var notAsTheyCame = []string{"", "message", "reasoning", "function_call", customCall, "mcp_approval_request"}

// An outputItem is an element of an answer on its way back.
type outputItem struct {
	block  transcript.Block
	origin transcript.Origin
	ext    json.RawMessage // left with it by the API; nil if not native
	kept   json.RawMessage // member "item" of ext: the item came whole
	callID string
	bare   bool // goes without its ID
}

func (it *outputItem) id() string { return js.String(it.kept, "id") }

func (r *renderer) Answer(i int, m transcript.Message) bool {
	r.IDs.Open()
	r.kinds = map[string]string{}
	unshown := r.unshown(i)
	items := make([]outputItem, 0, len(m.Content))
	for j, b := range m.Content {
		if it, ok := r.outputItem(format.OriginOf(m, j), b, m.Content); ok {
			if call, isCall := b.(transcript.ToolCallBlock); isCall && js.String(it.ext, "type") == "computer_call" && unshown[call.ID] {
				it.ext, it.kept = nil, nil // so it becomes a function's
			}
			items = append(items, it)
		}
	}
	items = r.follow(items)
	for i := 0; i < len(items); {
		n := 1
		for i+n < len(items) && items[i].continues(items[i+n]) {
			n++
		}
		r.item(r.rendered(items[i : i+n]))
		i += n
	}
	return len(items) > 0
}

// outputItem returns the item of a block in an answer.
func (r *renderer) outputItem(o transcript.Origin, b transcript.Block, answer []transcript.Block) (it outputItem, ok bool) {
	it = outputItem{block: b, origin: o}
	keep := func(extra transcript.Extra) {
		it.ext = r.Ext(o, extra)
		it.kept, _ = jsontext.Member(it.ext, "item")
		if !jsontext.IsObject(it.kept) {
			it.kept = nil
		}
	}
	switch b := b.(type) {
	case transcript.TextBlock:
		r.DropExtra(o.Entry, "text", b.Extra)
		if keep(b.Extra); it.ext == nil && r.Kin(o) {
			phase := js.Opt(js.String(format.ExtObject(b.Extra), "item", "phase"))
			it.kept = js.Object("phase", phase).Bytes()
		}
		return it, true
	case transcript.ToolCallBlock:
		r.DropExtra(o.Entry, "tool_use", b.Extra)
		if keep(b.Extra); clientCalls[js.String(it.ext, "type")] != "" && !js.HasOnly(b.Input, askedFor...) {
			it.ext, it.kept = nil, nil
		}
		it.callID = r.CallID(o.Entry, b.ID)
		it.bare = it.callID != b.ID
		return it, true
	case transcript.ThinkingBlock:
		if !r.Native(o) {
			r.Note("dropped-thinking", o.Entry, "of another model")
			return it, false
		}
		if keep(b.Extra); js.String(it.kept, "type") != "reasoning" {
			it.kept = nil
		}
		return it, true
	case transcript.ContextBlock:
		it.block = transcript.TextBlock{Text: r.Plain(o.Entry, b)}
		return it, true
	case transcript.RawBlock:
		// An item after reasoning, which another model does not get, would miss it.
		if r.Native(o) || r.Kin(o) && format.IsSpoken(b) && !slices.ContainsFunc(answer, transcript.IsReasoning) {
			if it.bare = !isOwnItem(b, answer); !it.bare {
				it.kept = b.JSON
			}
			return it, true
		}
	}
	it.block, ok = r.Instead(o.Entry, b)
	return it, ok
}

func hasEnded(item []byte) bool {
	switch js.String(item, "status") {
	case "in_progress", "searching", "interpreting", "generating", "calling":
		return false
	}
	return true
}

// follow leaves out reasoning and opaque items that cannot go back, and removes
// the IDs of items after them, and of items that went back before.
func (r *renderer) follow(items []outputItem) []outputItem {
	out := make([]outputItem, 0, len(items))
	missed := -1  // batch of an omitted item
	fits := false // the item before is reasoning that goes back with the next item
	for i, it := range items {
		behind := missed == it.origin.Batch
		if !format.IsType[transcript.ThinkingBlock](it.block) {
			fits = false
		} else if !fits {
			why := "some before it is left out"
			if !behind {
				why = r.unfit(items[i:])
			}
			if fits = why == ""; !fits {
				r.Note("dropped-thinking", it.origin.Entry, why)
				missed = it.origin.Batch
				continue
			}
		}
		id := it.id()
		again := r.items[id] && (len(out) == 0 || !out[len(out)-1].continues(it))
		it.bare = it.bare || again || behind
		if _, opaque := it.block.(transcript.RawBlock); opaque && it.bare {
			missed = it.origin.Batch
			text, ok := r.Instead(it.origin.Entry, it.block)
			if !ok {
				continue
			}
			it = outputItem{block: text, origin: it.origin, bare: true}
		}
		if id != "" && !it.bare {
			r.items[id] = true
		}
		out = append(out, it)
	}
	return out
}

// unfit returns the reason why leading reasoning of items cannot go back; the next item
// must be complete and of the same answer.
func (r *renderer) unfit(items []outputItem) string {
	seen := map[string]bool{}
	for i, it := range items {
		id := it.id()
		switch {
		case i > 0 && (it.kept == nil || it.origin.Batch != items[0].origin.Batch || r.items[id]):
			return "without the item behind it"
		case !format.IsType[transcript.ThinkingBlock](it.block):
			return ""
		case !r.isWhole(it.kept):
			return "not whole, or not encrypted"
		case r.items[id] || seen[id]:
			return "the same again"
		}
		seen[id] = true
	}
	return "without the item behind it"
}

// isWhole reports whether the provider can read a reasoning item again.
func (r *renderer) isWhole(kept json.RawMessage) bool {
	summary, _ := jsontext.Member(kept, "summary")
	return js.String(kept, "id") != "" && jsontext.IsArray(summary) && (r.stored || js.String(kept, "encrypted_content") != "")
}

// continues reports whether both are texts of one message.
func (it outputItem) continues(next outputItem) bool {
	_, a := it.block.(transcript.TextBlock)
	_, b := next.block.(transcript.TextBlock)
	return a && b && !it.bare && it.id() != "" && it.id() == next.id()
}

// ownMembers are written by rendered itself.
var ownMembers = []string{"type", "role", "content", "call_id", "name", "arguments", "input"}

// rendered returns the item of a block, or of several texts of one message.
func (r *renderer) rendered(items []outputItem) js.Written {
	first := items[0]
	whole := first.id() != "" && !first.bare
	kept := func(kind string) js.Members {
		return slices.DeleteFunc(js.Without(first.kept, ownMembers...), func(m js.Member) bool {
			return !whole && (m.Name != "phase" || kind != "message")
		})
	}
	switch b := first.block.(type) {
	case transcript.ToolCallBlock:
		kind, name, input := "function_call", "arguments", openai.CallArguments(b.Input)
		switch own := js.String(first.ext, "type"); {
		case own == customCall:
			r.kinds[first.callID] = own
			kind, name, input = customCall, "input", js.String(b.Input, "input")
		case clientCalls[own] != "" && whole:
			r.kinds[first.callID] = own
			return js.Object("type", own, "", kept(own), "call_id", first.callID, "", js.MembersOf(b.Input))
		}
		return js.Object("type", kind, "", kept(kind), "call_id", first.callID, "name", b.Name, name, input)
	case transcript.TextBlock:
		var content any = b.Text
		if whole {
			content = js.List(items, outputPartJSON)
		}
		return js.Object("type", "message", "", kept("message"), "role", "assistant", "content", content)
	}
	return js.Value(first.kept) // as it came
}

// customCall is the type of a call with a text as its input.
const customCall = "custom_tool_call"

// outputPartJSON returns a text as its original part.
func outputPartJSON(it outputItem) js.Written {
	text, _ := it.block.(transcript.TextBlock)
	kind, name := "output_text", "text"
	if js.Get(it.ext, "refusal") != nil {
		kind, name = "refusal", "refusal"
	}
	part := js.Get(it.ext, "part")
	annotations := js.Get(part, "annotations")
	switch {
	case kind != "output_text":
		annotations = nil
	case !jsontext.IsArray(annotations):
		annotations = json.RawMessage("[]")
	}
	return js.Object("type", kind, name, text.Text, "annotations", annotations, "", js.Without(part, "type", "text", "refusal", "annotations"))
}
