package filelog

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// compare looks for this Log's unsynced lines in the file that took the name. Err
// is the outcome of this Log's own sync. Lines in a sound copy are on stable
// storage. A difference is a failed sync. compare reports false if there is
// nothing to compare, because the file was removed or replaced by another that is
// not a copy. It waits for the lock of the new file without a limit: giving up
// would call lines lost that a slow copy contains. The caller leads and holds
// l.mu, which is released while it waits.
func (l *Log) compare(err error) bool {
	lines, seq, dirty := l.unsynced, l.written, l.dirty
	if len(lines.parts) == 0 {
		return false
	}
	l.mu.Unlock()
	next, holds, nextErr := l.successor(context.Background(), "compare", lines)
	if nextErr == nil {
		_ = next.Unlock()
		_ = next.Close() // only read
	}
	l.mu.Lock()
	switch {
	case errors.Is(nextErr, ErrReplaced):
		return false
	case holds:
		l.synced, l.dirty = seq, extent{}
		l.unsynced.drop(lines)
	default:
		err = cmp.Or(err, nextErr, errors.New("a copy has taken the file's place, and lacks them"))
		l.failed = &driver.NotDurableError{Path: l.path, Start: dirty.start, End: dirty.end, Err: cause(err)}
	}
	return true
}

// successor opens the file that has the name of this Log's file now and takes
// its append lock, which a copy in progress holds to its end. It reports whether
// the file is sound and holds lines. It fails with [ErrReplaced] if the file is
// not a copy of this Log's.
func (l *Log) successor(ctx context.Context, op string, lines unsynced) (next *opened, holds bool, err error) {
	for {
		next, err := openNamed(l.root, l.name, &l.opts)
		if err == nil {
			copied, copyErr := l.isCopy(next)
			if err = copyErr; err == nil && !copied {
				err = ErrReplaced
			}
			if err != nil {
				_ = next.Close() // only read
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = ErrReplaced
		}
		if err != nil {
			return nil, false, l.fail(op, err)
		}
		// Not interrupted by Close, which must learn the lines' fate.
		err = poll(ctx, nil, func() (bool, error) { return next.Lock(false) })
		if err == nil {
			var now look
			if now, err = next.Lookup(); err == nil {
				holds = !now.marked && contains(next, lines)
				return next, holds, nil
			}
		}
		_ = next.Close() // also ends its lock
		if !errors.Is(err, ErrReplaced) {
			return nil, false, l.fail(op, err)
		}
	}
}

// isCopy reports whether another file is a copy of this Log's, to which lines may have
// been added. A copy is never shorter. A lost write may leave NULs in either file.
func (l *Log) isCopy(next *opened) (bool, error) {
	own := l.current.Load()
	info, err := own.Stat()
	if err != nil || info.Size() == 0 || os.SameFile(own.id, next.id) {
		return false, err
	}
	was, err := Ends(own, info.Size())
	now, nextErr := Ends(next, info.Size())
	if err = cmp.Or(err, nextErr); err != nil || len(now) < len(was) {
		return false, err
	}
	for i, b := range was {
		if b != now[i] && b != 0 && now[i] != 0 {
			return false, nil
		}
	}
	return true, nil
}

// Ends returns the first and the last 4 KiB of a file that ends at size, or fewer bytes if
// it is shorter. They distinguish the file from another of its name.
func Ends(f io.ReaderAt, size int64) ([]byte, error) {
	const most = 4 << 10
	ends := make([]byte, 2*min(size, most))
	half := len(ends) / 2
	n, err := f.ReadAt(ends[:half], 0)
	if n == half {
		n, err = f.ReadAt(ends[half:], size-int64(half))
		n += half
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return ends[:n], err
}

// settleDebts returns the error of a lookup. If another file has the name, the
// lines that this Log has acknowledged and not synced must be in that file:
// otherwise a sync of this Log has failed, and its caller must not just open the
// name anew.
func (l *Log) settleDebts(ctx context.Context, err error) error {
	if !errors.Is(err, ErrReplaced) || l.opts.Sync.interval == 0 {
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

// syncs has a place for each. A Log does at most one sync at a time.
var syncs = make(chan struct{}, maxSyncs)

// wrote records a write and returns its number. It keeps a copy of data, if not
// nil, until a sync has covered it. The caller holds the append lock.
func (l *Log) wrote(e extent, data []byte) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opts.Sync != SyncNever && len(data) > 0 {
		l.unsynced.add(e.start, data)
	}
	l.written++
	l.dirty = l.dirty.cover(e)
	// Once it has begun, Close syncs when all calls have ended.
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
	due := l.opts.Sync == SyncAlways || len(l.unsynced.data) > maxUnsynced
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

// syncTo returns when the writes up to seq are on stable storage, or their sync
// has failed. An error is the context's: syncTo gave up waiting. It sets s if
// this call has led a sync.
//
// Callers share syncs: one of them leads, and syncs all writes made before its
// sync began. The others wait to lead, and then find their writes synced. Syncs do
// not overlap, because the kernel reports a failure once: of two concurrent syncs
// one could succeed while the other gets the error.
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
	if err != nil || l.opts.Sync.interval > 0 {
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

// Owes reports whether lines of this Log are not on stable storage yet, although its
// policy promises that.
func (l *Log) Owes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.unsynced.parts) > 0
}
