package search_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
)

// A search finds the same in archived sessions as in live ones.
func TestSearchArchived(t *testing.T) {
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		w := &searchWorld{Rand: rand.New(rand.NewPCG(7, 8))}
		var all []*session.Session
		for n := range 4 {
			all = append(all, storetest.Load(t, st, session.Key{Agent: "a", Channel: "c", Peer: fmt.Sprint(n)}))
		}
		for range 200 {
			w.write(t, all[w.IntN(len(all))])
		}
		find := func(q search.Query, state session.State) (hits []string) {
			q.Sessions.State = state
			for hit, err := range search.Store(t.Context(), st, q) {
				require.NoError(t, err)
				hits = append(hits, storetest.JSON(t, hit))
			}
			return hits
		}
		var queries []search.Query
		var before [][]string
		found := 0
		for range storetest.Extent(*storetest.Soak, 10, 1000, 5000) {
			q := w.query().Query
			hits := find(q, session.Live)
			queries, before, found = append(queries, q), append(before, hits), found+len(hits)
		}
		require.Positive(t, found)
		for i, s := range all {
			require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Archived, -1))
			state := session.AnyState
			if i == len(all)-1 {
				state = session.Archived
			}
			for n, q := range queries {
				require.Equal(t, before[n], find(q, state), "%+v", q)
			}
		}
		require.Empty(t, find(search.Query{Text: "the"}, session.Live))
	})
}
