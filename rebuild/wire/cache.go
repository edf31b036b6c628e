package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// CacheTTL says for how long a provider is to keep what it has read of a request.
type CacheTTL string

// The times that Anthropic and Bedrock have. A mark costs a quarter more than the
// tokens in front of it for five minutes, and twice as much for an hour; what is
// read from the cache costs a tenth.
const (
	Cache5m CacheTTL = "5m"
	Cache1h CacheTTL = "1h"
)

// checkCache returns an error if a time is none of those.
func checkCache(c CacheTTL) error {
	if c != "" && c != Cache5m && c != Cache1h {
		return fmt.Errorf("wire: cache %q is neither %q nor %q", string(c), Cache5m, Cache1h)
	}
	return nil
}

// cacheMark returns a mark of a type. Five minutes are what the APIs take for it.
func cacheMark(c CacheTTL, kind string) json.RawMessage {
	return object("type", kind, "ttl", when(c == Cache1h, `"1h"`)).bytes()
}

// markedMessages returns the indexes of the messages that end with a mark: where
// this request ends, and where the one before it did, the user message in front.
func markedMessages(messages []transcript.Message) (marked []int) {
	for i, m := range slices.Backward(messages) {
		if m.Role == transcript.RoleUser && len(marked) < 2 {
			marked = append(marked, i)
		}
	}
	return marked
}

// cachePoint is a block of Converse that ends what is to be kept.
func cachePoint(c CacheTTL) written { return object("cachePoint", cacheMark(c, "default")) }

// roll puts marks on the last blocks of messages that can have one. The messages
// are the renderer's.
func roll(c CacheTTL, messages []transcript.Message) {
	for _, i := range markedMessages(messages) {
		content := messages[i].Content
		for j, b := range slices.Backward(content) {
			if t, isText := b.(transcript.TextBlock); isText && rebuild.IsBlank(t.Text) {
				continue
			}
			marked, ok := withExtra(b, func(e transcript.Extra) transcript.Extra {
				return withMember(maps.Clone(e), cacheControl, cacheMark(c, "ephemeral"))
			})
			if ok {
				content[j] = marked
				break
			}
		}
	}
}

// cacheKey returns the member that holds a key if there is one.
func cacheKey(key string) string {
	if key == "" {
		return ""
	}
	return "prompt_cache_key"
}

// maxMarks is how many blocks of a request may have a cache mark.
const maxMarks = 4

// limitMarks takes the first cache marks of a message away, until those of this and
// the messages behind it are no more than left, and returns what is left then: the last
// marks reach furthest. The blocks are the renderer's.
func limitMarks(r *renderer, blocks []transcript.Block, left int) int {
	for i, b := range slices.Backward(blocks) {
		plain, marked := unmarked(b)
		if left -= count(marked); marked && left < 0 {
			blocks[i] = plain
			r.note(rebuild.DroppedMember, "", "cache_control: more than four")
		}
		if res, ok := b.(transcript.ToolResultBlock); ok {
			left = limitMarks(r, res.Content, left)
		}
	}
	return left
}

// unmarked returns a block without its mark.
func unmarked(b transcript.Block) (plain transcript.Block, marked bool) {
	if raw, ok := b.(transcript.RawBlock); ok {
		marked = !jsontext.IsNull(get(raw.JSON, cacheControl))
		return filterMembers(raw, func(name string, _ []byte) bool { return name != cacheControl }), marked
	}
	plain, _ = withExtra(b, func(e transcript.Extra) transcript.Extra {
		if marked = !jsontext.IsNull(e[cacheControl]); marked {
			e = maps.Clone(e)
			delete(e, cacheControl)
		}
		return e
	})
	return plain, marked
}

// withExtra returns a block with other members beside its own; ok is false for one
// that cannot have a cache mark among them.
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
	case transcript.ThinkingBlock:
		b.Extra = change(b.Extra)
		return b, false
	case transcript.RedactedThinkingBlock:
		b.Extra = change(b.Extra)
		return b, false
	}
	return b, false
}
