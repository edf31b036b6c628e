package filelog

import (
	"context"
	"errors"
	"time"
)

// A SyncPolicy says when appended lines are put on stable storage. Policies
// are comparable. The zero value is [SyncAlways].
//
// Under SyncAlways an append takes as long as the disk takes to sync, which
// many goroutines share; under the others it takes a few system calls.
// BENCHMARKS.md has the measured cost of each.
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
// last d. An Append that finds more than 8 MiB waiting syncs them itself. While
// there is nothing to sync, nothing runs. A failed sync is reported by the next
// call. D must be positive, otherwise the policy is [SyncAlways].
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

// maxSyncs is how many syncs this process runs at once, of all its Logs. More
// do not make a disk faster; they make the slowest wait longer, and each takes
// a thread.
const maxSyncs = 16

// syncs has a place for each of them. A Log does at most one sync at a time.
var syncs = make(chan struct{}, maxSyncs)

// Flush puts everything this Log has acknowledged so far on stable storage,
// whatever the policy, and cures the file if it bears the mark of a failed sync.
// When it fails with a [*NotDurableError] the Log acknowledges nothing more
// before [Log.Recover]. The context is honoured until a sync begins, and while
// another call's sync is running.
func (l *Log) Flush(ctx context.Context) error { return l.flushAs(ctx, "flush", false) }

// FlushAll is Flush for everything that is in the file, by whomever it was
// written. It fails with [ErrReplaced] when the name no longer refers to this
// file.
func (l *Log) FlushAll(ctx context.Context) error {
	return l.flushAs(ctx, "flush", !l.opts.ReadOnly)
}

func (l *Log) flushAs(ctx context.Context, op string, all bool) error {
	if err := l.begin(op); err != nil {
		return err
	}
	defer l.ops.Done()
	return l.flush(ctx, op, all)
}

// flush syncs, and looks for the mark before and after: a nil error must not
// stand on a file of which another Log knows better.
func (l *Log) flush(ctx context.Context, op string, all bool) error {
	for vouch := all; ; {
		if _, suspects, _ := l.doubts(); suspects || vouch {
			if err := l.vouch(ctx, op, all); err != nil {
				return err
			}
		}
		l.mu.Lock()
		seq := l.written
		l.mu.Unlock()
		var s Synced
		failed, err := l.syncTo(ctx, seq, &s)
		l.tellSync(ctx, s)
		if failed != nil {
			return failed
		}
		if err != nil {
			return l.fail(op, err, "what was written is still not synced, flush again")
		}
		now, err := l.lookup(op)
		if errors.Is(err, ErrReplaced) && !all {
			return nil // what this Log owes is safe, see syncNow
		}
		if err != nil || !now.marked || l.opts.ReadOnly {
			return err
		}
		vouch = true
	}
}

// vouch takes the append lock to make the file ready, and counts what is in it
// as written by this Log if all is set.
func (l *Log) vouch(ctx context.Context, op string, all bool) error {
	waited, err := l.lock(ctx, op, false)
	if err != nil {
		return err
	}
	var s Synced
	size, err := l.ready(ctx, op, &s)
	if err == nil && all {
		l.mu.Lock()
		l.wroteUnknown(extent{0, size})
		l.mu.Unlock()
	}
	l.unlock()
	l.tell(ctx, waited, written{cured: s})
	if e, ok := errors.AsType[*NotDurableError](err); ok {
		return &NotDurableError{Path: e.Path, Start: e.Start, End: e.End, Err: e.Err}
	}
	return err
}

// Failed returns the first failed sync of this Log since it was opened or
// recovered, or nil: a sync of a call or one in the background. A Log that has
// failed acknowledges nothing more before [Log.Recover], and only it knows why:
// opened again, the file looks sound.
func (l *Log) Failed() *NotDurableError {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// wrote records that data was written at start and returns the number of that
// write. It keeps a copy of data until a sync has covered it. The caller holds
// the append lock.
func (l *Log) wrote(start int64, data []byte) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opts.Sync != SyncNever {
		l.unsynced.add(start, data)
	}
	return l.wroteUnknown(extent{start, start + int64(len(data))})
}

// wroteUnknown records a write of which only the place is known. The caller
// holds l.mu.
func (l *Log) wroteUnknown(e extent) uint64 {
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
	var s Synced
	_, _ = l.syncTo(context.Background(), seq, &s) // what fails is kept in l.failed, for the next call
	if s != (Synced{}) {
		s.Background = true
	}
	l.tellSync(context.Background(), s)
}

// acknowledge makes the write seq, and what came before it, as durable as the
// policy promises. It does not give up with the context of the call: once there
// is something to sync, only the sync can tell what becomes of it.
func (l *Log) acknowledge(ctx context.Context, seq uint64, e extent) error {
	if seq == 0 {
		return nil
	}
	var failed *NotDurableError
	if l.opts.Sync == SyncAlways {
		failed = l.sync(ctx, seq)
	} else {
		l.mu.Lock()
		failed = l.failed // while this call was writing
		full := len(l.unsynced.data) > maxUnsynced
		l.mu.Unlock()
		if full {
			failed = l.sync(ctx, seq)
		}
	}
	if failed != nil {
		return &NotDurableError{Path: l.path, Start: e.start, End: e.end, Err: failed.Err}
	}
	return nil
}

// sync is syncTo without a way to give up. The context goes to OnSync.
func (l *Log) sync(ctx context.Context, seq uint64) *NotDurableError {
	var s Synced
	failed, _ := l.syncTo(context.Background(), seq, &s) // never an error then
	l.tellSync(ctx, s)
	return failed
}

// syncTo returns when the writes up to seq are on stable storage, or when that
// has failed. Its error is the context's, and means that it gave up waiting. It
// sets s if this call has led a sync.
//
// Callers share syncs: one of them leads, and its sync is for all writes that
// were made before it began. A write that came later waits for the end of that
// sync and then for the next, which its caller or another one leads. Syncs do
// not overlap, because the kernel reports a failure once: of two at the same
// time one could be told that all is well while the other learns that it is
// not.
func (l *Log) syncTo(ctx context.Context, seq uint64, s *Synced) (*NotDurableError, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for leads := false; ; {
		if l.synced >= seq || l.failed != nil {
			if leads {
				l.follow()
			}
			if l.synced >= seq {
				return nil, nil
			}
			return l.failed, nil
		}
		if leads {
			return l.syncNow(s), nil
		}
		var err error
		if leads, err = l.lead(ctx, seq); err != nil {
			return nil, err
		}
	}
}

// A round is a sync that callers wait for.
type round struct {
	lead chan struct{} // holds a value for the one caller that is to lead
	done chan struct{} // closed when it has ended
}

func newRound() *round {
	return &round{lead: make(chan struct{}, 1), done: make(chan struct{})}
}

// lead makes the caller the leader of the next sync if none is running; the
// caller must then end with l.follow. Otherwise lead waits, and returns false
// when the caller has to look again: for the end of the running sync if that
// covers the write seq, else for the one after it, which one of its waiting
// callers leads. The caller holds l.mu, which is released meanwhile.
func (l *Log) lead(ctx context.Context, seq uint64) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	var r *round
	switch {
	case l.leading && seq <= l.leadingTo:
		if l.round == nil {
			l.round = newRound()
		}
		r = l.round
	case !l.leading && l.next == nil:
		l.leading, l.leadingTo = true, 0
		return true, nil
	default:
		if l.next == nil {
			l.next = newRound()
		}
		r = l.next
	}
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-r.done:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-r.lead:
	}
	l.mu.Lock()
	l.leading, l.leadingTo, l.round, l.next = true, 0, r, nil
	l.mu.Unlock()
	return true, nil
}

// follow ends what lead has begun. The caller holds l.mu.
func (l *Log) follow() {
	l.leading = false
	if l.round != nil {
		close(l.round.done)
		l.round = nil
	}
	if l.next != nil {
		l.next.lead <- struct{}{}
	}
}

// syncNow syncs what was written so far. The caller leads and holds l.mu, which
// is released meanwhile.
//
// The sync holds the sync lock shared until its failure has been marked, so that
// [Log.drain] waits for it. If the mark cannot be set the lock stays until the
// cure closes the descriptor, and other Logs that have just opened the file wait.
func (l *Log) syncNow(s *Synced) *NotDurableError {
	target, dirty, parts := l.written, l.dirty, len(l.unsynced.parts)
	l.leadingTo = target
	l.dirty = extent{}
	l.mu.Unlock()

	began := l.now()
	syncs <- struct{}{}
	f := l.file()
	err := poll(context.Background(), nil, func() (bool, error) { return f.LockSync(true) })
	if err == nil {
		if err = f.Sync(); err == nil || f.Mark(true) == nil {
			_ = f.UnlockSync() // at worst others wait until this Log is closed
		}
	}
	<-syncs
	// An error, and lines that were acknowledged before their sync, may concern a
	// file that has lost its name to a copy. A sync of an append that has just
	// been written vouches for the copy too: what was copied was readable.
	var lookErr error
	if err != nil || l.opts.Sync.interval > 0 {
		_, lookErr = f.Lookup()
	}
	*s = Synced{Took: since(began), Bytes: dirty.end - dirty.start, Err: cause(err)}

	l.mu.Lock()
	defer l.follow()
	later := l.dirty
	l.dirty = dirty.cover(later)
	switch {
	case lookErr != nil && l.compare(err):
		if l.synced < target {
			return l.failed
		}
		s.Err = nil
	case err != nil:
		l.failed = &NotDurableError{Path: l.path, Start: dirty.start, End: dirty.end, Err: cause(err)}
		return l.failed
	default:
		l.synced, l.dirty = target, later
		l.unsynced.drop(parts)
	}
	return nil
}

// refused returns the error of an append after a failed sync, or nil.
func (l *Log) refused() error {
	_, _, err := l.doubts()
	return err
}

// doubts is refused and what [Log.Suspect] was told and no call has looked at
// yet.
func (l *Log) doubts() (from int64, suspects bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return 0, false, l.failed.refusal()
	}
	return l.suspect, l.suspects, nil
}
