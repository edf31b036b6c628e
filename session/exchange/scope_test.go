package exchange_test

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/memory"
)

// Sessions that are imported into a scope are the owner's, a second import adds
// nothing, and another owner gets sessions of his own with other IDs.
func TestImportScope(t *testing.T) {
	for _, program := range []string{"mini-claw", "openviking", "zyhive", "pi"} {
		st := inMemory()
		source := sessionsIn(t, os.DirFS(samples+program))
		made, each := map[string]bool{}, 0
		for n, owner := range []string{"ada", "bert", "carl"} {
			scope, err := st.Scope(owner)
			require.NoError(t, err)
			for _, im := range importAll(t, scope, source, nil) {
				if im.Err == nil && im.Created {
					free := n == 0 && !im.Source.PutAway && !made[im.Source.ID]
					require.Equal(t, free, im.Session.ID == im.Source.ID, "%s: %s", program, im.Session.ID)
					made[im.Session.ID] = true
				}
			}
			for _, im := range importAll(t, scope, source, nil) {
				require.False(t, im.Created, program)
				require.Zero(t, im.Appended, program)
				if im.Source.ID != "" && im.Err == nil && !im.Source.PutAway {
					s, err := exchange.Find(t.Context(), scope, session.Ref{Agent: im.Session.Agent, ID: im.Source.ID})
					require.NoError(t, err)
					require.Equal(t, owner, storetest.Info(t, s).Owner, program)
				}
			}
			infos, err := scope.List(t.Context(), nil)
			require.NoError(t, err)
			if n == 0 {
				each = len(infos)
				require.Positive(t, each, program)
			}
			require.Len(t, infos, each, program)
			for _, info := range infos {
				require.Equal(t, owner, info.Owner, program)
				require.True(t, made[info.ID], "%s: %s", program, info.ID)
				delete(made, info.ID)
			}
		}
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
