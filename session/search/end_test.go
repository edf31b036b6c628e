package search_test

import (
	"errors"
	"fmt"
	"iter"
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

// A loop that ends early ends its goroutines, and sessions that are deleted during
// a search are left out.
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

// Items that a compaction carries over are found in their entry, and in the
// compaction only if the entry is missing, as in a copy of the live lines.
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

// A session without hits costs a search little memory.
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
	for range 2 { // the second one is warm
		runtime.ReadMemStats(&before)
		for hit, err := range search.Store(t.Context(), st, search.Query{Text: "needle"}) {
			require.Fail(t, "a hit", "%v %v", hit, err)
		}
		runtime.ReadMemStats(&after)
	}
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/sessions, uint64(6<<10), "bytes for each session")
}

// Each failing read is an error of its search.
func TestSearchUnreadable(t *testing.T) {
	last := func(list iter.Seq2[search.Hit, error]) (err error) {
		for _, err = range list {
			require.False(t, errors.Is(err, search.ErrQuery))
		}
		return err
	}
	for name, read := range map[string]func(st *session.Store, s *session.Session, id string) error{
		"newest": func(st *session.Store, _ *session.Session, _ string) error {
			return last(search.Store(t.Context(), st, search.Query{Text: "zebra"}))
		},
		"ranked": func(st *session.Store, _ *session.Session, _ string) error {
			return last(search.Store(t.Context(), st, search.Query{Text: "zebra", Ranked: true}))
		},
		"session": func(_ *session.Store, s *session.Session, _ string) error {
			return last(search.Session(t.Context(), s, search.Query{Text: "zebra"}))
		},
		"page": func(_ *session.Store, s *session.Session, id string) error {
			return storetest.ErrOf(search.Page(t.Context(), s, id, -9))
		},
		"window": func(_ *session.Store, s *session.Session, id string) error {
			return storetest.ErrOf(search.Window(t.Context(), s, id, 9, 9))
		},
		"read": func(_ *session.Store, s *session.Session, id string) error {
			return storetest.ErrOf(search.Read(t.Context(), s, id, search.Slice{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := memdriver.New(nil)
			st := session.OpenDriver(mem, nil)
			defer storetest.Close(t, st)
			s := storetest.Load(t, st, storetest.CLI)
			said := storetest.Add(t, s, transcript.UserText("a zebra"))
			storetest.Add(t, s, storetest.Answer("", "c"))
			id := storetest.Add(t, s, transcript.ToolResult("c", "the zebra"))[0]
			storetest.Add(t, s, transcript.Compaction{Summary: "animals", FirstKept: id, CoversTo: said[0], Said: []transcript.Carried{{Entry: "elsewhere", Text: "zebra"}}})
			for due := int64(1); ; due++ {
				w := &watched{Driver: mem, fails: due}
				st := session.OpenDriver(w, nil)
				s, err := st.Get(t.Context(), s.Ref())
				require.NoError(t, err)
				err = read(st, s, id)
				storetest.Close(t, st)
				if w.scans.Load() < due {
					require.NoError(t, err)
					require.Greater(t, due, int64(1))
					break
				}
				require.ErrorIs(t, err, errBroken, "scan %d", due)
			}
		})
	}
}

// Lines that a fork copied are found once, in their original session, or if that is not
// searched, in the fork.
func TestSearchForks(t *testing.T) {
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		s := storetest.Load(t, st, storetest.CLI)
		ids := storetest.Add(t, s, transcript.UserText("the first zebra"))
		fork, err := s.Fork(t.Context(), ids[0], &session.CreateOptions{Labels: []string{"fork"}})
		require.NoError(t, err)
		storetest.Add(t, fork, transcript.UserText("the second zebra"))
		excerpts := func(q search.Query) (list []string) {
			for hit, err := range search.Store(t.Context(), st, q) {
				require.NoError(t, err)
				list = append(list, hit.Excerpt)
			}
			return list
		}
		both := []string{"the second zebra", "the first zebra"}
		for _, ranked := range []bool{false, true} {
			require.ElementsMatch(t, both, excerpts(search.Query{Text: "zebra", Ranked: ranked}))
			require.ElementsMatch(t, both, excerpts(search.Query{Text: "zebra", Ranked: ranked, Sessions: session.ListOptions{Label: "fork"}}))
		}
		require.NoError(t, st.Delete(t.Context(), s.Ref()))
		require.ElementsMatch(t, both, excerpts(search.Query{Text: "zebra"}))
	})
}
