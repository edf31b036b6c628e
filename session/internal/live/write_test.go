package live_test

import (
	"context"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/internal/live"
	"github.com/convolog/convolog/transcript"
)

// two returns two processes with one session.
func two(t *testing.T) (a, b *process, ref driver.Ref) {
	t.Helper()
	drv := memdriver.New(nil)
	a, b = newProcess(t, drv), newProcess(t, memdriver.Reopen(drv))
	return a, b, a.create("s", "")
}

// A key that was written is remembered: by the process that has written it, by one that
// has read it, and by one that has to read it first.
func TestRememberedKey(t *testing.T) {
	a, b, ref := two(t)
	require.NoError(t, a.submit(ref, job(t, "a")))
	require.NoError(t, b.submit(ref, job(t, "b")))
	first := keyed(t, "K", "c", "d")
	require.NoError(t, a.submit(ref, first))
	require.False(t, first.Done.Hit)
	require.NotZero(t, first.Done.Bytes)
	for i, p := range []*process{a, b, newProcess(t, memdriver.Reopen(b.Driver)), a} {
		again := keyed(t, "K", "x")
		p.scans = 0
		require.NoError(t, p.submit(ref, again))
		require.True(t, again.Done.Hit, i)
		require.Zero(t, again.Done.Bytes)
		if i == 0 {
			require.Zero(t, p.scans, "the key of an own append")
		}
		s := p.Acquire(context.Background(), ref)
		at, held := s.PlaceOf("K")
		require.Nil(t, held)
		require.LessOrEqual(t, at, first.Done.Start)
		require.NotZero(t, at)
		p.Release(s)
		a.Forget(ref)
	}
	require.Equal(t, "a b c d", a.lines(ref))
}

// An append without a condition reads nothing, and its lines are in the next history.
func TestAppendReadsNothing(t *testing.T) {
	p, ref := one(t)
	require.NoError(t, p.submit(ref, job(t, "a")))
	p.scans = 0
	for range 3 {
		require.NoError(t, p.submit(ref, job(t, p.id(), p.id())))
		require.NoError(t, p.submit(ref, keyed(t, p.id(), p.id())))
	}
	require.Zero(t, p.scans)
	require.Equal(t, p.lines(ref), p.shown(ref))
}

// A decision sees all lines that are there when its own are written, whoever has written
// them.
func TestDecide(t *testing.T) {
	a, b, ref := two(t)
	require.NoError(t, a.submit(ref, job(t, "a")))
	s := a.Acquire(context.Background(), ref)
	defer a.Release(s)
	var saw []string
	j := job(t, "d")
	j.Decide = func(context.Context) error {
		saw = append(saw, s.Fold.Head())
		if len(saw) == 1 { // another process appends first
			require.NoError(t, b.submit(ref, job(t, "b")))
		}
		return nil
	}
	built := 0
	j.Build = func() error { built++; return nil }
	require.True(t, s.Submit(j))
	require.NoError(t, j.Done.Err)
	require.Equal(t, []string{"a", "b"}, saw)
	require.Equal(t, 2, built)
	require.Equal(t, "a b d", a.shown(ref))

	// Keys are decided in the same way.
	require.NoError(t, b.submit(ref, keyed(t, "K", "k")))
	again := keyed(t, "K", "x")
	require.NoError(t, a.submit(ref, again))
	require.True(t, again.Done.Hit)

	for _, set := range []func(j *live.Job){
		func(j *live.Job) { j.Decide = func(context.Context) error { return errDisk } },
		func(j *live.Job) { j.Build = func() error { return errDisk } },
	} {
		j := job(t, "x")
		set(j)
		require.ErrorIs(t, a.submit(ref, j), errDisk)
	}
	nothing := &live.Job{Ctx: t.Context(), At: start, Decide: func(context.Context) error { return nil }, Rev: live.AnyRev}
	a.puts = nil
	require.NoError(t, a.submit(ref, nothing))
	require.Equal(t, "a b d k", a.lines(ref))
}

// A decision belongs to the rev that it began with.
func TestDecideRev(t *testing.T) {
	p, ref := one(t)
	for rev, want := range map[int]error{live.AnyRev: nil, 0: nil, 1: driver.ErrReplaced} {
		j := job(t, p.id())
		j.Rev, j.Decide = rev, func(context.Context) error { return nil }
		require.ErrorIs(t, p.submit(ref, j), want)
		if rev == live.AnyRev {
			require.Zero(t, j.Rev)
		}
	}
}

// Foreign lines are written after the place that they were made for.
func TestForeign(t *testing.T) {
	p, ref := one(t)
	require.NoError(t, p.submit(ref, job(t, "a")))
	foreign := func(after driver.Cursor, ids ...string) *live.Job {
		j := job(t, ids...)
		j.Foreign, j.After = true, after
		return j
	}
	end := func() driver.Cursor {
		res, err := p.Driver.Append(t.Context(), ref, nil, driver.Anywhere, nil)
		require.NoError(t, err)
		return res.End
	}
	at := end()
	require.NoError(t, p.submit(ref, foreign(at, "b", "c")))
	require.Equal(t, "a b c", p.shown(ref))
	require.ErrorIs(t, p.submit(ref, foreign(at, "d")), driver.ErrConflict)

	for good := range 2 {
		p.scan = func() error {
			if good--; good < 0 {
				return errDisk
			}
			return nil
		}
		require.ErrorIs(t, p.submit(ref, foreign(at, "d")), errDisk)
	}
	p.scan = nil

	at = end()
	current := job(t, "g")
	current.Entries[0].Body = transcript.Current{Gen: 2}
	require.NoError(t, p.submit(ref, current))
	require.NoError(t, p.submit(ref, foreign(at, "e")))
	require.Equal(t, "a b c g e", p.lines(ref))
	require.Equal(t, "a b c e", p.shown(ref))

	// Another process appends first.
	other := newProcess(t, memdriver.Reopen(p.Driver))
	late := foreign(end(), "x")
	late.Build = func() error { return other.submit(ref, job(t, other.id())) }
	require.ErrorIs(t, p.submit(ref, late), driver.ErrConflict)
	require.Equal(t, "a b c g e e1", p.lines(ref))
}

// An append is refused in a store that is read-only, to a session of another owner, to one
// of a newer format and to one that does not exist.
func TestRefused(t *testing.T) {
	p := newProcess(t, memdriver.New(nil), func(o *live.Options) { o.ReadOnly = true })
	require.ErrorIs(t, p.submit(p.create("s", ""), job(t, "a")), driver.ErrReadOnly)

	p = newProcess(t, memdriver.New(nil))
	ref := p.create("s", "anna")
	for owner, want := range map[string]error{"": nil, "anna": nil, "bert": live.ErrNotFound} {
		j := job(t, p.id())
		j.Owner = owner
		require.ErrorIs(t, p.submit(ref, j), want)
	}
	require.ErrorIs(t, p.submit(driver.Ref{Agent: "main", ID: "none"}, job(t, "a")), fs.ErrNotExist)
	require.NotNil(t, p.submit(driver.Ref{Agent: "main", ID: "none"}, job(t, "a")))
}

// A line of a newer format that must not be ignored fails every later reading, and an
// append that reads. A failing scan does so while it fails.
func TestCannotRead(t *testing.T) {
	a, b, ref := two(t)
	require.NoError(t, a.submit(ref, job(t, "a")))
	sync := func(p *process) error {
		s := p.Acquire(context.Background(), ref)
		defer p.Release(s)
		return s.Do(func() error { return s.Sync(t.Context()) })
	}
	b.scan = diskGone
	require.ErrorIs(t, sync(b), errDisk)
	require.ErrorIs(t, b.submit(ref, job(t, "x")), errDisk)
	b.scan = nil
	require.Equal(t, "a", b.shown(ref))
	require.NoError(t, a.submit(ref, job(t, "b")))
	b.scan = diskGone
	require.ErrorIs(t, sync(b), errDisk)
	s := b.Acquire(context.Background(), ref)
	s.Forget()
	s.RowDue()
	s.PutRow(t.Context(), true)
	require.Empty(t, b.puts)
	b.Release(s)
	b.scan = nil
	require.Equal(t, "a b", b.shown(ref))

	j := job(t, "n")
	j.Entries[0].Body = transcript.Unknown{Kind: "new", Critical: true}
	require.NoError(t, a.submit(ref, j))
	for range 3 {
		for _, p := range []*process{a, b} {
			require.ErrorIs(t, sync(p), rebuild.ErrNewerFormat)
			require.ErrorIs(t, p.submit(ref, keyed(t, "K", "x")), rebuild.ErrNewerFormat)
		}
	}
}

// A session that was deleted and made again is read again, after one error.
func TestMadeAgain(t *testing.T) {
	a, b, ref := two(t)
	require.NoError(t, a.submit(ref, keyed(t, "K", "a")))
	require.NoError(t, b.Delete(t.Context(), driver.Anywhere, ref))
	b.create("s", "")
	require.NoError(t, b.submit(ref, job(t, "b")))
	require.ErrorIs(t, a.submit(ref, job(t, "x")), driver.ErrReplaced)
	again := keyed(t, "K", "c")
	require.NoError(t, a.submit(ref, again))
	require.False(t, again.Done.Hit, "a key of the session before")
	require.Equal(t, "b c", a.shown(ref))
}

func TestShown(t *testing.T) {
	missing := fmt.Errorf("x: %w", fs.ErrNotExist)
	for _, test := range []struct {
		scope, owner string
		err, want    error
	}{
		{"", "anna", nil, nil},
		{"anna", "anna", nil, nil},
		{"anna", "", nil, live.ErrNotFound},
		{"anna", "bert", nil, live.ErrNotFound},
		{"anna", "bert", errDisk, errDisk},
		{"anna", "anna", missing, live.ErrNotFound},
		{"", "", missing, missing},
	} {
		require.Equal(t, test.want, live.Shown(test.scope, test.owner, test.err))
	}
	for err, want := range map[error]bool{driver.ErrReplaced: true, missing: true, live.ErrNotFound: false, errDisk: false} {
		require.Equal(t, want, live.IsGone(err))
	}
}
