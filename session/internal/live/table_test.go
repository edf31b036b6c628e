package live_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/internal/live"
	"github.com/convolog/convolog/transcript"
)

// States in use stay in the table, and so do the idle ones that were used last. The row of
// one that leaves is put if the index lacks it.
func TestEviction(t *testing.T) {
	p := newProcess(t, memdriver.New(nil), func(o *live.Options) { o.Idle = 2 })
	var refs []driver.Ref
	for i := range 5 {
		refs = append(refs, p.create(fmt.Sprint("s", i), ""))
	}
	has := func() (ids string) {
		for _, ref := range refs {
			if p.Has(ref) {
				ids += ref.ID + " "
			}
		}
		return strings.TrimSpace(ids)
	}
	use := func(i int) { p.Release(p.Acquire(context.Background(), refs[i])) }
	use(0)
	use(1)
	require.Equal(t, "s0 s1", has())
	use(0)
	use(2)
	require.Equal(t, "s0 s2", has())
	require.NoError(t, p.submit(refs[0], job(t, "a")))
	held, again := p.Acquire(context.Background(), refs[2]), p.Acquire(context.Background(), refs[2])
	require.Same(t, held, again)
	use(3)
	require.Equal(t, "s0 s2 s3", has())
	require.Empty(t, p.puts)
	use(4)
	require.Equal(t, "s2 s3 s4", has())
	require.Equal(t, []string{"s0"}, p.puts)
	p.Release(held)
	use(3)
	use(4)
	require.Equal(t, "s2 s3 s4", has())
	p.Release(again)
	require.Equal(t, "s2 s4", has())
	row, err := p.Get(t.Context(), refs[0])
	require.NoError(t, err)
	require.Equal(t, 1, row.Messages)

	// A stale state leaves at once, unless it is in use.
	p.Forget(refs[4])
	require.Equal(t, "s2", has())
	held = p.Acquire(context.Background(), refs[2])
	p.Forget(refs[2])
	require.Equal(t, "s2", has())
	require.Same(t, held, p.Acquire(context.Background(), refs[2]))
	p.Release(held)
	require.Equal(t, "s2", has())
	p.Release(held)
	require.Empty(t, has())
	p.Forget(refs[1])
	require.Empty(t, has())
	require.Equal(t, []string{"s0"}, p.puts)
}

// Rows are put on request, when metadata change, and by an append five seconds
// after the last one.
func TestRows(t *testing.T) {
	p, ref := one(t)
	at := func(seconds int, j *live.Job) *live.Job {
		j.At = start.Add(time.Duration(seconds) * time.Second)
		return j
	}
	title := job(t, "t")
	title.Entries[0].Body = transcript.Meta{Title: new("a title")}
	for _, step := range []struct {
		j    *live.Job
		puts int
	}{
		{at(4, job(t, "a")), 0}, // the row of the creation is of second 0
		{at(5, keyed(t, "K", "b")), 1},
		{at(9, job(t, "c")), 0},
		{at(20, keyed(t, "K", "x")), 0}, // a repeat
		{at(10, job(t, "d")), 1},
		{at(10, title), 1},
		{at(14, job(t, "e")), 0},
	} {
		p.puts = nil
		require.NoError(t, p.submit(ref, step.j))
		require.Len(t, p.puts, step.puts, step.j.Entries[0].ID)
	}
	row, err := p.Get(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, []any{"a title", 4}, []any{row.Title, row.Messages})

	s := p.Acquire(context.Background(), ref)
	defer p.Release(s)
	p.puts = nil
	require.False(t, s.PutRow(t.Context(), false))
	require.False(t, s.PutRow(t.Context(), false))
	require.Len(t, p.puts, 1)
	row, err = p.Get(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, 5, row.Messages)
	s.RowDue()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, s.PutRow(cancelled, false))
	require.Len(t, p.puts, 2, "whatever the context")
}

// A row that could not be put is put later. A locked index is waited for once.
func TestRowsFail(t *testing.T) {
	for _, test := range []struct {
		err    error
		puts   int // of two sessions
		again  int
		locked bool
		logged bool
	}{
		{nil, 2, 0, false, false},
		{errDisk, 2, 2, false, true},
		{fmt.Errorf("x: %w", driver.ErrBusy), 1, 2, true, true},
		{driver.ErrArchived, 2, 0, false, false},
		{driver.ErrClosed, 2, 2, false, false},
		{driver.ErrReplaced, 2, 2, false, false},
	} {
		var log strings.Builder
		p := newProcess(t, memdriver.New(nil), func(o *live.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		refs := []driver.Ref{p.create("a", ""), p.create("b", "")}
		for _, ref := range refs {
			require.NoError(t, p.submit(ref, job(t, "x")))
		}
		p.PutRows(t.Context(), "other", true)
		require.Empty(t, p.puts)
		p.put = test.err
		p.PutRows(t.Context(), "main", true)
		require.Len(t, p.puts, test.puts, "%v", test.err)
		require.Equal(t, test.logged, strings.Contains(log.String(), "the index was not brought up to date"), "%v", test.err)
		p.put, p.puts = nil, nil
		p.PutRows(t.Context(), "", true)
		require.Len(t, p.puts, test.again, "%v", test.err)
		if test.locked {
			s := p.Acquire(context.Background(), refs[0])
			p.put = test.err
			s.RowDue()
			require.True(t, s.PutRow(t.Context(), true))
			p.Release(s)
		}
	}
}

// A row for which older lines have to be read waits for a call that may read them.
func TestRowThatLacksLines(t *testing.T) {
	a, b, ref := two(t)
	for range 10 {
		require.NoError(t, a.submit(ref, job(t, a.id(), a.id())))
	}
	c := job(t, "c")
	c.Entries[0].Body = transcript.Compaction{Summary: "s", FirstKept: "e19", CoversTo: "e18", TurnsBefore: 1}
	require.NoError(t, a.submit(ref, c))
	require.NoError(t, b.submit(ref, job(t, "d")))
	s := b.Acquire(context.Background(), ref)
	defer b.Release(s)
	s.PutRow(t.Context(), false)
	require.Empty(t, b.puts)
	s.PutRow(t.Context(), true)
	require.Len(t, b.puts, 1)
	row, err := b.Get(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, 21, row.Messages)
}

// Readers begin with the lines that the history needs, and read all if they must.
func TestSync(t *testing.T) {
	a, b, ref := two(t)
	for range 5 {
		require.NoError(t, a.submit(ref, job(t, a.id())))
	}
	c := job(t, "c")
	c.Entries[0].Body = transcript.Compaction{Summary: "s", FirstKept: "e5", CoversTo: "e4", TurnsBefore: 4}
	require.NoError(t, a.submit(ref, c))
	require.Equal(t, "e5", b.shown(ref))
	s := b.Acquire(context.Background(), ref)
	defer b.Release(s)
	whole := func() (whole bool) {
		require.NoError(t, s.Do(func() error { whole = s.Whole(); return nil }))
		return whole
	}
	require.False(t, whole())
	b.scans = 0
	require.Equal(t, "e5", b.shown(ref))
	require.Equal(t, 1, b.scans, "it reads on")
	require.NoError(t, s.Do(func() error { return s.ReadAll(t.Context()) }))
	require.True(t, whole())
	require.Equal(t, "e5", b.shown(ref))
	require.True(t, whole(), "it stays")
	require.NoError(t, s.Do(func() error { return s.Reread(t.Context()) }))
	require.False(t, whole())
	r := job(t, "r")
	r.Entries[0].Body = transcript.Rewind{To: "e2"}
	require.NoError(t, a.submit(ref, r))
	require.Equal(t, "e1 e2", b.shown(ref))
	s.Forget()
	require.Equal(t, "e1 e2", b.shown(ref))
	require.ErrorIs(t, s.Do(func() error { return errDisk }), errDisk)
}

// The news of a session are reported once.
func TestNews(t *testing.T) {
	a, b, ref := two(t)
	cut := keyed(t, "K", "x1", "x2")
	_, err := a.Driver.Append(t.Context(), ref, []driver.Line{live.LineOf(cut.Entries[0])}, driver.Anywhere, nil)
	require.NoError(t, err)
	require.Equal(t, "x1", b.shown(ref))
	again := keyed(t, "K", "x1", "x2")
	require.NoError(t, b.submit(ref, again))
	require.False(t, again.Done.Hit)
	s := b.Acquire(context.Background(), ref)
	defer b.Release(s)
	news := s.TakeNews()
	require.Len(t, news, 1, "of an own append that nothing has read")
	require.Equal(t, 1, news[0].Superseded)
	require.Empty(t, s.TakeNews())
}

// Places are read from an outline, of which the last ones used are kept.
func TestPlaces(t *testing.T) {
	p := newProcess(t, memdriver.New(nil))
	var refs []driver.Ref
	for i := range 9 {
		refs = append(refs, p.create(fmt.Sprint("s", i), ""))
		for _, id := range []string{"a", "b"} {
			require.NoError(t, p.submit(refs[i], job(t, id)))
		}
		r := job(t, "r")
		r.Entries[0].Body = transcript.Rewind{To: "a"}
		require.NoError(t, p.submit(refs[i], r))
	}
	places := func(i int) {
		t.Helper()
		got, err := p.Places(t.Context(), refs[i], []string{"a", "b", "x"})
		require.NoError(t, err)
		require.Equal(t, map[string]rebuild.Where{"a": {}, "b": {Rewound: true}}, got)
	}
	for i := range 8 {
		places(i)
	}
	scans := func(i int) int { // a kept outline looks for its last line
		p.scans = 0
		places(i)
		return p.scans
	}
	require.Equal(t, 1, scans(0))
	places(8)
	require.Equal(t, 1, scans(0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.Places(ctx, refs[0], nil)
	require.ErrorIs(t, err, context.Canceled)
	places(0)
	places(1)
}

// Whatever two processes do, each acknowledged append is there once and in order, a key
// is written once, and both show the history of a reader that begins anew.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		a, b, ref := two(t)
		b.n = 1 << 20 // so that IDs differ
		failing := false
		fail := func([]string) error {
			if failing {
				return errDisk
			}
			return nil
		}
		a.fail, b.fail = fail, fail
		var want []string
		keys := map[string]bool{}
		for range 80 {
			p := []*process{a, b}[rnd.IntN(2)]
			failing = rnd.IntN(8) == 0
			j := job(t, p.id(), p.id())
			switch rnd.IntN(8) {
			case 0:
				p.Forget(ref)
			case 1, 2:
				j = keyed(t, fmt.Sprint("K", rnd.IntN(12)), p.id(), p.id())
			case 3:
				s := p.Acquire(context.Background(), ref)
				j.Decide = func(context.Context) error {
					if got := s.Fold.Head(); len(want) > 0 && got != want[len(want)-1] {
						return fmt.Errorf("seed %d: the head is %s, not %s", seed, got, want[len(want)-1])
					}
					return nil
				}
				p.Release(s)
			case 4:
				p.PutRows(t.Context(), "", rnd.IntN(2) == 0)
			case 5:
				require.Equal(t, strings.Join(want, " "), p.shown(ref), "seed %d", seed)
			}
			ids := []string{j.Entries[0].ID, j.Entries[1].ID}
			err := p.submit(ref, j)
			switch {
			case err != nil:
				require.ErrorIs(t, err, errDisk)
			case j.Done.Hit:
				require.True(t, keys[j.Idem], "seed %d", seed)
			default:
				require.False(t, keys[j.Idem], "seed %d", seed)
				want = append(want, ids...)
				keys[j.Idem] = j.Idem != ""
			}
		}
		failing = false
		for _, p := range []*process{a, b, newProcess(t, memdriver.Reopen(a.Driver))} {
			require.Equal(t, strings.Join(want, " "), p.lines(ref), "seed %d", seed)
			require.Equal(t, strings.Join(want, " "), p.shown(ref), "seed %d", seed)
		}
		a.PutRows(t.Context(), "", true)
		b.PutRows(t.Context(), "", true)
		row, err := a.Get(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, len(want), row.Messages)
	}
}

// The same with many goroutines.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	a, b, ref := two(t)
	const each = 40
	done := make(chan []string)
	for g := range 8 {
		p := []*process{a, b}[g%2]
		go func() {
			var mine []string
			for i := range each {
				j := job(t, fmt.Sprintf("g%d-%d", g, i))
				if i%3 == 0 {
					j = keyed(t, j.Entries[0].ID, j.Entries[0].ID)
				}
				if err := p.submit(ref, j); err != nil {
					t.Error(err)
				}
				mine = append(mine, j.Entries[0].ID)
			}
			done <- mine
		}()
	}
	var all [][]string
	for range 8 {
		all = append(all, <-done)
	}
	lines := strings.Fields(a.lines(ref))
	require.Len(t, lines, 8*each)
	for _, mine := range all {
		got := slices.DeleteFunc(slices.Clone(lines), func(id string) bool { return !slices.Contains(mine, id) })
		require.Equal(t, mine, got)
	}
	for _, p := range []*process{a, b} {
		require.Equal(t, strings.Join(lines, " "), p.shown(ref))
	}
}
