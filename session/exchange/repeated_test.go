package exchange_test

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript/dialect"
)

// A native transcript with repeated lines is imported without the repetitions,
// and they are counted.
func TestImportRepeated(t *testing.T) {
	data, err := os.ReadFile("../testdata/doubled.jsonl")
	require.NoError(t, err)
	st := inMemory()
	source := sessionsIn(t, fstest.MapFS{"agents/main/sessions/doubled.jsonl": {Data: data}})
	im := importAll(t, st, source, nil)[0]
	require.Equal(t, dialect.Losses{"repeated": 1}, im.Lost)
	s, err := st.Get(t.Context(), im.Session)
	require.NoError(t, err)
	info, err := s.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, info.Usage["claude-opus-4-8"].Answers)
	h, err := exchange.FullHistory(t.Context(), s)
	require.NoError(t, err)
	require.Len(t, h.Messages, 4)
	require.Zero(t, importAll(t, st, source, nil)[0].Appended)
}
