package session_test

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// between is a driver that calls functions in front of calls of it, and behind them.
type between struct {
	*filedriver.Driver
	scan, rewrite, remove, create, created func(session.Ref) error
}

// once returns a function that calls f the first time.
func once(f func()) func(session.Ref) error {
	due := true
	return func(session.Ref) error {
		if due {
			due = false
			f()
		}
		return nil
	}
}

func hooked(f func(session.Ref) error, ref session.Ref) error {
	if f == nil {
		return nil
	}
	return f(ref)
}

func (b *between) Scan(ctx context.Context, ref session.Ref, from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
	if err := hooked(b.scan, ref); err != nil {
		return func(yield func(transcript.Record, error) bool) { yield(transcript.Record{}, err) }
	}
	return b.Driver.Scan(ctx, ref, from, dir)
}

func (b *between) Rewrite(ctx context.Context, ref session.Ref, change func(iter.Seq2[transcript.Record, error], func([]byte) error) error) error {
	if err := hooked(b.rewrite, ref); err != nil {
		return err
	}
	return b.Driver.Rewrite(ctx, ref, change)
}

func (b *between) Delete(ctx context.Context, refs ...session.Ref) error {
	if err := hooked(b.remove, refs[0]); err != nil {
		return err
	}
	return b.Driver.Delete(ctx, refs...)
}

func (b *between) Create(ctx context.Context, agent, key string, header func(int64) (driver.Row, driver.Line), more ...driver.Line) (driver.Row, error) {
	if err := hooked(b.create, session.Ref{Agent: agent}); err != nil {
		return driver.Row{}, err
	}
	row, err := b.Driver.Create(ctx, agent, key, header, more...)
	return row, errors.Join(err, hooked(b.created, row.Ref()))
}

// openBetween opens a folder with a driver whose functions can be set.
func openBetween(t *testing.T, dir string) (*between, *session.Store) {
	t.Helper()
	d, err := filedriver.Open(dir, nil)
	require.NoError(t, err)
	b := &between{Driver: d}
	return b, session.OpenDriver(b, nil)
}

// An erase that could not look for forks, or not erase one that it has found, deletes
// no session: the same plan finds the forks again.
func TestEraseAgainFindsForks(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"look", "fork"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			dir := scratch(t)
			b, st := openBetween(t, dir)
			defer closed(t, st)
			s := load(t, st, cli)
			ids := add(t, s, transcript.UserText("A "+word+"."), transcript.AssistantText("Yes."))
			plan, err := st.PlanErase(t.Context(), session.Erasure{Sessions: []session.Ref{s.Ref()}})
			require.NoError(t, err)
			_, err = s.Fork(t.Context(), ids[1], nil)
			require.NoError(t, err)
			broken := errors.New("the disk is broken")
			fails := func(session.Ref) error { return broken }
			if where == "look" {
				b.scan = fails
			} else {
				b.rewrite = fails
			}
			_, err = st.Erase(t.Context(), plan)
			require.ErrorIs(t, err, broken)
			b.scan, b.rewrite = nil, nil
			_, err = st.Erase(t.Context(), plan)
			require.NoError(t, err)
			require.Empty(t, filesWith(t, dir))
			_, err = st.Get(t.Context(), s.Ref())
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

// A session that an erase only looks at may be deleted meanwhile.
func TestEraseBesideDelete(t *testing.T) {
	t.Parallel()
	for _, during := range []string{"plan", "erase"} {
		dir := scratch(t)
		b, st := openBetween(t, dir)
		s, beside := load(t, st, cli), load(t, st, session.Key{Agent: "main", Channel: "cli", Peer: "beside"})
		add(t, s, transcript.UserText("A "+word+"."))
		add(t, beside, transcript.UserText("Nothing."))
		remove := once(func() { require.NoError(t, b.Driver.Delete(t.Context(), beside.Ref())) })
		removes := func(ref session.Ref) error {
			if ref != beside.Ref() {
				return nil
			}
			return remove(ref)
		}
		if during == "plan" {
			b.scan = removes
		}
		plan, err := st.PlanErase(t.Context(), session.Erasure{Match: has})
		require.NoError(t, err, during)
		b.scan = removes
		_, err = st.Erase(t.Context(), plan)
		require.NoError(t, err, during)
		require.Empty(t, filesWith(t, dir))
		_, err = st.Get(t.Context(), beside.Ref())
		require.ErrorIs(t, err, fs.ErrNotExist)
		closed(t, st)
	}
}

// A fork that was archived since the plan is archived again by the Open that finishes
// the erase.
func TestEraseNotesForks(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	b, st := openBetween(t, dir)
	s := load(t, st, cli)
	ids := add(t, s, transcript.UserText("A "+word+"."), transcript.AssistantText("Yes."))
	plan, err := st.PlanErase(t.Context(), session.Erasure{Sessions: []session.Ref{s.Ref()}})
	require.NoError(t, err)
	fork, err := s.Fork(t.Context(), ids[1], nil)
	require.NoError(t, err)
	require.NoError(t, st.Archive(t.Context(), fork.Ref()))
	broken := errors.New("the disk is broken")
	b.rewrite = func(session.Ref) error { return broken } // the fork is restored then
	_, err = st.Erase(t.Context(), plan)
	require.ErrorIs(t, err, broken)
	closed(t, st)
	st = open(t, dir, nil)
	defer closed(t, st)
	require.Empty(t, filesWith(t, dir))
	fork, err = st.Get(t.Context(), fork.Ref())
	require.NoError(t, err)
	require.Equal(t, session.Archived, fork.Info().State)
}
