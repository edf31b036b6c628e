package exchange_test

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/transcript"
)

func get(t *testing.T, st *session.Store, ref session.Ref) *session.Session {
	t.Helper()
	s, err := st.Get(t.Context(), ref)
	require.NoError(t, err)
	return s
}

// forkOf returns the only fork in a store.
func forkOf(t *testing.T, st *session.Store) session.Ref {
	t.Helper()
	infos, err := st.List(t.Context(), nil)
	require.NoError(t, err)
	var forks []session.Ref
	for _, i := range infos {
		if i.Base.Session != "" {
			forks = append(forks, i.Ref)
		}
	}
	require.Len(t, forks, 1)
	return forks[0]
}

func eraseEntries(t *testing.T, st *session.Store, ref session.Ref, ids ...string) {
	t.Helper()
	p, err := erase.Preview(t.Context(), st, erase.Erasure{Entries: []erase.Selection{{Session: ref, Entries: ids}}})
	require.NoError(t, err)
	_, err = erase.Run(t.Context(), st, p)
	require.NoError(t, err)
}

// threeEnds returns three stores with other ends of one session, which it returns from a.
// The ends in a and b begin with the same message.
func threeEnds(t *testing.T) (a, b, c *session.Store, s *session.Session) {
	t.Helper()
	a, b, c = inMemory(), inMemory(), inMemory()
	s = load(t, a)
	say(t, s, "one")
	copied(t, a, c)
	say(t, s, "x1")
	copied(t, a, b)
	say(t, s, "a2")
	say(t, get(t, b, s.Ref()), "b2", "b3")
	say(t, get(t, c, s.Ref()), "c1", "c2", "c3", "c4", "c5")
	return a, b, c, s
}

// Three ends of a session, two of which begin with the same message, are all there.
func TestMergeThreeEnds(t *testing.T) {
	a, b, c, _ := threeEnds(t)
	ofA, ofB, ofC := contents(t, a), contents(t, b), contents(t, c)
	for round := range 2 {
		merged(t, b, c)
		require.Equal(t, map[int]int{0: 2}[round], merged(t, a, c).Lines)
		holdsBoth(t, c, ofA, ofB, ofC)
		require.Len(t, contents(t, c), 3)
	}
}

// An end arrives although other differences gave its fork another base before.
func TestMergeOtherBase(t *testing.T) {
	to, m1, m2 := inMemory(), inMemory(), inMemory()
	s := load(t, to)
	say(t, s, "one")
	copied(t, to, m2)
	say(t, s, "x1")
	copied(t, to, m1)
	say(t, s, "y1", "y2", "y3")
	first := get(t, m1, s.Ref())
	say(t, first, "x2")
	say(t, get(t, m2, s.Ref()), "z1", "z2", "z3", "z4", "z5", "z6")
	merged(t, m1, to)
	merged(t, m2, to)
	for range 2 {
		say(t, first, "x3")
		merged(t, m1, to)
		holdsBoth(t, to, contents(t, m1), contents(t, m2))
		require.Len(t, contents(t, to), 4)
		require.Zero(t, merged(t, m1, to).Lines)
	}
}

// Erased words stay away even if they come in another fork than the one they were in.
func TestMergeErasedInAFork(t *testing.T) {
	a, old, d := inMemory(), inMemory(), inMemory()
	s := load(t, a)
	say(t, s, "one")
	copied(t, a, old)
	o := get(t, old, s.Ref())
	say(t, o, "x1")
	copied(t, old, d)
	ids := say(t, o, "secret")
	say(t, get(t, d, s.Ref()), "d2", "d3", "d4")
	say(t, s, "a1", "a2", "a3")
	merged(t, old, a)
	eraseEntries(t, a, forkOf(t, a), ids[0])
	merged(t, old, d)
	report, err := mergeAll(t, d, a, nil)
	require.ErrorIs(t, err, exchange.ErrDiverged)
	require.ErrorContains(t, err, "the other store has erased entry "+ids[0])
	require.Equal(t, 1, report.Failed)
	require.NotContains(t, textOf(t, a), "secret")

	eraseEntries(t, d, forkOf(t, d), ids[0])
	merged(t, d, a)
	require.NotContains(t, textOf(t, a), "secret")
	require.Contains(t, textOf(t, a), "d4")
}

// Erased words stay away even if other differences give their end another fork.
func TestMergeErasedOtherBase(t *testing.T) {
	a, b, c, old := inMemory(), inMemory(), inMemory(), inMemory()
	s := load(t, a)
	say(t, s, "one")
	copied(t, a, c)
	say(t, s, "x1")
	copied(t, a, b)
	ids := say(t, s, "secret")
	copied(t, a, old)
	say(t, get(t, b, s.Ref()), "b2", "b3", "b4")
	merged(t, b, a)
	eraseEntries(t, a, forkOf(t, a), ids[0])
	say(t, get(t, c, s.Ref()), "c1", "c2", "c3", "c4", "c5", "c6")
	merged(t, c, a)
	before := textOf(t, a)
	_, err := mergeAll(t, old, a, nil)
	require.ErrorContains(t, err, "the other store has erased entry "+ids[0])
	require.Equal(t, before, textOf(t, a))
}

// The media of an end that became a fork are removed from the session, even if the store
// was opened without a filter for blobs.
func TestMergeMovesMedia(t *testing.T) {
	under, kept := memdriver.New(nil), blobs.Memory()
	a, b := over(under, kept), memoryOf(nil)
	s := load(t, a)
	_, err := s.Append(t.Context(), picture(1))
	require.NoError(t, err)
	copied(t, a, b)
	_, err = s.Append(t.Context(), picture(2))
	require.NoError(t, err)
	say(t, get(t, b, s.Ref()), "b", "c", "d")
	plain := session.OpenDriver(memdriver.Reopen(under), nil)
	keptBy.Store(plain, kept)
	merged(t, b, plain)
	for ref, want := range map[session.Ref]int{s.Ref(): 1, forkOf(t, plain): 2} {
		got, err := kept.List(t.Context(), ref)
		require.NoError(t, err)
		require.Len(t, got, want)
	}
}

// A merge removes no picture that another conflict copy of the session still needs.
func TestMergeKeepsOtherMedia(t *testing.T) {
	under, kept := memdriver.New(nil), blobs.Memory()
	a, b, c := over(under, kept), memoryOf(nil), memoryOf(nil)
	s := load(t, a)
	say(t, s, "one")
	copied(t, a, b)
	copied(t, a, c)
	say(t, s, "a1")
	plain := session.OpenDriver(memdriver.Reopen(under), nil)
	keptBy.Store(plain, kept)
	for n, st := range []*session.Store{b, c} {
		there := get(t, st, s.Ref())
		_, err := there.Append(t.Context(), picture(byte(n+2)))
		require.NoError(t, err)
		if say(t, there, "b2"); st == b {
			say(t, there, "b3")
		}
		hashes, err := keptOf(st).List(t.Context(), s.Ref())
		require.NoError(t, err)
		_, err = blobs.Copy(t.Context(), keptOf(st), kept, s.Ref(), hashes)
		require.NoError(t, err)
	}
	for _, from := range []*session.Store{b, c} { // the files of a folder share its media
		report, err := exchange.Merge(t.Context(), from, plain, &exchange.CopyOptions{From: kept, To: kept})
		require.NoError(t, err)
		require.Zero(t, report.Missing)
	}
}

// Two machines give an end the same fork, or forks of different names, but never one
// name with two beginnings.
func TestMergeForkOfTwoBases(t *testing.T) {
	a, b, c, _ := threeEnds(t)
	merged(t, b, c)
	merged(t, a, c) // a fork of "one"
	merged(t, a, b) // a fork of "x1"
	say(t, get(t, b, forkOf(t, b)), "new words")
	merged(t, b, c)
	require.Contains(t, textOf(t, c), "new words")
}

var removals = map[string]func(t *testing.T, st *session.Store, ref session.Ref) error{
	"in the trash": func(t *testing.T, st *session.Store, ref session.Ref) error {
		return retain.Trash(t.Context(), st, ref)
	},
	"deleted": func(t *testing.T, st *session.Store, ref session.Ref) error {
		return retain.Delete(t.Context(), st, ref)
	},
}

// A merge names each end that it leaves out, and sessions that were continued after their
// removal.
func TestMergeNamesLeft(t *testing.T) {
	for how, remove := range removals {
		t.Run(how, func(t *testing.T) {
			a, b, c, s := threeEnds(t)
			merged(t, b, c)
			fork := forkOf(t, c)
			require.NoError(t, remove(t, c, fork))
			left := func() (all []exchange.CopyResult) {
				report, err := mergeAll(t, a, c, &exchange.CopyOptions{Each: func(r exchange.CopyResult, err error) {
					require.NoError(t, err)
					all = append(all, r)
				}})
				require.NoError(t, err)
				require.Equal(t, exchange.CopyReport{Left: 1}, report)
				for i := range all {
					all[i] = exchange.CopyResult{Ref: all[i].Ref, Fork: all[i].Fork, Left: all[i].Left}
				}
				return all
			}
			require.Equal(t, []exchange.CopyResult{{Ref: s.Ref(), Fork: fork, Left: how}}, left())
			require.NoError(t, remove(t, c, s.Ref()))
			require.Empty(t, left(), "it was not continued")
			say(t, s, "said afterwards")
			require.Equal(t, []exchange.CopyResult{{Ref: s.Ref(), Left: how}}, left())
		})
	}
}

// Sessions and forks that the store has put into the trash, or deleted, stay away.
func TestMergeLeavesRemoved(t *testing.T) {
	for name, remove := range removals {
		t.Run(name, func(t *testing.T) {
			a, b := inMemory(), inMemory()
			s, theirs := twoEnds(t, a, b, "", 0)
			say(t, s, "longer")
			merged(t, b, a)
			require.NoError(t, remove(t, a, forkOf(t, a)))
			before := textOf(t, a)
			for range 2 {
				require.Equal(t, exchange.CopyReport{Left: 1}, merged(t, b, a))
				require.Equal(t, before, textOf(t, a))
				say(t, theirs, "the other end", "becomes", "longer")
			}
			require.NoError(t, remove(t, a, s.Ref()))
			before = textOf(t, a)
			require.Equal(t, exchange.CopyReport{Left: 1}, merged(t, b, a))
			require.Equal(t, before, textOf(t, a))
		})
	}
}

// Lines without IDs, as another program may write them, make two ends.
func TestMergeWithoutIDs(t *testing.T) {
	a, b := inMemory(), inMemory()
	s := load(t, a)
	say(t, s, "one")
	copied(t, a, b)
	for st, text := range map[*session.Store]string{a: "of a", b: "of b"} {
		s := get(t, st, s.Ref())
		e, err := transcript.ParseEntry([]byte(`{"type":"user","ts":"2026-01-02T03:04:05Z","content":"` + text + `"}`))
		require.NoError(t, err)
		_, err = s.AppendLines(t.Context(), storetest.Info(t, s).End, e)
		require.NoError(t, err)
	}
	for _, forks := range []int{1, 1} {
		require.Equal(t, forks, merged(t, b, a).Forks)
		require.Len(t, contents(t, a), 2)
		require.Contains(t, textOf(t, a), "of a")
		require.Contains(t, textOf(t, a), "of b")
	}
}

// A fork that another process makes at the same time is no error.
func TestMergeForkExists(t *testing.T) {
	armed := false
	a, b := memoryOf(&memdriver.Options{Fail: func(op string, _ driver.Ref) error {
		if op != "Create" || !armed {
			return nil
		}
		armed = false
		return fs.ErrExist
	}}), memoryOf(nil)
	twoEnds(t, a, b, "", 2)
	armed = true
	require.Equal(t, 1, merged(t, b, a).Forks)
	require.False(t, armed)
	forkOf(t, a)
}

// Two machines may merge from each other at the same time.
func TestMergeBothWays(t *testing.T) {
	for range 5 {
		a, b := inMemory(), inMemory()
		twoEnds(t, a, b, "", 2)
		ofA, ofB := contents(t, a), contents(t, b)
		var wg sync.WaitGroup
		var errs [3]error
		wg.Go(func() { _, errs[0] = mergeAll(t, b, a, nil) })
		wg.Go(func() { _, errs[1] = mergeAll(t, a, b, nil) })
		wg.Go(func() { _, errs[2] = mergeAll(t, b, a, nil) })
		wg.Wait()
		require.Equal(t, [3]error{}, errs)
		merged(t, b, a)
		merged(t, a, b)
		holdsBoth(t, a, ofA, ofB)
		require.Equal(t, contents(t, a), contents(t, b))
	}
}

// An erase during a merge is found, even if the number of lines stays the same, so the session keeps its end.
func TestMergeDuringAnErase(t *testing.T) {
	under, b := memdriver.New(nil), inMemory()
	others := session.OpenDriver(memdriver.Reopen(under), nil)
	s, _ := twoEnds(t, others, b, "", 3)
	ids := say(t, s, "secret")
	hooks := &busy{able: under.(able)}
	once := false
	hooks.beforeRewrite = func() {
		if !once {
			once = true
			require.NoError(t, s.Rewrite(t.Context(), func(records iter.Seq2[transcript.Record, error], write func(transcript.Entry) error) error {
				for rec, err := range records {
					if rec.Entry.ID == ids[0] {
						rec.Entry = rec.Entry.Erase()
					}
					if err = errors.Join(err, write(rec.Entry)); err != nil {
						return err
					}
				}
				return nil
			}))
		}
	}
	_, err := mergeAll(t, b, session.OpenDriver(hooks, nil), nil)
	require.ErrorIs(t, err, exchange.ErrDiverged)
	now := session.OpenDriver(memdriver.Reopen(under), nil)
	require.Contains(t, linesIn(t, now, s.Ref()), "of a")
	require.NotContains(t, linesIn(t, now, s.Ref()), "secret")
}

// A conflict copy with a valid name never takes the ID in its header.
func TestCopyRenamed(t *testing.T) {
	dir := t.TempDir()
	from := folderOf(t, dir)
	s := load(t, from)
	say(t, s, "one")
	name := transcripts(t, dir)[0]
	conflict, err := os.ReadFile(name)
	require.NoError(t, err)
	say(t, s, "two")
	other := strings.TrimSuffix(filepath.Base(name), ".jsonl") + "-laptop.jsonl"
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(name), other), conflict, 0o600))
	from = folderOf(t, dir)
	for range 5 {
		to := inMemory()
		_, err := copyAll(t.Context(), from, to, nil)
		require.ErrorContains(t, err, "the file was renamed or copied")
		_, err = mergeAll(t, from, to, nil)
		require.ErrorContains(t, err, "the file was renamed or copied")
		require.Len(t, contents(t, to), 1)
		require.Contains(t, linesIn(t, to, s.Ref()), "two")
	}
}
