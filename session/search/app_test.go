package search_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// Data of the application is found, but not read as text.
func TestSearchApp(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	storetest.Add(t, s, transcript.WithApp(transcript.UserText("hello"), json.RawMessage(`{"channel":"C1"}`)))
	page, err := search.Page(ctx, s, "", -1)
	require.NoError(t, err)
	require.JSONEq(t, `{"channel":"C1"}`, string(page[0].App))
	hits := 0
	for hit, err := range search.Session(ctx, s, search.Query{Text: "C1"}) {
		require.NoError(t, err)
		require.Equal(t, "app", hit.Type)
		part, err := search.Read(ctx, s, hit.Entry, search.Slice{})
		require.NoError(t, err)
		require.NotContains(t, part.Text, "C1")
		hits++
	}
	require.Equal(t, 1, hits)
}
