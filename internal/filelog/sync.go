package filelog

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// settleDebts returns the error of a lookup. If another file has the name, the
// lines that this Log has acknowledged and not synced must be in that file: if
// they are not, a sync of this Log has failed, and its caller must not just open
// the name anew.
func (l *Log) settleDebts(ctx context.Context, err error) error {
	if !errors.Is(err, ErrReplaced) || l.opts.Sync.Interval() == 0 {
		return err
	}
	if failed := l.sync(ctx, l.owed()); failed != nil {
		return refusal(failed)
	}
	return err
}

// maxSyncs is how many syncs this process runs at once, of all its Logs. More
// do not make a disk faster; they make the slowest wait longer, and each takes
// a thread.
const maxSyncs = 16

// syncs has a place for each of them. A Log does at most one sync at a time.
var syncs = make(chan struct{}, maxSyncs)

// wrote records a write and returns its number. It keeps a copy of data, if that
// is known, until a sync has covered it. The caller holds the append lock.
func (l *Log) wrote(e extent, data []byte) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opts.Sync != driver.SyncNever && len(data) > 0 {
		l.unsynced.add(e.start, data)
	}
	l.written++
	l.dirty = l.dirty.cover(e)
	// Once Close has begun it does the syncing, when all calls have ended.
	if d := l.opts.Sync.Interval(); d > 0 && l.timer == nil && l.failed == nil && !l.closed {
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
	var s Synced
	_, _ = l.syncTo(context.Background(), seq, &s) // a failure is kept in l.failed, for the next call
	if s != (Synced{}) {
		s.Background = true
	}
	l.tellSync(context.Background(), s)
}

// acknowledge makes the write seq, and all earlier ones, as durable as the
// policy promises. It does not end with the context of the call: once a sync is
// needed, only its outcome counts.
func (l *Log) acknowledge(ctx context.Context, seq uint64, e extent) error {
	if seq == 0 {
		return nil
	}
	l.mu.Lock()
	failed := l.failed // while this call was writing
	due := l.opts.Sync == driver.SyncAlways || len(l.unsynced.data) > maxUnsynced
	l.mu.Unlock()
	if due {
		failed = l.sync(ctx, seq)
	}
	if failed != nil {
		return &driver.NotDurableError{Path: l.path, Start: e.start, End: e.end, Err: failed.Err}
	}
	return nil
}

// sync is syncTo without a way to give up. The context goes to the observer.
func (l *Log) sync(ctx context.Context, seq uint64) *driver.NotDurableError {
	var s Synced
	failed, _ := l.syncTo(context.Background(), seq, &s) // never an error then
	l.tellSync(ctx, s)
	return failed
}

// syncTo returns when the writes up to seq are on stable storage, or when that
// has failed. Its error is the context's, and means that it gave up waiting. It
// sets s if this call has led a sync.
//
// Callers share syncs: one of them leads, and its sync is for all writes that were
// made before it began. The others wait to lead, and find then that it is done.
// Syncs do not overlap, because the kernel reports a failure once: of two at the
// same time one could succeed while the other gets the error.
func (l *Log) syncTo(ctx context.Context, seq uint64, s *Synced) (*driver.NotDurableError, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.synced < seq && l.failed == nil {
		if err := l.lead(ctx); err != nil {
			return nil, err
		}
		if l.synced < seq && l.failed == nil {
			l.syncNow(s)
		}
		<-l.leading
	}
	if l.synced < seq {
		return l.failed, nil
	}
	return nil, nil
}

// lead makes the caller the leader, which alone may sync or cure, until it takes
// its value from l.leading. The caller holds l.mu, which is released while it
// waits.
func (l *Log) lead(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case l.leading <- struct{}{}: // in the order of arrival
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// syncNow syncs all writes so far. The caller leads and holds l.mu, which is
// released during the sync.
func (l *Log) syncNow(s *Synced) {
	target, dirty, owed := l.written, l.dirty, l.unsynced
	l.dirty = extent{}
	l.mu.Unlock()

	began := time.Now()
	syncs <- struct{}{}
	f := l.file()
	err := f.Sync()
	if err != nil {
		_ = f.Mark(true) // Close tries again
	}
	<-syncs
	var lookErr error
	if err != nil || l.opts.Sync.Interval() > 0 {
		// An error, and lines that were acknowledged before their sync, may concern a
		// file that has lost its name to a copy. A sync of an append that has just
		// been written vouches for the copy as well: its content was readable.
		_, lookErr = f.Lookup()
	}
	*s = Synced{Took: since(began), Bytes: dirty.end - dirty.start}

	l.mu.Lock()
	later := l.dirty
	l.dirty = dirty.cover(later)
	switch {
	case lookErr != nil && l.compare(err):
		if l.synced < target {
			s.Err = cause(err)
		}
	case err != nil:
		s.Err = cause(err)
		l.failed = &driver.NotDurableError{Path: l.path, Start: dirty.start, End: dirty.end, Err: s.Err}
	default:
		l.synced, l.dirty = target, later
		l.unsynced.drop(owed)
	}
}

// Unsynced returns the offset of the first byte that this Log has written and
// not synced, or the greatest offset.
func (l *Log) Unsynced() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unsynced.parts) == 0 {
		return math.MaxInt64
	}
	return l.unsynced.parts[0].off
}
