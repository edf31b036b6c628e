package filelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
)

// failOnce makes the next operation of that name fail, and no other.
func failOnce(name string) func(string) error {
	done := false
	return func(op string) error {
		if op != name || done {
			return nil
		}
		done = true
		return errFault
	}
}

func mustAppend(t *testing.T, l *Log, lines string) {
	t.Helper()
	_, _, err := l.Append(t.Context(), Lines([]byte(lines)))
	require.NoError(t, err)
}

// wantInDoubt appends lines whose sync fails.
func wantInDoubt(t *testing.T, d *cacheDisk, l *Log, lines string) *driver.NotDurableError {
	t.Helper()
	d.setOp(failOnce("sync"))
	_, _, err := l.Append(t.Context(), Lines([]byte(lines)))
	d.setOp(nil)
	e, ok := errors.AsType[*driver.NotDurableError](err)
	require.True(t, ok && !e.Refused, "Append with a failing sync = %v", err)
	return e
}

// wantDisk fails unless readers see want, a power cut leaves want, and no other
// file exists.
func wantDisk(t *testing.T, d *cacheDisk, want string) {
	t.Helper()
	require.True(t, want == d.inCache(t), "the file holds %.200q", d.inCache(t))
	require.True(t, want == string(d.named().disk), "a power cut leaves %.200q", d.named().disk)
	require.Same(t, d.named(), d.durable, "after a power cut another file has the name")
	require.False(t, d.marked(t))
	names, err := os.ReadDir(d.root.Name())
	require.NoError(t, err)
	require.Len(t, names, 1)
}

func closeAll(t *testing.T, logs ...*Log) {
	t.Helper()
	for _, l := range logs {
		require.NoError(t, l.Close())
	}
}

func isRefused(err error) bool {
	e, ok := errors.AsType[*driver.NotDurableError](err)
	return ok && e.Refused
}

func TestRecover(t *testing.T) {
	for _, evicted := range []bool{false, true} {
		t.Run(fmt.Sprint("evicted ", evicted), func(t *testing.T) {
			d := newCacheDisk(t)
			l, other := d.create(t, SyncAlways), d.open(t, SyncNever)
			mustAppend(t, l, "one\n")
			mustAppend(t, other, "foreign\n")
			require.NoError(t, l.Flush(t.Context()))
			e := wantInDoubt(t, d, l, "two\n")
			require.Contains(t, e.Error(), "Recover")
			require.True(t, d.marked(t))
			_, _, err := l.Append(t.Context(), Lines([]byte("no\n")))
			require.True(t, isRefused(err), "the next append returned %v", err)
			require.ErrorContains(t, err, "Recover")
			require.ErrorContains(t, err, "nothing was written")
			require.NotContains(t, e.Error(), "nothing was written")
			if evicted { // the log has its own lines in memory
				d.evict(t)
			}
			require.NoError(t, l.Recover(t.Context()))
			require.Nil(t, l.Failed())
			require.Equal(t, 1, d.copies())
			wantDisk(t, d, workFirst+"one\nforeign\ntwo\n")
			// The log goes on in the copy, and its first retry meets no error of
			// an old descriptor.
			mustAppend(t, l, "three\n")
			require.NoError(t, l.Recover(t.Context())) // a sound one
			require.Equal(t, 1, d.copies())
			wantDisk(t, d, workFirst+"one\nforeign\ntwo\nthree\n")
			_, _, err = other.Append(t.Context(), Lines([]byte("no\n")))
			require.ErrorIs(t, err, ErrReplaced)
			closeAll(t, l, other)
		})
	}
}

// Other Logs' lines are not lost or overwritten, and lines acknowledged under an
// interval become durable.
func TestRecoverAmongOthers(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncInterval(1e18), SyncNever} {
		t.Run(policy.String(), func(t *testing.T) {
			d := newCacheDisk(t)
			l, other := d.create(t, policy), d.open(t, SyncNever)
			var want strings.Builder
			want.WriteString(workFirst)
			for i := range 5 {
				ours, foreign := fmt.Sprintf("ours %d\n", i), fmt.Sprintf("foreign %d\n", i)
				mustAppend(t, l, ours)
				mustAppend(t, other, foreign)
				want.WriteString(ours + foreign)
			}
			d.setOp(failOnce("sync"))
			_, ok := errors.AsType[*driver.NotDurableError](l.Flush(t.Context()))
			require.True(t, ok)
			d.setOp(nil)
			require.NoError(t, l.Recover(t.Context()))
			wantDisk(t, d, want.String())
			closeAll(t, l, other)
		})
	}
}

// Lines of a write that failed are not in the copy.
func TestRecoverWritesOnlyWhatWasWritten(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	d.setOp(failOnce("write"))
	_, _, err := l.Append(t.Context(), Lines([]byte("never written\n")))
	require.ErrorIs(t, err, errFault)
	_ = wantInDoubt(t, d, l, "two\n")
	require.NoError(t, l.Recover(t.Context()))
	wantDisk(t, d, workFirst+"two\n")
	closeAll(t, l)
}

// Append does not retain its lines, and keeps what it needs of them.
func TestRecoverKeepsACopy(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	lines := []byte("two\n")
	d.setOp(failOnce("sync"))
	_, _, err := l.Append(t.Context(), Lines(lines))
	d.setOp(nil)
	require.Error(t, err)
	clear(lines)
	d.evict(t)
	require.NoError(t, l.Recover(t.Context()))
	wantDisk(t, d, workFirst+"two\n")
	closeAll(t, l)
}

// A Log that finds its lines in the copy of another one makes no copy.
func TestRecoverInTheCopyOfAnother(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	_ = wantInDoubt(t, d, l, "two\n")
	other := d.open(t, SyncAlways)
	mustAppend(t, other, "three\n")
	require.NoError(t, l.Recover(t.Context()))
	require.Equal(t, 1, d.copies())
	wantDisk(t, d, workFirst+"two\nthree\n")
	closeAll(t, l, other)
}

// A copy keeps the mode of the file, even of one larger than a chunk, and readers
// of the old descriptor continue.
func TestRecoverCopiesAll(t *testing.T) {
	d := newCacheDisk(t)
	l, other := d.create(t, SyncAlways), d.open(t, SyncNever)
	require.NoError(t, d.root.Chmod(workName, 0o640))
	var want strings.Builder
	want.WriteString(workFirst)
	for range 3 {
		line := strings.Repeat("x", copyChunk/2+7) + "\n"
		mustAppend(t, l, line)
		mustAppend(t, other, "foreign\n")
		want.WriteString(line + "foreign\n")
	}
	require.NoError(t, l.Flush(t.Context()))
	_ = wantInDoubt(t, d, l, "two\n")
	want.WriteString("two\n")
	d.evict(t)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		p := make([]byte, len(workFirst))
		for {
			if _, err := l.ReadAt(p, 0); err != nil || string(p) != workFirst {
				t.Errorf("while a copy takes the file's place ReadAt = %q, %v", p, err)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	require.NoError(t, l.Recover(t.Context()))
	close(stop)
	wg.Wait()
	wantDisk(t, d, want.String())
	info, err := d.root.Lstat(workName)
	require.NoError(t, err)
	require.EqualValues(t, 0o640, info.Mode())
	closeAll(t, l, other)
}

// Whichever operation of Recover fails, once or for good, no acknowledged line
// is lost, none is acknowledged before Recover has succeeded, and Recover can
// be called again.
func TestRecoverFails(t *testing.T) {
	t.Parallel()
	const lines = workFirst + "one\nforeign\ntwo\n"
	runs := 0
	for _, sticky := range []bool{false, true} {
		for n := 1; ; n++ {
			runs++
			what := fmt.Sprintf("operation %d, sticky %v", n, sticky)
			d := newCacheDisk(t)
			l, other := d.create(t, SyncAlways), d.open(t, SyncNever)
			mustAppend(t, l, "one\n")
			mustAppend(t, other, "foreign\n")
			_ = wantInDoubt(t, d, l, "two\n")
			var ops []string
			d.setOp(func(op string) error {
				ops = append(ops, op)
				if len(ops) == n || sticky && len(ops) > n {
					return errFault
				}
				return nil
			})
			err := l.Recover(t.Context())
			d.setOp(nil)
			if err != nil {
				require.NotNil(t, l.Failed(), "%s: Recover = %v", what, err)
				require.Equal(t, lines, d.inCache(t), what)
				_, _, err := l.Append(t.Context(), Lines([]byte("no\n")))
				require.True(t, isRefused(err), "%s: then an append returned %v", what, err)
			}
			require.NoError(t, l.Recover(t.Context()), "%s (%q)", what, ops)
			wantDisk(t, d, lines)
			mustAppend(t, l, "more\n")
			wantDisk(t, d, lines+"more\n")
			closeAll(t, l, other)
			if len(ops) < n {
				break
			}
		}
	}
	t.Logf("%d runs", runs)
	require.Greater(t, runs, 12, "the faults are not injected")
}

// Foreign bytes in the place of this log's lines are not overwritten.
func TestRecoverLeavesOthersAlone(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	e := wantInDoubt(t, d, l, "two\n")
	f, err := d.root.OpenFile(workName, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("XYZ\n"), e.Start)
	require.NoError(t, errors.Join(err, f.Close()))
	err = l.Recover(t.Context())
	require.ErrorIs(t, err, errOthers)
	require.ErrorContains(t, err, "restore it from a copy")
	require.Equal(t, workFirst+"XYZ\n", d.inCache(t))
	require.Error(t, l.Close(), "after a failed sync")
}

func TestRecoverRefuses(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	_ = wantInDoubt(t, d, l, "two\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.Recover(ctx), context.Canceled)
	reader, err := Open(d.root, workName, &Options{ReadOnly: true})
	require.NoError(t, err)
	require.ErrorIs(t, reader.Recover(t.Context()), driver.ErrReadOnly)

	// A file that is not a copy is left alone, and a missing one stays missing.
	require.NoError(t, d.root.Rename(workName, "b"))
	require.ErrorIs(t, l.Recover(t.Context()), ErrReplaced)
	require.NoError(t, d.root.WriteFile(workName, []byte("new\n"), 0o600))
	require.ErrorIs(t, l.Recover(t.Context()), ErrReplaced)
	require.Equal(t, "new\n", d.inCache(t))
	closeAll(t, reader)
	require.Error(t, l.Close(), "after a failed sync")
	require.ErrorIs(t, l.Recover(t.Context()), ErrClosed)
}

// Recover on a real disk, where only one sync is made to fail.
func TestRecoverRealFile(t *testing.T) {
	d := &faultDisk{failAt: 1, only: "none"}
	w := newWorkload(t, d)
	w.create()
	big := strings.Repeat("x", 100_000) + "\n"
	w.append(big)
	d.only = "sync"
	_, _, err := w.log.Append(t.Context(), Lines([]byte("two\n"+big)))
	_, ok := errors.AsType[*driver.NotDurableError](err)
	require.True(t, ok, "Append = %v", err)
	require.NoError(t, w.log.Recover(t.Context()))
	mustAppend(t, w.log, "three\n")
	want := slices.Concat([]byte(workFirst), []byte(big), []byte("two\n"), []byte(big), []byte("three\n"))
	require.True(t, bytes.Equal(want, w.content()))
	require.NoError(t, w.log.Close())
	w.reopen(t)
}

// A read in which a copy takes the place of the file reads the copy.
func TestReadDuringACure(t *testing.T) {
	d := new(faultDisk)
	w := newWorkload(t, d)
	w.create()
	require.NoError(t, os.Chmod(filepath.Join(w.root.Name(), workName), 0o600|os.ModeSticky))
	d.step = func(op string) error {
		if op != "read" {
			return nil
		}
		d.step = nil
		return w.log.Flush(t.Context())
	}
	got := make([]byte, len(workFirst))
	_, err := w.log.ReadAt(got, 0)
	require.NoError(t, err)
	require.Equal(t, workFirst, string(got))
	require.NoError(t, w.log.Flush(t.Context()))
	info, err := w.root.Lstat(workName)
	require.NoError(t, err)
	require.Zero(t, info.Mode()&os.ModeSticky)
	closeAll(t, w.log)
	_, err = w.log.ReadAt(got, 0)
	require.ErrorIs(t, err, ErrClosed)
}

// wantFree fails unless the append lock can be taken by another Log at once.
func wantFree(t *testing.T, other *Log) {
	t.Helper()
	ok, err := other.file().Lock(false)
	require.NoError(t, err)
	require.True(t, ok, "the kernel's lock was kept")
	require.NoError(t, other.file().Unlock())
}

// A Log that has failed adds nothing to the file, whether the mark could be set
// or not.
func TestFailedLogAddsNothing(t *testing.T) {
	for _, marks := range []bool{true, false} {
		t.Run(fmt.Sprint("marks ", marks), func(t *testing.T) {
			d := newCacheDisk(t)
			l := d.create(t, SyncAlways)
			sync := failOnce("sync")
			d.setOp(func(op string) error {
				if op == "mark" && !marks {
					return errFault
				}
				return sync(op)
			})
			_, _, err := l.Append(t.Context(), Lines([]byte("two\n")))
			require.Error(t, err)
			_, _, err = l.Append(t.Context(), Lines([]byte("three\n")))
			require.True(t, isRefused(err), "Append = %v", err)
			require.Equal(t, workFirst+"two\n", d.inCache(t))
			failed := l.Failed()
			require.NotNil(t, failed)
			require.Equal(t, error(failed), l.Close(), "the close itself works")
		})
	}
}
