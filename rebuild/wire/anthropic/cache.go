package anthropic

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/rebuild/wire/internal/messages"
	"github.com/convolog/convolog/transcript"
)

// roll puts a mark on the last possible block of some messages. The messages
// are the renderer's.
func roll(c wire.CacheTTL, rendered []transcript.Message) {
	for _, i := range messages.MarkedMessages(rendered) {
		content := rendered[i].Content
		for j, b := range slices.Backward(content) {
			if t, isText := b.(transcript.TextBlock); isText && neutral.IsBlank(t.Text) {
				continue
			}
			marked, ok := messages.WithExtra(b, func(e transcript.Extra) transcript.Extra {
				return format.WithMember(maps.Clone(e), messages.CacheControl, messages.Mark(c, "ephemeral"))
			})
			if ok {
				content[j] = marked
				break
			}
		}
	}
}

// maxMarks is how many blocks of a request may have a cache mark.
const maxMarks = 4

// limitMarks removes the first cache marks of a message until this and later messages
// have at most left, and returns the remaining number: the last marks reach furthest.
// The blocks are the renderer's.
func limitMarks(r *messages.Renderer, blocks []transcript.Block, left int) int {
	for i, b := range slices.Backward(blocks) {
		plain, marked := unmarked(b)
		if left -= messages.Count(marked); marked && left < 0 {
			blocks[i] = plain
			r.Note("dropped-member", "", "cache_control: more than four")
		}
		if res, ok := b.(transcript.ToolResultBlock); ok {
			left = limitMarks(r, res.Content, left)
		}
	}
	return left
}

func unmarked(b transcript.Block) (plain transcript.Block, marked bool) {
	if raw, ok := b.(transcript.RawBlock); ok {
		marked = !jsontext.IsNull(js.Get(raw.JSON, messages.CacheControl))
		return messages.FilterMembers(raw, func(name string, _ []byte) bool { return name != messages.CacheControl }), marked
	}
	plain, _ = messages.WithExtra(b, func(e transcript.Extra) transcript.Extra {
		if marked = !jsontext.IsNull(e[messages.CacheControl]); marked {
			e = maps.Clone(e)
			delete(e, messages.CacheControl)
		}
		return e
	})
	return plain, marked
}

// marks counts the cache marks in Params and in tools, which share the limit.
func (a Format) marks(tools json.RawMessage) int {
	n := messages.Count(!jsontext.IsNull(a.Params[messages.CacheControl]))
	for _, e := range slices.Concat(js.Elements(a.Params["system"]), js.Elements(tools)) {
		n += messages.Count(!jsontext.IsNull(js.Get(e, messages.CacheControl)))
	}
	return n
}
