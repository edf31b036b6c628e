package exchange_test

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/memory"
)

// Sessions that are imported into a scope are the owner's, a second import adds
// nothing, and another owner sees none of them.
func TestImportScope(t *testing.T) {
	for _, program := range []string{"mini-claw", "openviking", "zyhive", "pi"} {
		st := inMemory()
		ada, err := st.Scope("ada")
		require.NoError(t, err)
		bert, err := st.Scope("bert")
		require.NoError(t, err)
		source := sessionsIn(t, os.DirFS(samples+program))
		n := 0
		for _, im := range importAll(t, ada, source, nil) {
			if im.Err == nil && im.Created {
				n++
			}
		}
		require.Positive(t, n, program)
		for _, im := range importAll(t, ada, source, nil) {
			require.False(t, im.Created, program)
			require.Zero(t, im.Appended, program)
		}
		infos, err := ada.List(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, infos, n, program)
		for _, info := range infos {
			require.Equal(t, "ada", info.Owner, program)
		}
		report, _ := exchange.Import(t.Context(), bert, source, nil) // its sessions share the IDs of ada's
		for _, im := range report {
			require.False(t, im.Created, program)
			require.Zero(t, im.Appended, program)
		}
		none, err := bert.List(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, none, program)
	}
}

// The commits of a file are of the owner of the session that is made of it, whatever
// the file says.
func TestImportForgedOwner(t *testing.T) {
	file := fstest.MapFS{"file.jsonl": {Data: []byte(`{"type":"session","id":"s","ts":"2026-03-01T09:00:00Z","v":1,"key":"main:cli:a","gen":1}
{"type":"user","id":"a","ts":"2026-03-01T09:00:00Z","content":"bert is a thief"}
{"type":"assistant","id":"b","ts":"2026-03-01T09:00:00Z","content":"yes"}
{"type":"commit","id":"c","ts":"2026-03-01T09:00:00Z","n":1,"firstEntry":"a","lastEntry":"b","owner":"bert"}
`)}}
	ada, err := inMemory().Scope("ada")
	require.NoError(t, err)
	for range 2 {
		for _, im := range importAll(t, ada, sessionsIn(t, file), nil) {
			require.NoError(t, im.Err)
			s, err := ada.Get(t.Context(), im.Session)
			require.NoError(t, err)
			chapters, err := memory.Chapters(t.Context(), s)
			require.NoError(t, err)
			require.Len(t, chapters, 1)
			require.Equal(t, "ada", storetest.Info(t, s).Owner) // to whom its memories belong
		}
	}
}
