package wire

import (
	"maps"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// maxMarks is how many blocks of a request may have a cache mark.
const maxMarks = 4

// limitMarks takes the first cache marks away until no more than budget are
// left: the last ones reach furthest.
func (r *renderer) limitMarks(messages []transcript.Message, budget int) {
	excess := -max(budget, 0)
	eachMark(messages, func() bool { excess++; return false })
	if excess <= 0 {
		return
	}
	eachMark(messages, func() bool {
		if excess == 0 {
			return false
		}
		excess--
		r.note(rebuild.DroppedMember, "", "cache_control: more than four")
		return true
	})
}

// eachMark calls strip for every cache mark in order and removes those for
// which it returns true.
func eachMark(messages []transcript.Message, strip func() bool) {
	for _, m := range messages {
		eachMarkIn(m.Content, strip)
	}
}

// eachMarkIn changes blocks, which must belong to the renderer.
func eachMarkIn(blocks []transcript.Block, strip func() bool) {
	for i, b := range blocks {
		switch b := b.(type) {
		case transcript.ToolResultBlock:
			eachMarkIn(b.Content, strip)
		case transcript.RawBlock:
			mark, _ := jsontext.Member(b.JSON, cacheControl)
			if !jsontext.IsNull(mark) && strip() {
				blocks[i] = filterMembers(b, func(name string, _ []byte) bool { return name != cacheControl })
			}
		}
		if marked, ok := withExtra(b, func(e transcript.Extra) transcript.Extra { return strippedExtra(e, strip) }); ok {
			blocks[i] = marked
		}
	}
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

func strippedExtra(extra transcript.Extra, strip func() bool) transcript.Extra {
	if jsontext.IsNull(extra[cacheControl]) || !strip() {
		return extra
	}
	extra = maps.Clone(extra)
	delete(extra, cacheControl)
	return extra
}
