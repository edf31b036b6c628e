package wire

import (
	"encoding/json"
	"maps"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// maxMarks is how many blocks of a request may have a cache mark.
const maxMarks = 4

// limitMarks takes the first cache marks away until no more than budget are
// left: the last ones reach furthest. The messages are the renderer's.
func (r *renderer) limitMarks(messages []transcript.Message, budget int) {
	var marked []*transcript.Block
	for _, m := range messages {
		marked = appendMarkedBlocks(marked, m.Content)
	}
	for _, b := range marked[:max(len(marked)-max(budget, 0), 0)] {
		*b = unmarked(*b)
		r.note(rebuild.DroppedMember, "", "cache_control: more than four")
	}
}

// appendMarkedBlocks appends where the blocks that have a mark are, in their order.
func appendMarkedBlocks(marked []*transcript.Block, blocks []transcript.Block) []*transcript.Block {
	for i, b := range blocks {
		if res, ok := b.(transcript.ToolResultBlock); ok {
			marked = appendMarkedBlocks(marked, res.Content)
		}
		mark := json.RawMessage(nil)
		if raw, ok := b.(transcript.RawBlock); ok {
			mark, _ = jsontext.Member(raw.JSON, cacheControl)
		}
		withExtra(b, func(e transcript.Extra) transcript.Extra {
			mark = e[cacheControl]
			return e
		})
		if !jsontext.IsNull(mark) {
			marked = append(marked, &blocks[i])
		}
	}
	return marked
}

// unmarked returns a block without its mark.
func unmarked(b transcript.Block) transcript.Block {
	if raw, ok := b.(transcript.RawBlock); ok {
		return filterMembers(raw, func(name string, _ []byte) bool { return name != cacheControl })
	}
	b, _ = withExtra(b, func(e transcript.Extra) transcript.Extra {
		e = maps.Clone(e)
		delete(e, cacheControl)
		return e
	})
	return b
}

// withExtra returns a block with other members beside its own; ok is false for one
// that has no cache mark among them.
func withExtra(b transcript.Block, change func(transcript.Extra) transcript.Extra) (changed transcript.Block, ok bool) {
	switch b := b.(type) {
	case transcript.TextBlock:
		b.Extra = change(b.Extra)
		return b, true
	case transcript.ImageBlock:
		b.Extra = change(b.Extra)
		return b, true
	case transcript.DocumentBlock:
		b.Extra = change(b.Extra)
		return b, true
	case transcript.ToolCallBlock:
		b.Extra = change(b.Extra)
		return b, true
	case transcript.ToolResultBlock:
		b.Extra = change(b.Extra)
		return b, true
	}
	return nil, false
}
