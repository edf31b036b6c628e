package filedriver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

// testLogs returns logs of which two may be idle, and a function that uses one.
func testLogs(t *testing.T) (*logs, func(id string) *openLog, *os.Root) {
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	d := &Driver{log: slog.New(slog.DiscardHandler), marks: map[driver.Ref]mark{}}
	d.closing, d.close = context.WithCancel(t.Context())
	ls := newLogs(d, 2)
	return ls, func(id string) *openLog {
		o, err := ls.acquire(driver.Ref{Agent: "main", ID: id}, func() (*filelog.Log, error) {
			l, err := filelog.Open(root, id, nil)
			if errors.Is(err, os.ErrNotExist) {
				return filelog.Create(root, id, []byte("{}\n"), nil)
			}
			return l, err
		})
		require.NoError(t, err)
		return o
	}, root
}

// A failure to close another session's log is not the outcome of a call.
func TestEvictionFails(t *testing.T) {
	ls, use, _ := testLogs(t)
	var log strings.Builder
	ls.d.log = slog.New(slog.NewTextHandler(&log, nil))
	for i := range 4 {
		o := use(fmt.Sprint(i))
		if i == 0 {
			if err := o.log.Close(); err != nil { // so that closing it again fails
				t.Fatal(err)
			}
		}
		if err := ls.release(o, nil); err != nil {
			t.Errorf("call %d ended with %v", i, err)
		}
	}
	require.Len(t, ls.open, 2)
	require.Contains(t, log.String(), "closing a transcript failed")
	require.NoError(t, ls.close())
}

// A log whose sync failed, even in the background, is never opened anew.
func TestFailedLogStays(t *testing.T) {
	ls, use, _ := testLogs(t)
	bad := map[*filelog.Log]bool{}
	ls.failed = func(l *filelog.Log) *driver.NotDurableError {
		if bad[l] {
			return &driver.NotDurableError{Err: errors.New("no")}
		}
		return nil
	}
	first := use("first")
	_ = ls.release(first, nil)
	second := use("second")
	_ = ls.release(second, nil)
	bad[first.log] = true // while it is not in use
	for i := range 5 {
		_ = ls.release(use(fmt.Sprint(i)), nil)
	}
	if o := use("first"); o != first {
		t.Error("a log whose sync failed was closed")
	}
	_ = ls.release(first, nil)
	if o := use("second"); o == second {
		t.Error("a sound log was not closed")
	}
	require.NoError(t, ls.close())
}

// A call that waits for a lock of a log that is dropped learns why.
func TestDropEndsWaits(t *testing.T) {
	ls, use, root := testLogs(t)
	o := use("a")
	other, err := filelog.Open(root, "a", nil)
	require.NoError(t, err)
	release, err := other.Hold(t.Context())
	require.NoError(t, err)
	ls.drop(o.ref)
	_, _, err = o.log.Append(t.Context(), func(int64) ([]byte, error) { return []byte("{}\n"), nil })
	require.ErrorIs(t, ls.release(o, err), filelog.ErrReplaced)
	if len(ls.open) > 0 || !errors.Is(o.log.Flush(t.Context()), filelog.ErrClosed) {
		t.Errorf("still open: %v, or the dropped log", ls.open)
	}
	release()
	require.NoError(t, errors.Join(other.Close(), ls.close()))
}

// Once the waits for locks are over, a log that is opened does not wait either.
func TestLateLogs(t *testing.T) {
	ls, use, root := testLogs(t)
	_ = ls.release(use("a"), nil)
	other, err := filelog.Open(root, "a", nil)
	require.NoError(t, err)
	release, err := other.Hold(t.Context())
	require.NoError(t, err)
	ls.drop(driver.Ref{Agent: "main", ID: "a"})
	ls.d.close()
	ls.interrupt()
	o := use("a")
	_, _, err = o.log.Append(t.Context(), func(int64) ([]byte, error) { return []byte("{}\n"), nil })
	require.ErrorIs(t, ls.release(o, err), driver.ErrClosed)
	release()
	require.NoError(t, ls.close())
	require.NoError(t, other.Close())
}

// An unused log is closed as soon as it is dropped.
func TestDropCloses(t *testing.T) {
	ls, use, _ := testLogs(t)
	o := use("a")
	require.NoError(t, ls.release(o, nil))
	ls.drop(o.ref)
	require.ErrorIs(t, o.log.Flush(t.Context()), filelog.ErrClosed)
	ls.drop(o.ref) // there is none
	require.Zero(t, len(ls.open))
	require.NoError(t, ls.close())
}
