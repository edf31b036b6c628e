package session_test

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

var states = []session.State{session.Live, session.Archived, session.Trashed}

// A session goes from each state to each other one and back, and keeps its words. It is
// listed in its state alone, AnyState leaves out the trash, and EveryState does not.
func TestStates(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for _, from := range states {
		for _, to := range states {
			t.Run(string(from+" to "+to), func(t *testing.T) {
				var done []session.Action
				st := session.OpenDriver(memdriver.New(nil), &session.Options{
					Now:   func() time.Time { return at },
					Audit: func(_ context.Context, a session.Action) { done = append(done, a) },
				})
				defer storetest.Close(t, st)
				s := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{ID: "one"})
				storetest.Talk(t, s, 0, 2)
				words := storetest.History(t, s)
				ref := session.Ref{ID: "one"} // of agent main
				for _, state := range []session.State{from, to, to} {
					require.NoError(t, st.SetState(t.Context(), ref, state, -1))
					info := storetest.Info(t, s)
					require.Equal(t, state, info.State)
					require.Equal(t, state == session.Live, info.Current)
					if info.Trashed.IsZero() == (state == session.Trashed) || state == session.Trashed && !info.Trashed.Equal(at) {
						t.Errorf("%s: trashed at %v", state, info.Trashed)
					}
					for _, listed := range append(states, session.AnyState, session.EveryState) {
						want := listed == state || listed == session.EveryState || listed == session.AnyState && state != session.Trashed
						require.Len(t, storetest.ListIDs(t, st, &session.ListOptions{State: listed}), map[bool]int{true: 1}[want], "%s in %s", state, listed)
					}
					got, err := st.Get(t.Context(), ref)
					require.NotNil(t, got, "the trash hides it, and gives it all the same")
					require.Equal(t, state == session.Trashed, errors.Is(err, fs.ErrNotExist), err)
					require.Equal(t, words, storetest.History(t, got))
				}
				_, err := s.Append(t.Context(), transcript.UserText("more"))
				require.Equal(t, to != session.Live, errors.Is(err, session.ErrArchived), err)
				require.NoError(t, st.SetState(t.Context(), ref, session.Live, -1))
				require.Equal(t, to == session.Live, storetest.History(t, s) != words)
				name := map[session.State]string{session.Live: "restore", session.Archived: "archive", session.Trashed: "trash"}[to]
				require.Equal(t, session.Action{Name: name, Session: s.Ref()}, done[1])
			})
		}
	}
}

// A session that has changed since a caller saw it is not archived.
func TestStateOfAChangedSession(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	seen := storetest.Info(t, s).End
	storetest.Talk(t, s, 0, 1)
	for _, to := range states[1:] {
		require.ErrorIs(t, st.SetState(t.Context(), s.Ref(), to, seen), session.ErrConflict)
		require.Equal(t, session.Live, storetest.Info(t, s).State)
	}
	for _, to := range []session.State{session.Archived, session.Trashed, session.Archived} {
		require.NoError(t, st.SetState(t.Context(), s.Ref(), to, storetest.Info(t, s).End))
		require.Equal(t, to, storetest.Info(t, s).State)
		other := states[1:][map[session.State]int{session.Archived: 1}[to]]
		require.ErrorIs(t, st.SetState(t.Context(), s.Ref(), other, seen), session.ErrConflict)
		require.NoError(t, st.SetState(t.Context(), s.Ref(), to, seen), "it is in that state")
	}
	for _, to := range []session.State{session.Expired, session.AnyState, session.EveryState, "gone"} {
		err := st.SetState(t.Context(), s.Ref(), to, -1)
		require.ErrorIs(t, err, fs.ErrInvalid)
		require.ErrorContains(t, err, string(to))
	}
	require.ErrorIs(t, st.SetState(t.Context(), session.Ref{ID: "none"}, session.Archived, -1), fs.ErrNotExist)
}

// bare is a driver without abilities.
type bare struct{ driver.Driver }

func TestStateNeedsARewriter(t *testing.T) {
	st := session.OpenDriver(bare{memdriver.New(nil)}, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	require.ErrorIs(t, st.SetState(t.Context(), s.Ref(), session.Archived, -1), errors.ErrUnsupported)
	require.ErrorIs(t, s.Rewrite(t.Context(), eraseWord), errors.ErrUnsupported)
	require.Empty(t, st.Beyond())
}

// A session expires a TTL after its last user message, or after its creation without one.
func TestExpires(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Now: func() time.Time { return now }})
	defer storetest.Close(t, st)
	s := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{TTL: time.Hour})
	want := func(over time.Time, state session.State) {
		t.Helper()
		info := storetest.Info(t, s)
		require.True(t, over.Equal(info.Expires), info.Expires)
		require.Equal(t, state, info.State)
		require.Len(t, storetest.ListIDs(t, st, &session.ListOptions{State: state}), 1)
	}
	created := now
	want(created.Add(time.Hour), session.Live)
	now = created.Add(time.Hour - 1)
	want(created.Add(time.Hour), session.Live)
	now = created.Add(time.Hour)
	want(created.Add(time.Hour), session.Expired)
	storetest.Add(t, s, storetest.Answer("no user message"))
	want(created.Add(time.Hour), session.Expired)
	storetest.Add(t, s, transcript.UserText("hello"))
	want(now.Add(time.Hour), session.Live)
	said := now
	now = now.Add(2 * time.Hour)
	require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Archived, -1))
	want(said.Add(time.Hour), session.Archived)
	require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Live, -1))
	now = created.Add(-time.Hour) // the clock was corrected
	storetest.Add(t, s, transcript.UserText("again"))
	want(created.Add(time.Hour), session.Live)
	for _, ttl := range []int64{0, -1, math.MaxInt64} {
		storetest.Add(t, s, transcript.Meta{TTL: new(ttl)})
		info := storetest.Info(t, s)
		require.Zero(t, info.TTL)
		want(time.Time{}, session.Live)
	}
}

// A deletion of several sessions deletes each of them, those named twice as well.
func TestDeleteSeveral(t *testing.T) {
	var done []session.Action
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Audit: func(_ context.Context, a session.Action) { done = append(done, a) }})
	defer storetest.Close(t, st)
	for _, id := range []string{"b", "a", "c"} {
		_ = storetest.Create(t, st, session.Key{}, &session.CreateOptions{ID: id})
	}
	require.NoError(t, st.Delete(t.Context(), session.Ref{ID: "c"}, session.Ref{ID: "a"}, session.Ref{ID: "c"}))
	require.Equal(t, []string{"b"}, storetest.ListIDs(t, st, nil))
	require.Len(t, done, 3)
	err := st.Delete(t.Context(), session.Ref{ID: "a"}, session.Ref{ID: "b"})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Empty(t, storetest.ListIDs(t, st, nil))
	scope, err := st.Scope("ann")
	require.NoError(t, err)
	s := storetest.Create(t, scope, session.Key{}, nil)
	done = nil
	bob, err := st.Scope("bob")
	require.NoError(t, err)
	require.ErrorIs(t, bob.Delete(t.Context(), s.Ref()), fs.ErrNotExist)
	require.ErrorIs(t, bob.DeleteAt(t.Context(), s.Ref(), 0), fs.ErrNotExist)
	require.ErrorIs(t, scope.DeleteAt(t.Context(), s.Ref(), storetest.Info(t, s).End-1), session.ErrConflict)
	require.NoError(t, scope.DeleteAt(t.Context(), s.Ref(), storetest.Info(t, s).End))
	var owners []string
	for _, a := range done {
		require.Equal(t, "delete", a.Name)
		owners = append(owners, a.Owner)
	}
	require.Equal(t, []string{"bob", "bob", "ann", "ann"}, owners)
	require.NoError(t, done[3].Err)
}
