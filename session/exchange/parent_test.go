package exchange_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
)

// A helper is a child of its session, and of the entry of its call.
func TestImportHelpers(t *testing.T) {
	st := inMemory()
	source := sessionsIn(t, os.DirFS(samples+"reports/helper"))
	report := importAll(t, st, source, nil)
	require.Len(t, report, 2)
	main, helper := report[0].Session, report[1].Session
	s, err := st.Get(t.Context(), main)
	require.NoError(t, err)
	call := ""
	for rec, err := range s.Scan(t.Context(), session.ScanOptions{}) {
		require.NoError(t, err)
		if m, ok := rec.Entry.Body.(transcript.MessageLine); ok && len(m.Message().ToolCalls()) == 1 {
			call = rec.Entry.ID
		}
	}
	children, err := st.List(t.Context(), &session.ListOptions{Parent: main})
	require.NoError(t, err)
	require.Len(t, children, 1)
	require.Equal(t, helper, children[0].Ref)
	require.NotEmpty(t, call)
	require.Equal(t, transcript.Link{Agent: main.Agent, Session: main.ID, Entry: call}, children[0].Parent)
	again := importAll(t, st, source, &exchange.ImportOptions{DryRun: true})
	require.Zero(t, again[0].Appended+again[1].Appended)
}
