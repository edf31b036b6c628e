package session_test

import (
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A fork that has read a session before something of it was erased is not made.
func TestForkOfWhatWasErased(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		what func(s *session.Session, id string) session.Erasure
		is   error
	}{
		"entries": {func(s *session.Session, id string) session.Erasure { return chosen(s, id) }, session.ErrReplaced},
		"match":   {func(*session.Session, string) session.Erasure { return session.Erasure{Match: storetest.HasWord} }, session.ErrReplaced},
		"owner":   {func(*session.Session, string) session.Erasure { return session.Erasure{Owner: "ada"} }, fs.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := storetest.Scratch(t)
			var read func() // once the fork has read its base
			st := storetest.Open(t, dir, &session.Options{Now: func() time.Time {
				if f := read; f != nil {
					read = nil
					f()
				}
				return time.Now()
			}})
			defer storetest.Close(t, st)
			other := storetest.Open(t, dir, nil)
			defer storetest.Close(t, other)
			s, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Owner: "ada"})
			require.NoError(t, err)
			ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
			read = func() { erased(t, other, test.what(s, ids[0])) }
			_, err = s.Fork(t.Context(), ids[1], nil)
			require.ErrorIs(t, err, test.is)
			require.Nil(t, read)
			require.Empty(t, storetest.FilesWith(t, dir))
			_, err = s.Fork(t.Context(), ids[1], nil)
			require.Equal(t, name != "owner", err == nil, err)
			require.Empty(t, storetest.FilesWith(t, dir))
		})
	}
}

// Somebody may find a fork by its key and append to it before the fork sees that its
// base was erased. The append stays, and the copied words go.
func TestForkInUseOfWhatWasErased(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]session.Erasure{"match": {Match: storetest.HasWord}, "owner": {Owner: "ada"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := storetest.Scratch(t)
			b, st := storetest.OpenBetween(t, dir)
			defer storetest.Close(t, st)
			other := storetest.Open(t, dir, nil)
			defer storetest.Close(t, other)
			s, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Owner: "ada"})
			require.NoError(t, err)
			require.NoError(t, storetest.ErrOf(turn.SetValue(t.Context(), s, "pet", []byte(`"`+storetest.Word+`"`), "")))
			ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
			b.BeforeCreate = storetest.Once(func() { erased(t, other, what) })
			var fork *session.Session
			var said []string
			b.AfterCreate = storetest.Once(func() {
				fork = storetest.Load(t, other, storetest.CLI)
				said = storetest.Add(t, fork, transcript.UserText("Acknowledged."))
			})
			_, err = s.Fork(t.Context(), ids[1], nil)
			require.ErrorIs(t, err, session.ErrReplaced)
			require.ErrorContains(t, err, fork.ID())
			require.Empty(t, storetest.FilesWith(t, dir))
			fork, err = st.Get(t.Context(), fork.Ref())
			require.NoError(t, err)
			require.Contains(t, storetest.History(t, fork), "Acknowledged.")
			require.Contains(t, storetest.EntryIDs(t, fork), said[0])
			storetest.CheckSound(t, st, fork.Ref())
		})
	}
}

// A driver that is no Archiver deletes the fork of a session that is gone, too.
func TestForkOfWhatWasDeleted(t *testing.T) {
	t.Parallel()
	var read func() error // once the fork has read its base
	st := session.OpenDriver(struct{ driver.Driver }{memdriver.New(nil)}, &session.Options{Now: func() time.Time {
		if f := read; f != nil {
			read = nil
			require.NoError(t, f())
		}
		return time.Now()
	}})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("Hello."), transcript.AssistantText("Hello."))
	read = func() error { return st.Delete(t.Context(), s.Ref()) }
	_, err := s.Fork(t.Context(), ids[1], nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = st.Lookup(t.Context(), storetest.CLI)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// An erase that deletes a session looks for forks before it does. A fork that is made
// after that look is not made.
func TestForkOfWhatIsErased(t *testing.T) {
	t.Parallel()
	for _, owner := range []string{"", "ada"} {
		t.Run("of "+owner, func(t *testing.T) {
			t.Parallel()
			dir := storetest.Scratch(t)
			b, st := storetest.OpenBetween(t, dir)
			defer storetest.Close(t, st)
			other := storetest.Open(t, dir, nil)
			defer storetest.Close(t, other)
			s, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Owner: "ada"})
			require.NoError(t, err)
			ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
			forking := other
			if owner != "" {
				forking, err = other.Scope(owner)
				require.NoError(t, err)
			}
			base, err := forking.Get(t.Context(), s.Ref())
			require.NoError(t, err)
			b.BeforeDelete = storetest.Once(func() {
				_, err := base.Fork(t.Context(), ids[1], nil)
				require.ErrorIs(t, err, session.ErrReplaced)
			})
			erased(t, st, session.Erasure{Sessions: []session.Ref{s.Ref()}})
			require.Empty(t, storetest.FilesWith(t, dir))
			_, err = base.Fork(t.Context(), ids[1], nil)
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}
