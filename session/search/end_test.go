package search_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// A loop that ends early leaves no goroutine behind, and sessions that are deleted
// during a search are left out.
func TestSearchEnds(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), &session.Options{Sync: session.SyncNever})
	defer storetest.Close(t, st)
	var all []*session.Session
	for n := range 20 {
		s := storetest.Load(t, st, session.Key{Agent: "a", Channel: "c", Peer: fmt.Sprint(n)})
		for range 10 {
			storetest.Add(t, s, transcript.UserText("needle "+strings.Repeat("x ", 100)))
		}
		all = append(all, s)
	}
	before := runtime.NumGoroutine()
	for most := range 12 {
		n := 0
		for _, err := range search.Store(t.Context(), st, search.Query{Text: "needle"}) {
			require.NoError(t, err)
			if n++; n > most*most {
				break
			}
		}
	}
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)

	var wg sync.WaitGroup
	wg.Go(func() {
		for _, s := range all[:10] {
			if err := st.Delete(t.Context(), s.Ref()); err != nil {
				t.Error(err)
			}
		}
	})
	for range 20 {
		for _, ranked := range []bool{false, true} {
			n := 0
			for _, err := range search.Store(t.Context(), st, search.Query{Text: "needle", Ranked: ranked, Limit: 1000}) {
				require.NoError(t, err)
				n++
			}
			require.GreaterOrEqual(t, n, 100)
		}
	}
	wg.Wait()
}

// Items that a compaction carries over are found where their entry is, and in the
// compaction only if that is not there, as in a copy of the live lines.
func TestSearchCarried(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), &session.Options{Sync: session.SyncNever})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("the zebra crossing"))
	kept := storetest.Add(t, s, transcript.UserText("go on"))
	c := transcript.Compaction{Summary: "About animals.", FirstKept: kept[0], CoversTo: ids[0], Said: []transcript.Carried{
		{Entry: ids[0], Text: "the zebra crossing"}, {Entry: "elsewhere", Text: "a zebra elsewhere"},
	}}
	storetest.Add(t, s, c)
	require.Equal(t, []string{"system summary: zebra", "user text: zebra, compacted"}, found(hits(t, s, search.Query{Text: "zebra"})))
	got := hits(t, s, search.Query{Text: "zebra"})
	require.Equal(t, "a zebra elsewhere", got[0].Excerpt)
	require.Equal(t, []string{"system summary: animals"}, found(hits(t, s, search.Query{Text: "animals"})))
}

// A session in which nothing is found costs a search little memory.
func TestSearchMissAllocs(t *testing.T) {
	if storetest.Brief {
		t.Skip("the race detector allocates too")
	}
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	const sessions = 200
	for n := range sessions {
		storetest.Add(t, storetest.Load(t, st, session.Key{Agent: "a", Channel: "c", Peer: fmt.Sprint(n)}), transcript.UserText("hay"))
	}
	var before, after runtime.MemStats
	for range 2 { // the second one finds everything warm
		runtime.ReadMemStats(&before)
		for hit, err := range search.Store(t.Context(), st, search.Query{Text: "needle"}) {
			require.Fail(t, "a hit", "%v %v", hit, err)
		}
		runtime.ReadMemStats(&after)
	}
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/sessions, uint64(6<<10), "bytes for each session")
}
