package filelog

import (
	"context"
	"errors"
	"fmt"

	"github.com/convolog/convolog/session/driver"
)

// Size returns the size of the file in bytes, which counts an unterminated
// tail and lines that another caller is just writing. It takes no lock. It
// fails with [ErrReplaced] when the name no longer refers to this file, and with
// a [*driver.NotDurableError] when the file of that name lacks lines that this Log has
// acknowledged; only to find that out, under [SyncInterval], it waits for a lock.
func (l *Log) Size() (int64, error) {
	if err := l.begin("size"); err != nil {
		return 0, err
	}
	defer l.ops.Done()
	now, err := l.lookup("size")
	return now.size, l.settleDebts(context.Background(), err)
}

// Close waits for the calls under way, syncs lines unsynced under [SyncAlways] or
// [SyncInterval], and closes the file. If a copy has taken the place of the file and
// must hold lines of this Log, Close waits for the append lock of the copy. Callers that
// wait for a lock give up with [ErrClosed], and so does every later call, Close
// included. The file is closed even if an error is returned; a [*driver.NotDurableError]
// gives the bytes in doubt.
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

	if l.opts.Sync != SyncNever {
		_ = l.sync(context.Background(), l.written) // a failure is kept in l.failed
	}
	if l.failed != nil {
		_ = l.file().Mark(true) // if that failed before; the file's locks end now
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

// Recover makes a Log whose sync failed usable again. On a sound Log it is
// [Log.Flush].
//
// When the error is nil, everything this Log has ever acknowledged is on stable
// storage, and so is everything else that is in the file now. That includes the
// lines of the calls that failed: each batch is there whole or not at all, and a
// caller that must know which appends it again under a condition. Calls still
// waiting for that sync return nil.
//
// Neither syncing again nor writing the same bytes again would do: the kernel calls
// pages clean that it could not write, and an extent can stay unwritten below a page
// that reads well. Recover therefore copies the whole file to new blocks, through
// memory, with this Log's unsynced lines laid over the content of the file. It syncs
// the copy, gives it the file's name and syncs the folder. This Log continues in the
// copy; the package comment covers other Logs of the old file.
//
// Under [SyncNever] a Log keeps no lines in memory, and the copy is as good as
// the page cache.
//
// After an error the Log is as it was, and Recover may be called again; the
// error has the size of the copy in bytes. The context is honoured until the
// copy begins.
func (l *Log) Recover(ctx context.Context) error {
	const op = "recover"
	if l.Failed() == nil && !l.opts.ReadOnly {
		return l.flush(ctx, op)
	}
	if err := l.begin(op); err != nil {
		return err
	}
	defer l.ops.Done()
	w, err := l.locked(ctx, op, func() (written, error) {
		s, err := l.cure(ctx, op, true)
		return written{cured: s}, err
	})
	if err != nil || w.cured.Bytes > 0 { // its own copy is all on stable storage
		return err
	}
	return l.flush(ctx, op)
}

// Flush puts the whole file on stable storage, whoever wrote the lines and whatever
// the policy. It cures the file if that bears the mark of a failed sync. It fails with
// [ErrReplaced] when the name no longer refers to this file. When it fails with a
// [*driver.NotDurableError] the Log acknowledges nothing more before [Log.Recover].
// The context is honoured until a sync begins, and while another call's sync is
// running. A read-only Log syncs nothing.
func (l *Log) Flush(ctx context.Context) error {
	if l.opts.ReadOnly {
		return l.Sync(ctx)
	}
	return l.flush(ctx, "flush")
}

// Sync puts everything this Log has acknowledged so far on stable storage, whatever
// the policy, as Close does. Unlike Flush it leaves the mark alone, so it does not need
// the append lock of the file. The error is a [*driver.NotDurableError], or [ErrClosed].
func (l *Log) Sync(ctx context.Context) error {
	if err := l.begin("sync"); err != nil {
		return err
	}
	defer l.ops.Done()
	if failed := l.sync(ctx, l.owed()); failed != nil {
		return failed
	}
	return nil
}

// flush syncs, and looks for the mark before and after: it must not return nil
// if another Log has marked the file.
func (l *Log) flush(ctx context.Context, op string) error {
	if err := l.begin(op); err != nil {
		return err
	}
	defer l.ops.Done()
	for {
		if err := l.vouch(ctx, op); err != nil {
			return err
		}
		var s Synced
		failed, err := l.syncTo(ctx, l.owed(), &s)
		l.tellSync(ctx, s)
		if failed != nil {
			return failed
		}
		if err != nil {
			return &Error{Op: op, Path: l.path, Fix: "the lines are still not synced, flush again", Err: err}
		}
		if now, err := l.lookup(op); err != nil || !now.marked {
			return err
		}
	}
}

// vouch takes the append lock to make the file ready, and counts its content as
// written by this Log.
func (l *Log) vouch(ctx context.Context, op string) error {
	_, err := l.locked(ctx, op, func() (w written, err error) {
		size, err := l.ready(ctx, op, &w.cured)
		if err == nil {
			l.wrote(extent{0, size}, nil)
		}
		return w, err
	})
	if e, ok := errors.AsType[*driver.NotDurableError](err); ok {
		return &driver.NotDurableError{Path: e.Path, Start: e.Start, End: e.End, Err: e.Err}
	}
	return err
}
