package session_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// A list shows the listed values that entries have set, with both drivers, after a
// compaction, in a fork, and after a loss of the index.
func TestListedValues(t *testing.T) {
	dir := t.TempDir()
	stores := map[string]*session.Store{"memory": session.OpenDriver(memdriver.New(nil), nil), "files": storetest.Open(t, dir, nil)}
	for name, st := range stores {
		t.Run(name, func(t *testing.T) {
			s := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{Values: map[string]json.RawMessage{"cwd": json.RawMessage(`"/src"`), "n": json.RawMessage(`1`)}})
			require.Equal(t, "cwd=\"/src\" n=1 +0", listedValues(t, st, s.Ref().ID))

			// A value is listed when the append returns.
			storetest.Add(t, s, transcript.UserText("q"), transcript.Value{Name: "n", Value: json.RawMessage(`{"a":2}`), Listed: true},
				transcript.Value{Name: "hidden", Value: json.RawMessage(`3`)})
			require.Equal(t, "cwd=\"/src\" n={\"a\":2} +0", listedValues(t, st, s.Ref().ID))

			// A value that is set again is listed only if its new value is.
			storetest.Add(t, s, transcript.Value{Name: "n", Value: json.RawMessage(`4`)})
			require.Equal(t, "cwd=\"/src\" +0", listedValues(t, st, s.Ref().ID))
			storetest.Add(t, s, transcript.Value{Name: "n", Value: json.RawMessage(`5`), Listed: true})
			require.Equal(t, "cwd=\"/src\" n=5 +0", listedValues(t, st, s.Ref().ID))

			// A rewind leaves values as they are, and so does a compaction.
			require.NoError(t, s.Rewind(t.Context(), s.Ref().ID))
			storetest.Talk(t, s, 0, 5)
			require.NoError(t, storetest.ErrOf(s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1}})))
			storetest.Add(t, s, transcript.Value{Name: "cwd", Listed: true})
			require.Equal(t, "n=5 +0", listedValues(t, st, s.Ref().ID))

			head, err := storetest.Head(t.Context(), s)
			require.NoError(t, err)
			fork := storetest.Fork(t, s, head, &session.CreateOptions{Values: map[string]json.RawMessage{"cwd": json.RawMessage(`"/other"`)}})
			require.Equal(t, "cwd=\"/other\" n=5 +0", listedValues(t, st, fork.Ref().ID))

			// A value that does not fit is counted, and the session has it.
			storetest.Add(t, s, transcript.Value{Name: "large", Value: json.RawMessage(`"` + strings.Repeat("x", 4<<10) + `"`), Listed: true})
			require.Equal(t, "n=5 +1", listedValues(t, st, s.Ref().ID))
			require.NoError(t, s.View(t.Context(), func(v *session.View) error {
				require.Len(t, v.Fold().Standing().Values, 3)
				return nil
			}))

			_, err = st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Values: map[string]json.RawMessage{"a": json.RawMessage(`{`)}})
			require.ErrorAs(t, err, new(*session.InputError))
			storetest.Close(t, st)
		})
	}
	storetest.LoseIndex(t, dir)
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	infos := storetest.List(t, st, nil)
	got := map[string]bool{}
	for _, info := range infos {
		got[valuesOf(info)] = true
	}
	require.Equal(t, map[string]bool{"n=5 +1": true, "cwd=\"/other\" n=5 +0": true}, got)
}

// listedValues returns the values of a session in a list of its store. The session itself
// must have the same.
func listedValues(t *testing.T, st *session.Store, id string) string {
	t.Helper()
	infos := storetest.List(t, st, nil)
	for _, info := range infos {
		if info.ID != id {
			continue
		}
		s := mustGet(t, st, info.Ref)
		require.Equal(t, valuesOf(storetest.Info(t, s)), valuesOf(info))
		return valuesOf(info)
	}
	require.Fail(t, "the session is not listed")
	return ""
}

func valuesOf(info session.Info) string {
	var text strings.Builder
	for _, name := range []string{"cwd", "n", "hidden", "large"} {
		if v, ok := info.Values[name]; ok {
			fmt.Fprintf(&text, "%s=%s ", name, v)
		}
	}
	fmt.Fprintf(&text, "+%d", info.Unlisted)
	return text.String()
}
