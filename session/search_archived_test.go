package session_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
)

// A search of archived sessions finds what one of live ones does.
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
		search := func(q session.Query, state session.State) (hits []string) {
			q.Sessions.State = state
			for hit, err := range st.Search(t.Context(), q) {
				require.NoError(t, err)
				hits = append(hits, storetest.JSON(t, hit))
			}
			return hits
		}
		var queries []session.Query
		var before [][]string
		found := 0
		for range storetest.Extent(*storetest.Soak, 20, 1000, 5000) {
			q := w.query().Query
			hits := search(q, session.Live)
			queries, before, found = append(queries, q), append(before, hits), found+len(hits)
		}
		require.Positive(t, found)
		for i, s := range all {
			require.NoError(t, st.Archive(t.Context(), s.Ref()))
			state := session.AnyState
			if i == len(all)-1 {
				state = session.Archived
			}
			for n, q := range queries {
				require.Equal(t, before[n], search(q, state), "%+v", q)
			}
		}
		require.Empty(t, search(session.Query{Text: "the"}, session.Live))
	})
}
