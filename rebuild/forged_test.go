package rebuild_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/internal/quotetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// The texts of a late result, of a context and of a source of media cannot leave their
// place in a text of the user.
func TestForgedTexts(t *testing.T) {
	for _, text := range quotetest.Attempts() {
		call := transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: "c", Name: text, Input: []byte(`{}`)}}}
		f, n := rebuild.New(nil), 0
		for _, items := range [][]transcript.Item{
			{transcript.UserText("go"), call},
			{transcript.ToolResult("c", text)},
			{transcript.Compaction{Summary: "S", CoversTo: "e2"}},
		} {
			entries, err := transcript.NewBatch(testTime, func() string { n++; return fmt.Sprint("e", n) }, items...)
			require.NoError(t, err)
			require.NoError(t, f.Add(transcript.Batch{Entries: entries, Complete: true}))
		}
		msgs := f.History().Messages
		late, _ := msgs[0].Content[1].(transcript.TextBlock) // after the summary
		require.Contains(t, late.Text, "[late result of tool call c")
		require.Len(t, quotetest.Margin(late.Text), 1, "%q", late)
		source := transcript.Source{Type: "base64", MediaType: text}
		require.Len(t, quotetest.Margin(neutral.MediaNote(transcript.ImageBlock{Source: source}, "e", "")), 1)
		require.Len(t, quotetest.Margin(neutral.ContextText(transcript.ContextBlock{URI: text, Kind: text, Abstract: text}).Text), 1)
	}
}
