package filelog

import (
	"context"
	"errors"
	"math"

	"github.com/convolog/convolog/session/driver"
)

// Flush puts everything that is in the file on stable storage, by whomever it was
// written and whatever the policy, and cures the file if it bears the mark of a failed
// sync. It fails with [ErrReplaced] when the name no longer refers to this file. When
// it fails with a [*driver.NotDurableError] the Log acknowledges nothing more before
// [Log.Recover]. The context is honoured until a sync begins, and while another call's
// sync is running. A read-only Log owes nothing.
func (l *Log) Flush(ctx context.Context) error {
	if l.opts.ReadOnly {
		return l.Sync(ctx)
	}
	return l.flush(ctx, "flush")
}

// Sync puts everything this Log has acknowledged so far on stable storage, whatever
// the policy, as Close does. Unlike Flush it leaves the mark and all suspicions alone,
// so it needs neither the append lock of the file nor [Options.UnsyncedByOthers]. The
// error is a [*driver.NotDurableError], or [ErrClosed].
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

// flush syncs, and looks for the mark before and after: a nil error must not
// stand on a file of which another Log knows better.
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
			return &Error{Op: op, Path: l.path, Fix: "what was written is still not synced, flush again", Err: err}
		}
		if now, err := l.lookup(op); err != nil || !now.marked {
			return err
		}
	}
}

// vouch takes the append lock to make the file ready, and counts its content as
// written by this Log.
func (l *Log) vouch(ctx context.Context, op string) error {
	_, err := l.locked(ctx, op, false, func() (w written, err error) {
		size, err := l.ready(ctx, op, &w.cured, true)
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

// Suspect marks bytes from the offset from on as possibly left by a dead writer whose sync
// failed: a process that is killed inside a failing sync takes the only report of the
// failure with it. The next call that appends, holds or flushes syncs the file and compares
// those bytes with the result of a read past the page cache. Where they differ, and where
// the system lacks such a read, it cures the file as [Log.Recover] does. Under
// [driver.SyncNever] only a flush does that: an append promises nothing about the disk. Use
// [Options.UnsyncedByOthers] for suspicions before the first such call.
func (l *Log) Suspect(from int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.suspect = min(l.suspect, from)
}

// Suspects reports whether bytes that [Log.Suspect] or [Options.UnsyncedByOthers] has
// named are still to be compared.
func (l *Log) Suspects() bool {
	from, _ := l.doubts()
	return from < math.MaxInt64
}

// allLive reports whether all bytes to compare belong to writers that look alive: two
// processes that make copies of each other's file would never end.
func (l *Log) allLive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.suspect == math.MaxInt64
}

// differs reports whether the bytes on the disk from from to end differ from
// the page cache, or cannot be read though their writer is dead.
func (l *Log) differs(from, end int64, s *Synced) (bool, error) {
	start := min(from, end)
	seq := l.wrote(extent{start, end}, nil)
	if failed, _ := l.syncTo(context.Background(), seq, s); failed != nil {
		return true, refusal(failed)
	}
	same, err := l.file().Matches(start, end)
	if errors.Is(err, errors.ErrUnsupported) && l.allLive() {
		same, err = true, nil
	}
	if err != nil || !same {
		return true, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.suspect >= from { // a writer that just died had appended before this call took the lock
		l.suspect = math.MaxInt64
	}
	l.others = math.MaxInt64
	return false, nil
}
