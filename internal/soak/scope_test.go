package soak_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/search"
)

// In a scope, no feature shows or changes a session of another owner.
func TestScopeOfFeatures(t *testing.T) {
	t.Parallel()
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		ada, theirs, unowned := storetest.Owned(t, st)
		before := append(storetest.Lines(t, theirs), storetest.Lines(t, unowned)...)
		for name, call := range scopeFeatures() {
			for _, s := range []*session.Session{theirs, unowned} {
				call(t, ada, s)
			}
			require.Equal(t, before, append(storetest.Lines(t, theirs), storetest.Lines(t, unowned)...), name)
		}
		infos := storetest.List(t, st, nil)
		require.Len(t, infos, 3, "one was made or deleted")
	})
}

// scopeFeatures try features on a session of another owner.
func scopeFeatures() map[string]func(t *testing.T, scope *session.Store, s *session.Session) {
	return map[string]func(t *testing.T, scope *session.Store, s *session.Session){
		"Find": func(t *testing.T, scope *session.Store, s *session.Session) {
			for _, query := range []string{s.Ref().ID, storetest.Info(t, s).Key, storetest.Info(t, s).Title} {
				_, err := search.ByPrefix(t.Context(), scope, query, nil)
				require.ErrorIs(t, err, fs.ErrNotExist)
			}
		},
		"Search": func(t *testing.T, scope *session.Store, _ *session.Session) {
			for hit, err := range search.Store(t.Context(), scope, search.Query{Text: storetest.Word}) {
				t.Errorf("a hit: %v, %v", hit, err)
			}
		},
		"PlanErase": func(t *testing.T, scope *session.Store, s *session.Session) {
			_, err := erase.Preview(t.Context(), scope, erase.Erasure{Owner: "bert"})
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.NotContains(t, err.Error(), "bert")
			_, err = erase.Preview(t.Context(), scope, erase.Erasure{Sessions: []session.Ref{s.Ref()}})
			require.ErrorIs(t, err, fs.ErrNotExist)
			plan, err := erase.Preview(t.Context(), scope, erase.Erasure{Match: storetest.HasWord})
			require.NoError(t, err)
			require.Empty(t, plan.Places)
		},
		"Erase": func(t *testing.T, scope *session.Store, s *session.Session) {
			var plan erase.Plan
			require.NoError(t, json.Unmarshal(fmt.Appendf(nil, `{"id":"forged","sessions":[{"agent":"main","id":%q}],"entries":[{"session":{"agent":"main","id":%[1]q},"entries":["x"]}]}`, s.Ref().ID), &plan))
			report, err := erase.Run(t.Context(), scope, plan)
			require.NoError(t, err)
			require.Empty(t, report.Places)
		},
	}
}
