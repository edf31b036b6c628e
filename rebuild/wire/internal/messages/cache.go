package messages

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// CheckCache returns an error if a time is none of those.
func CheckCache(c wire.CacheTTL) error {
	if c != "" && c != wire.Cache5m && c != wire.Cache1h {
		return fmt.Errorf("wire: cache %q is neither %q nor %q", string(c), wire.Cache5m, wire.Cache1h)
	}
	return nil
}

// Mark returns a mark of a type. Five minutes are what the APIs take for it.
func Mark(c wire.CacheTTL, kind string) json.RawMessage {
	return js.Object("type", kind, "ttl", js.When(c == wire.Cache1h, `"1h"`)).Bytes()
}

// MarkedMessages returns the indexes of the messages that end with a mark: where
// this request ends, and where the one before it did, the user message in front.
func MarkedMessages(messages []transcript.Message) (marked []int) {
	for i, m := range slices.Backward(messages) {
		if m.Role == transcript.RoleUser && len(marked) < 2 {
			marked = append(marked, i)
		}
	}
	return marked
}

// WithExtra returns a block with other members beside its own; ok is false for one
// that cannot have a cache mark among them.
func WithExtra(b transcript.Block, change func(transcript.Extra) transcript.Extra) (changed transcript.Block, ok bool) {
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
