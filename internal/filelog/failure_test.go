package filelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
)

// A write that fails after each possible number of bytes, with a truncate and a
// fence that work or fail.
func TestShortWrite(t *testing.T) {
	const one, lines, next = `{"n":1}` + "\n", `{"n":2}` + "\n" + `{"n":3}` + "\n", `{"n":4}` + "\n"
	for short := range len(lines) + 1 {
		for _, c := range []struct {
			what             string
			truncates, fence bool
		}{
			{"cut back", true, true},
			{"fenced", false, true},
			{"left", false, false},
		} {
			t.Run(fmt.Sprint(c.what, " at ", short), func(t *testing.T) {
				writes, tried := 0, false
				d := &faultDisk{short: short, failAt: 1, only: "none"}
				d.step = func(op string) error {
					d.only = "none"
					switch op {
					case "write":
						writes++
						// Creating and the first append take one write each.
						if writes == 3 {
							d.only = op
						} else if tried && !c.fence {
							tried, d.short = false, 0
							return errFault
						}
					case "truncate":
						tried = !c.truncates
						if !c.truncates {
							return errFault
						}
					}
					return nil
				}
				w := newWorkload(t, d)
				w.create()
				w.append(one)
				before := string(w.content())
				_, _, err := w.log.Append(t.Context(), Lines([]byte(lines)))
				after := string(w.content())
				tried = false
				var want string
				switch {
				case c.truncates || short == 0:
					want = before
					require.ErrorIs(t, err, errFault)
					require.NotErrorIs(t, err, driver.ErrFragment)
				case short == len(lines), c.fence && short == len(lines)-1:
					want = before + lines
					require.NoError(t, err)
				default:
					want = before + lines[:short]
					if c.fence {
						want += "\n"
					}
					require.ErrorIs(t, err, errFault)
					require.ErrorIs(t, err, driver.ErrFragment)
				}
				require.Equal(t, want, after)
				if strings.HasSuffix(after, "\n") {
					want = after + next
				} else {
					want = after + "\n" + next
				}
				_, _, err = w.log.Append(t.Context(), Lines([]byte(next)))
				require.NoError(t, err)
				require.Equal(t, want, string(w.content()))
				require.NoError(t, w.log.Close())
				w.reopen(t)
			})
		}
	}
}

// Bytes that a program adds without the lock are not cut off with ours.
func TestForeignBytesAreNotCutOff(t *testing.T) {
	d := &faultDisk{failAt: 1, only: "none", short: 3}
	w := newWorkload(t, d)
	w.create()
	d.wrote = func(_ file, p []byte) {
		d.only = "write"
		d.wrote = nil
		w.tear() // between the look at the size and the write
	}
	d.short = 0
	_, _, err := w.log.Append(t.Context(), Lines([]byte("{}\n")))
	require.ErrorIs(t, err, errFault)
	d.only = "none"
	require.Equal(t, workFirst+workTorn+"\n", string(w.content()))
	require.NoError(t, w.log.Close())
	w.reopen(t)
}

func TestFailedSync(t *testing.T) {
	d := &faultDisk{failAt: 1, only: "none"}
	w := newWorkload(t, d)
	w.create()
	d.only = "sync"
	lines := "{\"n\":1}\n"
	start, end, err := w.log.Append(t.Context(), Lines([]byte(lines)))
	e, ok := errors.AsType[*driver.NotDurableError](err)
	if !ok || e.Refused || e.Start != start || e.End != end || end != start+int64(len(lines)) || !errors.Is(err, errFault) {
		t.Fatalf("Append = %d, %d, %#v", start, end, err)
	}
	syncs := d.syncs.Load()
	for _, call := range []func() error{
		func() error { _, _, err := w.log.Append(t.Context(), Lines([]byte("{}\n"))); return err },
		func() error { _, err := w.log.Settle(t.Context()); return err },
	} {
		e, ok := errors.AsType[*driver.NotDurableError](call())
		if !ok || !e.Refused || e.Start != start || e.End != end {
			t.Errorf("a call after the failed sync returned %#v", e)
		}
	}
	for _, flush := range []func(context.Context) error{w.log.Flush, w.log.Flush} {
		if e, ok := errors.AsType[*driver.NotDurableError](flush(t.Context())); !ok || e.Refused {
			t.Errorf("a flush returned %#v", e)
		}
	}
	_, ok = errors.AsType[*driver.NotDurableError](w.log.Close())
	require.True(t, ok, "Close was fine")
	if n := d.syncs.Load(); n != syncs {
		t.Errorf("%d more syncs after the failed one", n-syncs)
	}
	require.Equal(t, workFirst+lines, string(w.content()))
	w.reopen(t)
}

// A Hold that cannot end the tail keeps no lock.
func TestHoldFails(t *testing.T) {
	d := newCacheDisk(t)
	l, other := d.create(t, SyncAlways), d.open(t, SyncAlways)
	_ = wantInDoubt(t, d, l, "two\n")
	release, err := l.Hold(t.Context())
	require.True(t, isRefused(err), "Hold = %v", err)
	require.Nil(t, release)
	wantFree(t, other)
	require.NoError(t, l.Recover(t.Context()))
	release, err = l.Hold(t.Context())
	require.NoError(t, err)
	release()
	wantDisk(t, d, workFirst+"two\n")
	closeAll(t, l, other)
}

// Lock takes the lock of a file that needs a cure, and does not change it.
func TestLockCuresNothing(t *testing.T) {
	d := newCacheDisk(t)
	l, other := d.create(t, SyncAlways), d.open(t, SyncAlways)
	_ = wantInDoubt(t, d, l, "two\n")
	require.True(t, d.marked(t))
	d.setOp(func(op string) error {
		if op == "write" || op == "sync" {
			return errFault
		}
		return nil
	})
	next := d.open(t, SyncNever)
	release, err := next.Lock(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = next.Lock(ctx)
	require.ErrorIs(t, err, context.Canceled)
	free, err := other.file().Lock(false)
	require.NoError(t, err)
	require.False(t, free)
	release()
	wantFree(t, other)
	require.True(t, d.marked(t))
	require.Zero(t, d.copies())

	require.NoError(t, d.root.Remove(workName))
	_, err = next.Lock(t.Context())
	require.ErrorIs(t, err, ErrReplaced)
	wantFree(t, next)
	d.setOp(nil)
	require.NoError(t, next.Close())
	_, err = next.Lock(t.Context())
	require.ErrorIs(t, err, ErrClosed)
	require.Error(t, l.Close()) // its sync has failed
	require.NoError(t, other.Close())
}

func TestCloseReportsBoth(t *testing.T) {
	d := &faultDisk{failAt: 1, only: "none"}
	w := newWorkload(t, d)
	w.create()
	if _, err := w.log.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.log.wrote(extent{0, 1}, newline) // as a call does that fails between write and sync
	d.only, d.sticky = "", true
	err := w.log.Close()
	if _, ok := errors.AsType[*driver.NotDurableError](err); !ok {
		t.Errorf("Close = %v, want the sync's error", err)
	}
	e, ok := errors.AsType[*Error](err)
	require.True(t, ok)
	require.Equal(t, "close", e.Op)
	require.NotContains(t, err.Error(), "\n")
	w.reopen(t)
}

// The folder of a failed Create holds nothing, or the log.
func TestFailedCreateLeavesNothing(t *testing.T) {
	for n := 1; ; n++ {
		d := &faultDisk{failAt: n}
		w := newWorkload(t, d)
		l, err := Create(w.root, workName, []byte(workFirst), &Options{seam: d.seam()})
		if err == nil {
			if n < 5 {
				t.Errorf("Create took %d operations", n)
			}
			d.failAt = 0
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			w.reopen(t)
			return
		}
		_, notDurable := errors.AsType[*driver.NotDurableError](err)
		left, globErr := filepath.Glob(filepath.Join(w.root.Name(), "*"))
		hidden, _ := filepath.Glob(filepath.Join(w.root.Name(), ".*"))
		if globErr != nil || len(hidden) > 0 || notDurable != (len(left) == 1) {
			t.Errorf("operation %d: %v left %v %v", n, err, left, hidden)
		}
		if notDurable {
			w.reopen(t)
		}
	}
}

// How a new log is named if the file system cannot rename without overwriting.
func TestLink(t *testing.T) {
	w := newWorkload(t, new(faultDisk))
	for _, name := range []string{"one", "two"} {
		require.NoError(t, w.root.WriteFile(name, []byte(name+"\n"), 0o600))
	}
	require.NoError(t, link(w.root, "one", workName))
	_, err := w.root.Lstat("one")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, link(w.root, "two", workName), fs.ErrExist)
	require.Equal(t, "one\n", string(w.content()))
	w.reopen(t)
}

// A read-only Log cannot write, whatever the file's permissions.
func TestReadOnlyCannotWrite(t *testing.T) {
	w := newWorkload(t, new(faultDisk))
	w.create()
	l, err := Open(w.root, workName, &Options{ReadOnly: true})
	require.NoError(t, err)
	_, err = l.file().Write([]byte("x"))
	require.Error(t, err)
	closeAll(t, l, w.log)
	require.Equal(t, workFirst, string(w.content()))
	w.reopen(t)
}

// An empty range adds nothing to a range.
func TestCover(t *testing.T) {
	for _, e := range []extent{{3, 5}, {}, {4, 4}} {
		require.Equal(t, extent{3, 5}, extent{3, 5}.cover(e))
		require.Equal(t, extent{3, 5}, e.cover(extent{3, 5}))
		require.Equal(t, extent{3, 5}, extent{9, 9}.cover(extent{3, 5}))
	}
	require.Equal(t, extent{1, 9}, extent{1, 2}.cover(extent{8, 9}))
	require.Equal(t, extent{1, 9}, extent{3, 9}.cover(extent{1, 4}))
}

// Lines that wait for a sync are in doubt if the file that took the name cannot be
// opened: it may be a copy that lacks them.
func TestWhatTookTheNameCannotBeOpened(t *testing.T) {
	w := newWorkload(t, new(faultDisk))
	l, err := Create(w.root, workName, []byte(workFirst), &Options{Sync: SyncInterval(time.Hour)})
	require.NoError(t, err)
	mustAppend(t, l, "one\n")
	require.NoError(t, w.root.Remove(workName))
	require.NoError(t, w.root.Mkdir(workName, 0o700))
	_, err = l.Size()
	failed, ok := errors.AsType[*driver.NotDurableError](err)
	require.True(t, ok, "%v", err)
	require.True(t, failed.Refused)
	require.ErrorContains(t, failed, "not a regular file")
	require.Error(t, l.Close())
}

// Flush fails if the log cannot be made ready.
func TestFlushMeetsALockThatFails(t *testing.T) {
	d := new(faultDisk)
	w := newWorkload(t, d)
	w.create()
	d.step = failOnce("lock")
	require.ErrorIs(t, w.log.Flush(t.Context()), errFault)
	require.NoError(t, w.log.Flush(t.Context()))
	closeAll(t, w.log)
}
