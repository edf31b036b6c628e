package guardtest

import (
	"encoding/json"
	"slices"
	"sort"
	"unicode/utf8"

	"github.com/convolog/convolog/transcript"
)

// cut returns the beginning of content with limit tokens at most; the content has more.
// It cuts the block that exceeds the limit, if possible. Otherwise, or if nothing
// remains of the block, it leaves the block out.
func (m *Model) cut(content []transcript.Block, limit int) []transcript.Block {
	n := sort.Search(len(content), func(n int) bool { return m.outputTokens(content[:n+1]) > limit })
	kept := slices.Clone(content[:n])
	text, with := cuttable(content[n])
	size := sort.Search(len(text), func(size int) bool {
		return m.outputTokens(append(kept[:n:n], with(head(text, size+1)))) > limit
	})
	if text = head(text, size); text != "" {
		kept = append(kept, with(text))
	}
	return kept
}

// cuttable returns the text of a block that a limit may cut, and a function that
// returns the block with another text.
func cuttable(b transcript.Block) (text string, with func(string) transcript.Block) {
	switch b := b.(type) {
	case transcript.TextBlock:
		return b.Text, func(s string) transcript.Block { b.Text = s; return b }
	case transcript.ThinkingBlock:
		return b.Thinking, func(s string) transcript.Block { b.Thinking, b.Signature = s, ""; return b }
	case transcript.ToolCallBlock:
		return string(b.Input), func(s string) transcript.Block { b.Input = json.RawMessage(s); return b }
	}
	return "", nil
}

// head returns the first n bytes of s, without a partial character at the end.
func head(s string, n int) string {
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
