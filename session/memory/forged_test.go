package memory

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/internal/quotetest"
	"github.com/convolog/convolog/transcript"
)

// Only the line with the URI begins at the margin, and only the line about the source is
// indented once, for any text of a memory, its source and its file name.
func TestForgedMemory(t *testing.T) {
	for _, text := range quotetest.Attempts() {
		hits := []Hit{
			{Kind: kindMemory, URI: uriOf(entities, text), Text: text, Memory: &Memory{Sources: []Source{{Session: text, Chapter: text}}}},
			{Kind: kindMemory, URI: uriOf(entities, text), Text: text, Memory: &Memory{Sources: []Source{{Session: "s"}, {Session: text, Chapter: text}}}},
			{Kind: kindChapter, URI: chapterURI + text, Chapter: text, Text: text},
		}
		for _, b := range (Context{Memories: hits}).Blocks()[1:] {
			block, _ := b.(transcript.ContextBlock)
			require.Len(t, quotetest.Margin(neutral.ContextText(block).Text), 1, "%q", block)
			require.Len(t, quotetest.Margin(block.Abstract), 1, "%q", block)
			require.False(t, strings.ContainsAny(block.URI, "[]"), "%q", block)
		}
	}
}
