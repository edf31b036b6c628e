package tokens

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/convolog/convolog/internal/imagesize"
	"github.com/convolog/convolog/transcript"
)

// A tally adds up a prompt.
type tally struct {
	rule  *rule
	words weight
	fixed int // tokens
}

// tokens returns the sum; any weight counts as at least one token.
func (t *tally) tokens(factor float64) int {
	n := t.words.of(t.rule.percent)
	n += t.fixed * hundred
	if factor > 0 {
		n = int(math.Ceil(float64(n) * factor))
	}
	return (n + hundred - 1) / hundred
}

func (t *tally) text(s string) { t.add(weigh(s, t.rule.weights)) }

func (t *tally) json(s json.RawMessage) { t.add(weigh(s, t.rule.weights)) }

func (t *tally) add(w weight) {
	t.words.latin += w.latin
	t.words.scripted += w.scripted
	t.words.plain += w.plain
}

func (t *tally) blocks(blocks []transcript.Block) {
	for _, b := range blocks {
		switch b := b.(type) {
		case transcript.TextBlock:
			t.text(b.Text)
			continue
		case transcript.ThinkingBlock:
			t.text(b.Thinking)
		case transcript.RedactedThinkingBlock:
			t.fixed += len(b.Data) / 4
		case transcript.ToolCallBlock:
			t.text(b.ID)
			t.text(b.Name)
			t.json(b.Input)
		case transcript.ToolResultBlock:
			t.text(b.CallID)
			t.blocks(b.Content)
		case transcript.ImageBlock:
			t.image(&b.Source)
		case transcript.DocumentBlock:
			t.text(b.Title)
			t.text(b.Context)
			t.document(&b.Source)
		case transcript.ContextBlock:
			t.text(b.URI)
			t.text(b.Kind)
			t.text(b.Abstract)
		case transcript.RawBlock:
			t.json(b.JSON)
		}
		t.fixed += perBlock
	}
}

func (t *tally) image(s *transcript.Source) {
	if w, h := imagesize.Of(s); w > 0 {
		t.fixed += t.rule.imageOf(w, h)
	} else {
		t.fixed += perImage
	}
}

func (t *tally) document(s *transcript.Source) {
	size := len(s.Data) / 4 * 3 // decoded bytes of the base64
	if s.Type == "blob" {
		size = (s.Blob.Bytes + 2) / 3 * 3
	}
	switch {
	case s.Type == "text":
		t.text(s.Data)
	case (s.Type == "base64" || s.Type == "blob") && strings.HasPrefix(s.MediaType, "text/"):
		t.fixed += size / 3
	default:
		t.fixed += max(minDocument, size/32)
	}
}
