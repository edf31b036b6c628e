package session_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// ramble appends a random conversation: turns with calls whose results come late
// or never, steering, clips, compactions, rewinds and bookkeeping.
func ramble(t *testing.T, s *session.Session, rnd *rand.Rand, steps int) {
	t.Helper()
	var open, all []string
	call := 0
	pick := func(list []string) string { return list[rnd.IntN(len(list))] }
	for n := range steps {
		var items []transcript.Item
		switch k := rnd.IntN(22); {
		case k < 5:
			items = append(items, transcript.UserText(fmt.Sprint("user ", n)))
		case k < 9:
			var calls []string
			for range rnd.IntN(3) {
				call++
				calls = append(calls, fmt.Sprint("call", call))
			}
			open = append(open, calls...)
			items = append(items, storetest.Answer(fmt.Sprint("answer ", n), calls...))
		case k < 13 && len(open) > 0:
			i := rnd.IntN(len(open))
			items = append(items, transcript.ToolResult(open[i], fmt.Sprint("result ", n)))
			open = slices.Delete(open, i, i+1)
		case k == 13 && len(all) > 0:
			items = append(items, transcript.Clip{Clips: []transcript.Clipping{{Entry: pick(all), Content: "clipped"}}})
		case k == 20 && len(all) > 0:
			items = append(items, transcript.Hide{Entries: []string{pick(all)}, Off: rnd.IntN(3) == 0})
		case k == 21:
			items = append(items, transcript.Interrupt{Ended: "failed"})
		case k == 14 && len(all) > 4:
			live := liveLines(t, s)
			if len(live) < 2 {
				continue
			}
			i := rnd.IntN(len(live) - 1)
			c := transcript.Compaction{Summary: fmt.Sprint("summary ", n), FirstKept: live[i+1], CoversTo: live[i], TurnsBefore: 1 + rnd.IntN(3)}
			if rnd.IntN(4) == 0 {
				c.FirstKept = ""
			}
			items = append(items, transcript.System{Text: "Be brief."}, c)
		case k == 15 && len(all) > 0:
			items = append(items, transcript.Rewind{To: pick(all)})
		case k == 16:
			items = append(items, transcript.Calibration{Model: "m", Window: 1000 + n})
		case k == 17:
			items = append(items, transcript.Custom{Name: "note", Data: json.RawMessage(`1`)})
		case k == 18:
			items = append(items, transcript.System{Text: fmt.Sprint("prompt ", n)}, transcript.Tools{Names: []string{fmt.Sprint("tool", n)}})
		default:
			items = append(items, transcript.UserText(fmt.Sprint("two at once ", n)), storetest.Answer("at once"))
		}
		all = append(all, storetest.Add(t, s, items...)...)
	}
}

// liveLines returns the IDs of the first lines of the messages that a history
// can be made of.
func liveLines(t *testing.T, s *session.Session) (ids []string) {
	t.Helper()
	f := rebuild.New(nil)
	var all []string
	for b, err := range transcript.Batches(s.Scan(t.Context(), session.ScanOptions{})) {
		require.NoError(t, err)
		require.NoError(t, f.Add(b))
		for _, e := range b.Entries {
			if _, ok := e.Body.(transcript.MessageLine); ok && e.Part == 0 {
				all = append(all, e.ID)
			}
		}
	}
	for _, id := range all {
		if f.Live(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// A fork, or a fork of a fork, has the history that its base had, whatever the
// base is and whatever becomes of it.
func TestForkHistory(t *testing.T) {
	t.Parallel()
	storetest.EachFollowed(t, func(t *testing.T, st *session.Store) {
		defer storetest.Close(t, st)
		rounds := storetest.Extent(*storetest.Faults, 3, 60, 600)
		for seed := range rounds {
			rnd := rand.New(rand.NewPCG(uint64(seed), 1))
			base := storetest.Create(t, st, storetest.CLI, nil)
			ramble(t, base, rnd, 40)
			var forks []*session.Session
			var want []string
			for range 6 {
				from := base
				if len(forks) > 0 && rnd.IntN(2) == 0 {
					from = forks[rnd.IntN(len(forks))]
				}
				ids := storetest.EntryIDs(t, from)
				id := ids[rnd.IntN(len(ids))]
				fork := storetest.Fork(t, from, id, nil)
				forks, want = append(forks, fork), append(want, storetest.Encoded(t, storetest.WantFork(t, from, id).History()))
				require.Equal(t, session.Ref{Agent: "main", ID: from.Ref().ID}, session.Ref{Agent: storetest.Info(t, fork).Base.Agent, ID: storetest.Info(t, fork).Base.Session})
				require.Equal(t, storetest.Info(t, fork).Base.Lines, len(storetest.EntryIDs(t, fork))-1)
				checkCopies(t, from, fork)
			}
			require.NoError(t, st.Delete(t.Context(), base.Ref()))
			for i, fork := range forks {
				h, err := fork.History(t.Context())
				require.NoError(t, err)
				require.Equal(t, want[i], storetest.Encoded(t, h), "seed %d, fork %d", seed, i)
				_, err = fork.Health(t.Context()) // reads all lines
				require.NoError(t, err)
				h, err = fork.History(t.Context())
				require.NoError(t, err)
				require.Equal(t, want[i], storetest.Encoded(t, h), "seed %d, fork %d, all lines read", seed, i)
				storetest.Add(t, fork, transcript.UserText("goes on"))
			}
		}
	})
}

// checkCopies checks that a fork's lines equal the lines of its base, in order, and hidden ones
// without words.
func checkCopies(t *testing.T, base, fork *session.Session) {
	t.Helper()
	lines := map[string][]byte{}
	place, erased := map[string]int{}, map[string]bool{}
	for e, err := range base.Entries(t.Context(), "") {
		require.NoError(t, err)
		lines[e.ID], place[e.ID], erased[e.ID] = e.Line(), len(lines), e.Erased
	}
	last := 0
	for e, err := range fork.Entries(t.Context(), "") {
		require.NoError(t, err)
		if _, ok := e.Body.(transcript.Header); ok {
			continue
		}
		where, err := fork.Where(t.Context(), e.ID)
		require.NoError(t, err)
		_, isMessage := e.Body.(transcript.MessageLine)
		require.Equal(t, erased[e.ID] || isMessage && where[e.ID].Hidden, e.Erased)
		if erased[e.ID] == e.Erased {
			require.Equal(t, string(lines[e.ID]), string(e.Line()))
		}
		require.Greater(t, place[e.ID], last)
		last = place[e.ID]
	}
}

func TestFork(t *testing.T) {
	t.Parallel()
	storetest.EachFollowed(t, func(t *testing.T, st *session.Store) {
		defer storetest.Close(t, st)
		s := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{Owner: "ann", Title: "the base", Labels: []string{"x"}})
		asked := storetest.Add(t, s, transcript.UserText("what is in a.go?"))
		called := storetest.Add(t, s, storetest.Answer("looking", "a", "b"))
		keyed, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, transcript.ToolResult("a", "one"))
		require.NoError(t, err)
		storetest.Add(t, s, transcript.Custom{Name: "note", Data: json.RawMessage(`1`)})
		done := storetest.Add(t, s, transcript.ToolResult("b", "two"))
		storetest.Add(t, s, storetest.Answer("done"))
		later, err := s.AppendIf(t.Context(), session.Cond{Idem: "later"}, transcript.UserText("thanks"))
		require.NoError(t, err)
		before := storetest.History(t, s)

		fork := func(from *session.Session, id string, opts *session.CreateOptions) *session.Session {
			f := storetest.Fork(t, from, id, opts)
			return f
		}
		for _, id := range append(slices.Clone(called), keyed.IDs...) { // a call is open
			require.Equal(t, asked, storetest.EntryIDs(t, fork(s, id, nil))[1:])
		}
		f := fork(s, done[0], &session.CreateOptions{ID: "branch", Title: "a branch", Parent: transcript.Link{Session: s.Ref().ID, Entry: called[1]}})
		info := storetest.Info(t, f)
		require.Equal(t, transcript.Link{Agent: "main", Session: s.Ref().ID, Entry: done[0], Lines: 7}, info.Base)
		require.Equal(t, transcript.Link{Agent: "main", Session: s.Ref().ID, Entry: called[1]}, info.Parent)
		require.Equal(t, "ann a branch []", fmt.Sprint(info.Owner, " ", info.Title, " ", info.Labels))
		require.True(t, info.Current)
		require.Equal(t, 1, info.Turns)
		require.Equal(t, "a branch", info.Title)
		require.Len(t, storetest.EntryIDs(t, fork(s, s.Ref().ID, nil)), 1)

		again, err := f.AppendIf(t.Context(), session.Cond{Idem: "key"}, transcript.ToolResult("a", "one"))
		require.NoError(t, err)
		require.Equal(t, session.Appended{IDs: keyed.IDs, Repeated: true}, again)
		other, err := f.AppendIf(t.Context(), session.Cond{Idem: "later"}, transcript.UserText("something else"))
		require.NoError(t, err)
		require.NotEqual(t, later.IDs, other.IDs)

		require.Equal(t, before, storetest.History(t, s))
		for filter, want := range map[string]session.ListOptions{"parent": {Parent: s.Ref()}, "base": {Base: s.Ref(), Key: session.Key{Agent: "main"}}} {
			infos := storetest.List(t, st, &want)
			require.True(t, slices.ContainsFunc(infos, func(i session.Info) bool { return i.ID == "branch" }), filter)
			require.False(t, slices.ContainsFunc(infos, func(i session.Info) bool { return i.ID == s.Ref().ID }), filter)
		}
		_, err = s.Fork(t.Context(), done[0], &session.CreateOptions{ID: "branch"})
		require.ErrorIs(t, err, fs.ErrExist)
		for _, id := range []string{"", "nobody"} {
			_, err = s.Fork(t.Context(), id, nil)
			require.ErrorIs(t, err, session.ErrNoEntry)
		}
		_, err = st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Parent: transcript.Link{Session: "../x"}})
		require.ErrorIs(t, err, fs.ErrInvalid)
		require.NoError(t, st.Delete(t.Context(), f.Ref()))
		require.Equal(t, before, storetest.History(t, s))
	})
}

// A fork names all sessions that it descends from, whatever has become of them.
func TestForkDescent(t *testing.T) {
	t.Parallel()
	storetest.EachFollowed(t, func(t *testing.T, st *session.Store) {
		defer storetest.Close(t, st)
		s := storetest.Load(t, st, storetest.CLI)
		require.Empty(t, storetest.Info(t, s).Descent)
		var want []transcript.Link
		for range 3 {
			ids := storetest.Add(t, s, transcript.UserText("one"), storetest.Answer("two"))
			want = append(want, transcript.Link{Agent: "main", Session: s.Ref().ID, Entry: ids[0]})
			fork := storetest.Fork(t, s, ids[0], nil)
			require.Equal(t, want, storetest.Info(t, fork).Descent)
			require.NoError(t, st.Delete(t.Context(), s.Ref()))
			s = fork
		}
		infos := storetest.List(t, st, nil)
		require.Len(t, infos, 1)
		require.Equal(t, want, infos[0].Descent)
		header, ok := storetest.Entries(t, s)[0].Body.(transcript.Header)
		require.True(t, ok)
		require.Equal(t, want, header.Descent)
	})
}

// Metadata that was appended together with a message is copied, and has no
// effect on the fork.
func TestForkMeta(t *testing.T) {
	t.Parallel()
	storetest.EachFollowed(t, func(t *testing.T, st *session.Store) {
		defer storetest.Close(t, st)
		s := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{Owner: "ann"})
		ids := storetest.Add(t, s, transcript.UserText("one"), transcript.Meta{Labels: []string{"x"}, Keep: new(true)})
		for _, owner := range []string{"", "eve"} {
			f := storetest.Fork(t, s, ids[0], &session.CreateOptions{Owner: owner})
			info := storetest.Info(t, f)
			require.Equal(t, cmp.Or(owner, "ann"), info.Owner)
			require.Equal(t, owner == "", info.Current, "a fork for another owner is not current")
			require.Empty(t, info.Labels)
			require.False(t, info.Keep)
			require.Equal(t, 2, info.Base.Lines)
		}
	})
}

// The cost of a fork depends on its history, not its base.
func TestForkBytes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := storetest.Open(t, dir, &session.Options{Sync: session.SyncNever})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	const turn = 32 << 10
	old := strings.Repeat("old ", turn/8)
	for range storetest.Extent(*storetest.Faults, 8<<20, 64<<20, 1<<30) / turn {
		storetest.Add(t, s, transcript.UserText(old), storetest.Answer(old))
	}
	kept := storetest.Add(t, s, transcript.UserText("kept"))
	for range storetest.Extent(*storetest.Faults, 64<<10, 1<<20, 1<<20) / 2048 {
		storetest.Add(t, s, transcript.UserText(old[:1024]), storetest.Answer(old[:1024]))
	}
	storetest.Add(t, s, transcript.Compaction{Summary: "so far", FirstKept: kept[0], TurnsBefore: 100})
	last := storetest.Add(t, s, transcript.UserText("after it"))
	live, all := 0, 0
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		all += len(e.Line()) + 1
		if e.ID >= kept[0] {
			live += len(e.Line()) + 1
		}
	}
	before := written(t, dir)
	f := storetest.Fork(t, s, last[0], nil)
	more := written(t, dir) - before
	t.Logf("of %d bytes %d are live; the fork has written %d", all, live, more)
	require.LessOrEqual(t, more, int64(live)+4<<10)
	require.Equal(t, storetest.History(t, s), storetest.History(t, f))
}

// written is how many bytes are in the files of a folder.
func written(t *testing.T, dir string) (n int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		n += info.Size()
		return err
	}))
	return n
}

// A session that was made is returned, even if it cannot be read.
func TestForkAndCreateUnreadable(t *testing.T) {
	t.Parallel()
	b, st := storetest.OpenBetween(t, t.TempDir())
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("one"), storetest.Answer("two"))
	broken := errors.New("the disk is broken")
	b.AfterCreate = func(session.Ref) error {
		b.BeforeScan = func(session.Ref) error { return broken }
		return nil
	}
	fork := storetest.Fork(t, s, ids[1], nil)
	require.ErrorIs(t, storetest.ErrOf(fork.History(t.Context())), broken)
	b.BeforeScan = nil
	require.Equal(t, storetest.History(t, s), storetest.History(t, fork))
	other := storetest.Create(t, st, storetest.CLI, nil)
	require.ErrorIs(t, storetest.ErrOf(other.History(t.Context())), broken)
	b.BeforeScan = nil
	storetest.Add(t, other, transcript.UserText("one"))
}
