package retain_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/convolog/convolog/session/erase"

	"github.com/convolog/convolog/session/retain"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// readable is all that can be read of a session.
func readable(t *testing.T, s *session.Session, id string) string {
	t.Helper()
	ctx := t.Context()
	var lines []string
	for e, err := range s.Entries(ctx, "") {
		require.NoError(t, err)
		lines = append(lines, string(e.Line()))
	}
	texts := func(all []transcript.Entry, err error) (lines []string) {
		require.NoError(t, err)
		for _, e := range all {
			lines = append(lines, string(e.Line()))
		}
		return lines
	}
	full, err := exchange.FullHistory(ctx, s)
	require.NoError(t, err)
	part, err := search.Read(ctx, s, id, search.Slice{Max: 100})
	require.NoError(t, err)
	pending, err := s.Pending(ctx)
	require.NoError(t, err)
	health, err := s.Health(ctx)
	require.NoError(t, err)
	return storetest.JSON(t, []any{
		lines, storetest.History(t, s), full, part, pending, storetest.Info(t, s).Usage, health,
		texts(search.Page(ctx, s, "", 5)), texts(search.Page(ctx, s, "", -5)), texts(search.Page(ctx, s, id, -3)), texts(search.Window(ctx, s, id, 2, 2)),
	})
}

// An archived session is read as before, in this process and after a restart, and
// cannot be written to.
func TestArchive(t *testing.T) {
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		ctx := t.Context()
		s, err := st.Create(ctx, storetest.CLI, &session.CreateOptions{Owner: "o"})
		require.NoError(t, err)
		var id string
		for n := range 30 {
			id = storetest.Add(t, s, transcript.UserText(fmt.Sprint("question ", n)))[0]
			storetest.Add(t, s, storetest.Answer("", fmt.Sprint("call", n)), transcript.ToolResult(fmt.Sprint("call", n), "result"))
			if n == 20 {
				_, err := s.Compact(ctx, nil)
				require.NoError(t, err)
			}
		}
		require.NoError(t, s.SetMeta(ctx, transcript.Meta{Title: new("a title")}))
		before, info := readable(t, s, id), storetest.Info(t, s)
		require.NoError(t, st.SetState(ctx, s.Ref(), session.Archived, -1))
		require.NoError(t, st.SetState(ctx, s.Ref(), session.Archived, -1), "again does nothing")

		check := func(s *session.Session) {
			require.Equal(t, before, readable(t, s, id))
			now := storetest.Info(t, s)
			require.Equal(t, session.Archived, now.State)
			require.False(t, now.Current)
			now.State, now.Current = info.State, info.Current
			require.Equal(t, info, now)
			for name, err := range map[string]error{
				"append":       storetest.ErrOf(s.Append(ctx, transcript.UserText("no"))),
				"turn":         storetest.ErrOf(turn.Begin(ctx, s)),
				"try":          storetest.ErrOf(turn.TryBegin(ctx, s)),
				"make current": s.MakeCurrent(ctx),
				"meta":         s.SetMeta(ctx, transcript.Meta{Keep: new(true)}),
				"rewind":       s.Rewind(ctx, id),
			} {
				require.ErrorIs(t, err, session.ErrArchived, name)
				require.NotErrorIs(t, err, fs.ErrNotExist, name)
				require.ErrorContains(t, err, "restore", name)
			}
			require.NoError(t, s.Flush(ctx))
			require.Equal(t, before, readable(t, s, id))
		}
		check(s)
		again, err := st.Get(ctx, s.Ref())
		require.NoError(t, err)
		check(again)

		_, err = storetest.Current(ctx, st, storetest.CLI)
		require.ErrorIs(t, err, fs.ErrNotExist, "the key has no session")
		_, err = st.Create(ctx, storetest.CLI, &session.CreateOptions{ID: s.Ref().ID})
		require.ErrorIs(t, err, fs.ErrExist)
		require.Empty(t, storetest.ListIDs(t, st, nil))
		require.Equal(t, []string{s.Ref().ID}, storetest.ListIDs(t, st, &session.ListOptions{State: session.Archived, Owner: "o"}))
		found, err := search.ByPrefix(ctx, st, "a ti", &session.ListOptions{State: session.AnyState})
		require.NoError(t, err)
		require.Equal(t, s.Ref(), found.Ref)
		fork, err := s.Fork(ctx, id, nil)
		require.NoError(t, err)
		require.Contains(t, storetest.History(t, fork), "question 29")
		require.NoError(t, st.Delete(ctx, fork.Ref()))

		require.NoError(t, st.SetState(ctx, s.Ref(), session.Live, -1))
		require.NoError(t, st.SetState(ctx, s.Ref(), session.Live, -1), "again does nothing")
		require.Equal(t, before, readable(t, s, id))
		require.Equal(t, info, storetest.Info(t, s))
		scope, err := st.Scope("o")
		require.NoError(t, err)
		require.Equal(t, s.Ref().ID, storetest.Load(t, scope, storetest.CLI).Ref().ID)
		storetest.Add(t, s, transcript.UserText("and on"))

		missing := session.Ref{Agent: "main", ID: "missing"}
		require.ErrorIs(t, st.SetState(ctx, missing, session.Archived, -1), fs.ErrNotExist)
		require.ErrorIs(t, st.SetState(ctx, missing, session.Live, -1), fs.ErrNotExist)
	})
}

// The key of an archived session falls back as after a delete; its gen counts.
func TestArchivedIsNotCurrent(t *testing.T) {
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		ctx := t.Context()
		var all []*session.Session
		for range 3 {
			s, err := st.Create(ctx, storetest.CLI, nil)
			require.NoError(t, err)
			storetest.Add(t, s, transcript.UserText("hello"))
			all = append(all, s)
		}
		require.NoError(t, st.SetState(ctx, all[2].Ref(), session.Archived, -1))
		require.Equal(t, all[1].Ref().ID, storetest.Load(t, st, storetest.CLI).Ref().ID)
		require.True(t, storetest.Info(t, all[1]).Current)
		require.NoError(t, st.SetState(ctx, all[2].Ref(), session.Live, -1))
		require.Equal(t, all[2].Ref().ID, storetest.Load(t, st, storetest.CLI).Ref().ID)
		require.False(t, storetest.Info(t, all[1]).Current)
		for _, s := range all {
			require.NoError(t, st.SetState(ctx, s.Ref(), session.Archived, -1))
		}
		next := storetest.Load(t, st, storetest.CLI)
		for _, s := range all {
			require.NotEqual(t, s.Ref().ID, next.Ref().ID)
			require.NoError(t, st.SetState(ctx, s.Ref(), session.Live, -1))
		}
		require.Equal(t, next.Ref().ID, storetest.Load(t, st, storetest.CLI).Ref().ID, "the newest")
	})
}

// A session is not archived while a turn runs on it.
func TestArchiveDuringTurn(t *testing.T) {
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		s := storetest.Load(t, st, storetest.CLI)
		tn, err := turn.Begin(t.Context(), s)
		require.NoError(t, err)
		require.ErrorIs(t, st.SetState(t.Context(), s.Ref(), session.Archived, -1), session.ErrBusy)
		storetest.Add(t, s, transcript.UserText("hello"))
		require.NoError(t, tn.End())
		require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Archived, -1))
	})
}

// A store that has a transcript open which another store has replaced learns of that at
// most once. The next call archives or deletes the session.
func TestArchiveReplaced(t *testing.T) {
	t.Parallel()
	for replaced, replace := range map[string]func(t *testing.T, st *session.Store, s *session.Session){
		"restored": func(t *testing.T, st *session.Store, s *session.Session) {
			t.Helper()
			require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Archived, -1))
			require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Live, -1))
		},
		"erased": func(t *testing.T, st *session.Store, s *session.Session) {
			t.Helper()
			plan, err := erase.Preview(t.Context(), st, erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: storetest.Add(t, s, transcript.UserText(storetest.Word))}}})
			require.NoError(t, err)
			require.NoError(t, storetest.ErrOf(erase.Run(t.Context(), st, plan)))
		},
	} {
		for _, deletes := range []bool{false, true} {
			t.Run(fmt.Sprint(replaced, "/deletes=", deletes), func(t *testing.T) {
				t.Parallel()
				dir, now := t.TempDir(), time.Now()
				opts := &session.Options{Sync: session.SyncNever, Now: func() time.Time { return now }}
				other, st := storetest.Open(t, dir, opts), storetest.Open(t, dir, opts)
				defer storetest.Close(t, other)
				defer storetest.Close(t, st)
				s := storetest.Load(t, other, storetest.CLI)
				storetest.Add(t, storetest.Load(t, st, storetest.CLI), transcript.UserText("q"))
				replace(t, other, s)
				now = now.Add(2 * time.Hour)
				plan, err := retain.Preview(t.Context(), st, retain.Policy{Default: time.Hour, Delete: deletes, Force: true, Now: opts.Now})
				require.NoError(t, err)
				report, err := retain.Apply(t.Context(), st, plan)
				if errors.Is(err, session.ErrReplaced) {
					report, err = retain.Apply(t.Context(), st, plan)
				}
				require.NoError(t, err)
				require.Equal(t, []string{s.Ref().ID + " done"}, outcomes(report))
			})
		}
	}
}

// A driver that cannot archive returns an error.
func TestNoArchiver(t *testing.T) {
	st := session.OpenDriver(struct{ driver.Driver }{memdriver.New(nil)}, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	require.ErrorIs(t, st.SetState(t.Context(), s.Ref(), session.Archived, -1), errors.ErrUnsupported)
	require.ErrorIs(t, st.SetState(t.Context(), s.Ref(), session.Live, -1), errors.ErrUnsupported)
	later := func() time.Time { return time.Now().Add(2 * time.Hour) }
	p := retain.Policy{Default: time.Hour, Force: true, Now: later}
	require.ErrorIs(t, retain.Run(t.Context(), st, p, time.Hour, nil), errors.ErrUnsupported)
}

// A follower continues across an archive and a restore, even in another store.
func TestFollowArchived(t *testing.T) {
	dir := t.TempDir()
	st, other := storetest.Open(t, dir, nil), storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	defer storetest.Close(t, other)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("one"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	theirs, err := other.Get(ctx, s.Ref())
	require.NoError(t, err)
	var said []string
	for e, err := range theirs.Follow(ctx, s.Ref().ID) {
		require.NoError(t, err)
		f, ok := e.Body.(transcript.MessageLine)
		if !ok {
			continue
		}
		said = append(said, f.Message().Text())
		switch len(said) {
		case 1, 2:
			require.NoError(t, st.SetState(ctx, s.Ref(), session.Archived, -1))
			require.NoError(t, st.SetState(ctx, s.Ref(), session.Live, -1))
			storetest.Add(t, s, transcript.UserText(fmt.Sprint("after restore ", len(said))))
		case 3:
			require.Equal(t, []string{"one", "after restore 1", "after restore 2"}, said)
			cancel()
		}
		if len(said) == 3 {
			break
		}
	}
	require.Len(t, said, 3)
}

// An archive has entries that another process has appended and not synced.
func TestArchiveUnsynced(t *testing.T) {
	dir := t.TempDir()
	st, other := storetest.Open(t, dir, &session.Options{Sync: session.SyncInterval(time.Hour)}), storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("not synced yet"))
	require.NoError(t, other.SetState(t.Context(), s.Ref(), session.Archived, -1))
	require.NoError(t, s.Flush(t.Context()))
	require.ErrorIs(t, storetest.ErrOf(s.Append(t.Context(), transcript.UserText("no"))), session.ErrArchived)
	require.Contains(t, storetest.History(t, s), "not synced yet")
	storetest.Close(t, st)
	theirs, err := other.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	require.Contains(t, storetest.History(t, theirs), "not synced yet")
	storetest.Close(t, other)
}

// The index is made again from archives alone, with all that it had said.
func TestArchiveIndexLost(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	for i := range 5 {
		s, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Title: fmt.Sprint("title ", i), TTL: 400 * day, Labels: []string{"l"}})
		require.NoError(t, err)
		storetest.Add(t, s, transcript.UserText("hello"), storetest.Answer("yes"))
		require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Archived, -1))
	}
	any := &session.ListOptions{State: session.AnyState}
	before, err := st.List(t.Context(), any)
	require.NoError(t, err)
	storetest.Close(t, st)
	require.NoError(t, os.Remove(filepath.Join(dir, "agents/main/sessions.jsonl")))
	st = storetest.Open(t, dir, nil)
	after, err := st.List(t.Context(), any)
	require.NoError(t, err)
	require.Equal(t, storetest.JSON(t, before), storetest.JSON(t, after))
	storetest.Close(t, st)
}
