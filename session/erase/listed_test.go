package erase_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/transcript"
)

// The row of a session loses the words of erased listed values, archived or not: no file of
// the store contains them.
func TestEraseListed(t *testing.T) {
	t.Parallel()
	for _, archived := range []bool{false, true} {
		dir := storetest.Scratch(t)
		st := storetest.Open(t, dir, nil)
		s, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Values: map[string]json.RawMessage{
			"word": json.RawMessage(`"` + storetest.Word + `"`), "other": json.RawMessage(`1`),
		}})
		require.NoError(t, err)
		storetest.Add(t, s, transcript.UserText("Hello."))
		state := session.Live
		if archived {
			state = session.Archived
			require.NoError(t, st.SetState(t.Context(), s.Ref(), state, -1))
		}
		carryOut(t, st, erase.Erasure{Match: storetest.HasWord})
		infos, err := st.List(t.Context(), &session.ListOptions{State: state})
		require.NoError(t, err)
		require.Equal(t, map[string]json.RawMessage{"other": json.RawMessage(`1`)}, infos[0].Values)
		storetest.Close(t, st)
		require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := fs.ReadFile(os.DirFS(dir), name)
			require.NotContains(t, string(data), storetest.Word, name)
			return err
		}))
	}
}
