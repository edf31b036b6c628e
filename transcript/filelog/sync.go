package filelog

import (
	"context"
	"time"
)

// A SyncPolicy says when appended lines are put on stable storage. Policies
// are comparable. The zero value is [SyncAlways].
type SyncPolicy struct {
	never    bool
	interval time.Duration
}

// The policies without a parameter.
var (
	// SyncAlways syncs before Append returns: an acknowledged line survives a
	// power cut.
	SyncAlways = SyncPolicy{}

	// SyncNever leaves it to the operating system: an acknowledged line
	// survives a killed process, not a power cut. [Log.Flush] still syncs.
	SyncNever = SyncPolicy{never: true}
)

// SyncInterval syncs at most d after a line was appended, in the background,
// and when the log is closed: a power cut loses what was acknowledged in the
// last d. While there is nothing to sync, nothing runs. A failed sync is
// reported by the next call. D must be positive, otherwise the policy is
// [SyncAlways].
func SyncInterval(d time.Duration) SyncPolicy {
	return SyncPolicy{interval: max(d, 0)}
}

// String returns "always", "never" or "interval" and its length.
func (p SyncPolicy) String() string {
	switch {
	case p.never:
		return "never"
	case p.interval > 0:
		return "interval " + p.interval.String()
	default:
		return "always"
	}
}

// Flush puts everything this Log has acknowledged so far on stable storage,
// whatever the policy. It returns at once if there is nothing to sync. When it
// fails with a [*NotDurableError] the Log acknowledges nothing more. The
// context is honoured until the sync begins.
func (l *Log) Flush(ctx context.Context) error {
	if err := l.begin("flush"); err != nil {
		return err
	}
	defer l.ops.Done()
	l.mu.Lock()
	seq := l.written
	l.mu.Unlock()
	const fix = "what was written is still not synced, flush again"
	if err := ctx.Err(); err != nil {
		return l.fail("flush", err, fix)
	}
	select {
	case l.syncing <- struct{}{}:
	case <-ctx.Done():
		return l.fail("flush", ctx.Err(), fix)
	}
	defer func() { <-l.syncing }()
	if failed := l.syncTo(seq); failed != nil {
		return failed
	}
	return nil
}

// FlushAll is Flush for everything that is in the file, by whomever it was
// written.
func (l *Log) FlushAll(ctx context.Context) error {
	if !l.opts.ReadOnly {
		l.wrote(extent{}) // counts as a write, so that there is one to sync
	}
	return l.Flush(ctx)
}

// Failed returns the first failed sync of this Log, or nil: a sync of a call or
// one in the background. A Log that has failed acknowledges nothing more, and
// only it knows why: opened again, the file looks sound.
func (l *Log) Failed() *NotDurableError {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// wrote records a write and returns its number. The caller holds the append
// lock.
func (l *Log) wrote(e extent) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written++
	l.dirty = l.dirty.cover(e)
	// Once Close has begun it does the syncing, when all calls have ended.
	if d := l.opts.Sync.interval; d > 0 && l.timer == nil && l.failed == nil && !l.closed {
		l.ops.Add(1)
		l.timer = time.AfterFunc(d, l.tick)
	}
	return l.written
}

// tick is the end of an interval.
func (l *Log) tick() {
	defer l.ops.Done()
	l.mu.Lock()
	l.timer = nil // a write from here on arms it again
	seq := l.written
	l.mu.Unlock()
	l.syncing <- struct{}{}
	_ = l.syncTo(seq) // kept in l.failed, for the next call
	<-l.syncing
}

// acknowledge makes the write seq, and what came before it, as durable as the
// policy promises.
func (l *Log) acknowledge(seq uint64, e extent) error {
	if seq == 0 {
		return nil
	}
	var failed *NotDurableError
	if l.opts.Sync == SyncAlways {
		l.syncing <- struct{}{}
		failed = l.syncTo(seq)
		<-l.syncing
	} else {
		l.mu.Lock()
		failed = l.failed // while this call was writing
		l.mu.Unlock()
	}
	if failed != nil {
		return &NotDurableError{Path: l.path, Start: e.start, End: e.end, Err: failed.Err}
	}
	return nil
}

// syncTo puts the writes up to seq on stable storage. The caller holds the
// place in l.syncing. Syncs do not overlap, because the kernel reports a
// failure once: of two at the same time one could be told that all is well
// while the other learns that it is not.
func (l *Log) syncTo(seq uint64) *NotDurableError {
	l.mu.Lock()
	if l.synced >= seq {
		l.mu.Unlock()
		return nil
	}
	if l.failed != nil {
		defer l.mu.Unlock()
		return l.failed
	}
	target, dirty := l.written, l.dirty
	l.dirty = extent{}
	l.mu.Unlock()

	err := l.file.Sync()

	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.dirty = dirty.cover(l.dirty)
		l.failed = &NotDurableError{Path: l.path, Start: dirty.start, End: dirty.end, Err: cause(err)}
		return l.failed
	}
	l.synced = target
	return nil
}

// refused returns the error of an append after a failed sync, or nil.
func (l *Log) refused() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		return nil
	}
	e := *l.failed
	e.Refused = true
	return &e
}
