package guard_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/internal/quotetest"
	"github.com/convolog/convolog/transcript"
)

// seen leaves characters out that show nothing.
var seen = regexp.MustCompile(`[\p{Cc}\p{Cf}\p{M}\p{Z}\x{2800}\x{3164}]+`)

// In a clipped result only the notes begin a line with a bracket, for any content.
func TestForgedClip(t *testing.T) {
	for i, text := range quotetest.Attempts() {
		if i%5 > 0 {
			continue
		}
		c := newConversation(t, append(toolTurn(text+"\n"+long(10_000)+"an error: "+text+"\n"+long(10_000)+text), transcript.AssistantText("ok"), transcript.UserText("go on"))...)
		changed, err := guard.Clip().Run(t.Context(), c, guard.Need{Window: 5_000, Recall: true})
		require.NoError(t, err)
		require.True(t, changed)
		r, _ := c.fold.History().Messages[2].Content[0].(transcript.ToolResultBlock)
		notes := 0
		for _, line := range quotetest.Margin(r.Text()) {
			if strings.HasPrefix(seen.ReplaceAllString(line, ""), "[") {
				notes++
			}
		}
		require.Equal(t, 3, notes, "%q: %q", text, r.Text())
	}
}
