package filelog

import (
	"context"
	"fmt"

	"github.com/convolog/convolog/session/driver"
)

// Size returns the size of the file in bytes, which counts an unterminated
// tail and lines that another caller is just writing. It takes no lock. It
// fails with [ErrReplaced] when the name no longer refers to this file, and with
// a [*driver.NotDurableError] when the file of that name lacks lines that this Log has
// acknowledged; only to find that out, under [driver.SyncInterval], it waits for a lock.
func (l *Log) Size() (int64, error) {
	if err := l.begin("size"); err != nil {
		return 0, err
	}
	defer l.ops.Done()
	now, err := l.lookup("size")
	return now.size, l.settleDebts(context.Background(), err)
}

// Close waits for the calls under way, syncs what [driver.SyncAlways] or
// [driver.SyncInterval] still owe, and closes the file. If a copy has taken the place of
// the file and lines are owed, Close waits for the append lock of the copy. Callers that
// wait for a lock give up with [ErrClosed], and so does every later call, Close included.
// The file is closed even if an error is returned; a [*driver.NotDurableError] among them
// has the bytes in doubt.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return l.fail("close", ErrClosed)
	}
	l.closed = true
	l.interrupt()
	if l.timer != nil && l.timer.Stop() {
		l.ops.Done()
	}
	l.mu.Unlock()
	l.ops.Wait()

	if l.opts.Sync != driver.SyncNever {
		_ = l.sync(context.Background(), l.written) // a failure is kept in l.failed
	}
	if l.failed != nil {
		_ = l.file().Mark(true) // if it could not be set before, its lock ends now
	}
	err := l.file().Close()
	if err != nil {
		err = &Error{Op: "close", Path: l.path, Fix: "the lines stay as their appends reported them", Err: cause(err)}
	}
	switch {
	case l.failed == nil:
		return err
	case err == nil:
		return l.failed
	default:
		return fmt.Errorf("%w; %w", l.failed, err)
	}
}
