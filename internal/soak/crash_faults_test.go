//go:build linux && (amd64 || arm64)

package soak_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// errnos are the errors that a call may fail with.
var errnos = []syscall.Errno{
	syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.EROFS, syscall.ESTALE, syscall.EINTR, syscall.EACCES,
}

// A faultRun is a workload in which one system call fails, or all from one on.
type faultRun struct {
	n       int // the call that fails
	sticky  bool
	errno   syscall.Errno
	partial int // bytes that a failing write writes; negative: the write is merely short

	seen   int // calls so far
	failed storetest.Call
	full   string // the file that has no room for the rest of a write
}

func (r *faultRun) judge(c storetest.Call) storetest.Verdict {
	r.seen++
	if r.full == c.Path && c.Kind == "write" {
		r.full = ""
		return storetest.Verdict{Errno: r.errno}
	}
	if r.seen != r.n && (!r.sticky || r.seen < r.n) {
		return storetest.Verdict{}
	}
	if r.seen == r.n {
		r.failed = c
	}
	switch {
	case r.errno == syscall.EINTR && (r.sticky || c.Kind == "create" || c.Kind == "open" || c.Kind == "mkdir"):
		// A program retries for ever, or does not know its new session.
		return storetest.Verdict{Errno: syscall.EIO}
	case r.errno == syscall.EACCES && c.Kind == "lock":
		return storetest.Verdict{Errno: syscall.ENOLCK} // the other one reports that it exists
	case c.Kind != "write" || r.partial == 0 || r.errno == syscall.EINTR:
		return storetest.Verdict{Errno: r.errno}
	case r.partial < 0:
		return storetest.Verdict{Short: true, Partial: -r.partial}
	default: // as the kernel does: a part, and the error for the rest
		r.full = c.Path
		return storetest.Verdict{Short: true, Partial: r.partial}
	}
}

// errOver ends a workload.
var errOver = errors.New("nothing more can be done")

// run runs the workload and returns the violations that it found.
func (r *faultRun) run(t testing.TB, wl storetest.Workload, open storetest.Opener) (broken []string) {
	t.Helper()
	dir := storetest.Scratch(t)
	errorf := func(format string, args ...any) {
		broken = append(broken, fmt.Sprintf(format, args...))
	}
	var (
		known    storetest.World // after the last call that was fine
		unknown  bool            // a call may have done something or not
		deleting bool            // and it was a deletion
		fragment bool
	)
	w := &storetest.Worker{Dir: dir, Open: open, Clock: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	w.Try = func(name string, do func(ctx context.Context) error) error {
		err := do(storetest.Background)
		if err != nil && !r.sticky && !isUnknown(err) && name != "close" {
			fragment = fragment || errors.Is(err, session.ErrFragment)
			again := do(storetest.Background)
			// A deletion that failed half way is finished.
			if again != nil && (name != "delete" || !errors.Is(again, fs.ErrNotExist)) {
				errorf("%s fails after the fault (%v) is gone: %v", name, err, again)
				return errOver
			}
			err = nil
		}
		if err != nil {
			unknown, deleting = true, name == "delete"
			return errOver
		}
		if w.Store != nil {
			var now storetest.World
			storetest.Unseen(func() { now, err = storetest.Look(storetest.Background, w.Store, false) })
			if err != nil {
				errorf("after %s: %v", name, err)
				return errOver
			}
			known = now
		}
		return nil
	}
	s := &storetest.Spy{Dir: dir, Looks: true, Judge: r.judge}
	spyErr := s.Run(func() {
		err := wl.Run(w)
		if err != nil && !errors.Is(err, errOver) {
			errorf("%v", err)
		}
	})
	storetest.Spied(t, spyErr)
	for _, st := range []*session.Store{w.Store, w.Other} {
		if st == nil {
			continue
		}
		// Everything that the process believes to be saved is on the disk.
		if live, err := storetest.Look(storetest.Background, st, false); err == nil && !unknown {
			known = live
		}
		_ = st.Close() // it may have been closed, or have failed to sync
	}
	if err := r.check(dir, known, unknown, deleting, fragment); err != nil {
		errorf("%v", err)
	}
	return broken
}

// isUnknown reports whether an error means an unknown outcome.
func isUnknown(err error) bool {
	_, ok := errors.AsType[*session.NotDurableError](err)
	return ok
}

// check opens the folder again: all acknowledged entries are there, nothing is
// torn, and it continues.
func (r *faultRun) check(dir string, known storetest.World, unknown, deleting, fragment bool) error {
	var last storetest.World
	for round := range 3 {
		st, err := session.Open(dir, nil)
		if err != nil {
			return fmt.Errorf("opening: %w", err)
		}
		w, err := storetest.Look(storetest.Background, st, round > 0)
		if err == nil && round > 0 {
			err = w.SameAgain(last)
		} else if err == nil {
			err = keeps(w, known, unknown, deleting)
		}
		for _, id := range slices.Sorted(maps.Keys(w.Sessions)) {
			if err != nil {
				break
			}
			s, getErr := st.Get(storetest.Background, session.Ref{Agent: "main", ID: id})
			if err = getErr; err == nil {
				h, healthErr := s.Health(storetest.Background)
				if err = healthErr; err == nil && !fragment && !unknown && len(h.Damage) > 0 {
					err = fmt.Errorf("session %s is damaged: %v", id, h.Damage)
				}
			}
			if err == nil && round == 1 {
				err = st.SetState(storetest.Background, s.Ref(), session.Live, -1) // if it is archived
			}
			if err == nil && round == 1 {
				_, err = s.Append(storetest.Background, transcript.UserText("after the fault"))
			}
		}
		if err == nil && round == 1 {
			w, err = storetest.Look(storetest.Background, st, true)
		}
		last = w
		if err = errors.Join(err, st.Close()); err != nil {
			return fmt.Errorf("opening %d: %w", round, err)
		}
	}
	return nil
}

// keeps returns an error if something of a world is missing in w. After an
// unknown outcome, w may contain more.
func keeps(w, known storetest.World, unknown, deleting bool) error {
	if !unknown {
		return w.Equal(known)
	}
	for id, one := range known.Sessions {
		got, ok := w.Sessions[id]
		if !ok && !deleting {
			return fmt.Errorf("session %s is not there", id)
		}
		if ok && (len(got.Entries) < len(one.Entries) || !slices.Equal(got.Entries[:len(one.Entries)], one.Entries)) {
			return fmt.Errorf("session %s has the entries %v, not %v", id, got.Types, one.Types)
		}
	}
	return nil
}

// everyFault makes every step-th call of the i-th workload fail, once or for
// good, until a run ends before that call or limit faults did harm.
func everyFault(t testing.TB, open storetest.Opener, i int, sticky bool, step, limit int) (runs int, broken []string) {
	wl := workloads[i]
	for n := 1 + i%step; len(broken) < limit; n += step {
		r := &faultRun{n: n, sticky: sticky, errno: errnos[(n+i)%len(errnos)], partial: []int{0, 1, -20, 40}[n/step%4]}
		for _, b := range r.run(t, wl, open) {
			broken = append(broken, fmt.Sprintf("%s: call %d, %s %s, sticky %v, %v, %d bytes: %s",
				wl.Name, n, r.failed.Kind, r.failed.Path, sticky, r.errno, r.partial, b))
		}
		runs++
		if r.failed.Kind == "" {
			break
		}
	}
	return runs, broken
}

// TestEveryCallFails is the loop of SQLite: the first system call fails, then
// the second, until a run ends before the call; once, and for good.
func TestEveryCallFails(t *testing.T) {
	t.Parallel()
	step := storetest.Extent(*storetest.Faults, 835/storetest.Few(5), 11, 1)
	for i, wl := range workloads {
		if wl.Name == "large" {
			continue
		}
		for _, sticky := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/sticky %v", wl.Name, sticky), func(t *testing.T) {
				t.Parallel()
				runs, broken := everyFault(t, session.Open, i, sticky, step, 5)
				t.Logf("%d runs", runs)
				require.Empty(t, broken)
			})
		}
	}
}

// A file of the index that cannot be looked at once, right after it was made or later,
// loses no session and ends no process.
func TestIndexUnread(t *testing.T) {
	for due, failed := 1, true; failed; due++ {
		dir, stats := storetest.Scratch(t), 0
		s := &storetest.Spy{Dir: dir, Looks: true, Judge: func(c storetest.Call) (v storetest.Verdict) {
			if c.Kind == "stat" && c.Path == "agents/main/sessions.jsonl" {
				if stats++; stats == due {
					v.Errno = syscall.EIO
				}
			}
			return v
		}}
		acked := map[string][]string{}
		storetest.Spied(t, s.Run(func() {
			for range 2 {
				st, err := session.Open(dir, nil)
				if err != nil {
					continue
				}
				for range 2 {
					if s, err := st.Load(storetest.Background, storetest.CLI); err == nil {
						if ids, err := s.Append(storetest.Background, transcript.UserText("one")); err == nil {
							acked[s.Ref().ID] = append(acked[s.Ref().ID], ids...)
						}
					}
				}
				_ = st.Close()
			}
		}))
		failed = stats >= due
		st := storetest.Open(t, dir, nil)
		require.Len(t, storetest.ListIDs(t, st, nil), 1, "look %d", due)
		got := storetest.EntryIDs(t, storetest.Load(t, st, storetest.CLI))
		require.Len(t, acked, 1)
		for _, ids := range acked {
			require.Subset(t, got, ids, "look %d", due)
		}
		storetest.Close(t, st)
	}
}

// A hasty driver remembers lines before it has written them.
type hasty struct {
	driver.Driver
	lines map[driver.Ref][]driver.Line
}

func (h *hasty) Append(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide func(context.Context, driver.Cursor) ([]driver.Line, error)) (driver.Result, error) {
	res, err := h.Driver.Append(ctx, ref, lines, at, decide)
	if err != nil && !isUnknown(err) {
		h.lines[ref] = append(h.lines[ref], lines...)
	}
	return res, err
}

func (h *hasty) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		for rec, err := range h.Driver.Scan(ctx, ref, from, dir, keep) {
			if !yield(rec, err) {
				return
			}
		}
		for _, l := range h.lines[ref] {
			if e, err := transcript.ParseEntry(l.Data); err == nil && !yield(transcript.Record{Offset: int64(from), End: int64(from), Entry: e}, nil) {
				return
			}
		}
	}
}

func openHasty(dir string, opts *session.Options) (*session.Store, error) {
	drv, err := filedriver.Open(dir, &filedriver.Options{Sync: session.SyncAlways})
	if err != nil {
		return nil, err
	}
	return session.OpenDriver(&hasty{drv, map[driver.Ref][]driver.Line{}}, opts), nil
}

// The harness finds a store whose memory is ahead of its file.
func TestFaultHarnessBites(t *testing.T) {
	t.Parallel()
	for i, wl := range workloads {
		if wl.Name == "large" {
			continue
		}
		if _, broken := everyFault(t, openHasty, i, false, 11, 1); len(broken) > 0 {
			t.Logf("such as: %.300s", broken[0])
			return
		}
	}
	t.Fatal("nothing was found wrong with a store that remembers what it has not written")
}
