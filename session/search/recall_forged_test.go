package search_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/quotetest"
	"github.com/convolog/convolog/internal/recalltool"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// Only the lines of the tools begin at the margin, for any content of the entries.
func TestForgedRecall(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	for _, text := range quotetest.Attempts() {
		s, err := st.Create(t.Context(), session.Key{}, nil)
		require.NoError(t, err)
		other, err := st.Create(t.Context(), session.Key{}, nil)
		require.NoError(t, err)
		call := transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.ToolCallBlock{ID: "c1", Name: "bash" + text, Input: json.RawMessage(`{}`)},
		}}
		id := storetest.Add(t, other, transcript.UserText("zebra "+text), call, transcript.ToolResult("c1", "zebra "+text))[0]
		tools := search.RecallTools(s, other)
		for name, want := range map[string]struct {
			input any
			lines int
		}{
			recalltool.Search: {map[string]any{"query": "zebra"}, 2},
			recalltool.Window: {map[string]any{"entry": id}, 2},
			recalltool.Read:   {map[string]any{"entry": id}, 0},
		} {
			got, err := ask(t, tools, name, want.input)
			require.NoError(t, err)
			require.Len(t, quotetest.Margin(got), want.lines, "%s: %q: %q", name, text, got)
		}
		got, err := ask(t, tools, recalltool.Read, map[string]any{"entry": id, "match": "."})
		require.NoError(t, err)
		require.Len(t, quotetest.Margin(got), 1, "%q", got)
	}
}
