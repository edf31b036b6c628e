package filelog

import (
	"context"
	"time"
)

// LongWait is the shortest wait for a lock that [Options.OnWait] is called for.
const LongWait = time.Millisecond

// A Lock says what a lock is for.
type Lock string

// The locks. A Log waits for AppendLock alone; TurnLock is for callers that
// report the waits for a [LockFile] in the same way.
const (
	AppendLock Lock = "append"
	TurnLock   Lock = "turn"
)

// A Wait is a wait for a lock that is over.
type Wait struct {
	Lock Lock
	Took time.Duration
	Err  error // why it was given up; nil if the lock was taken
}

// A Synced is a sync of a file that is over. One sync may be for many calls. The
// copy that cures a failed sync counts as one.
type Synced struct {
	Took  time.Duration // what it waited for other syncs of this process included
	Bytes int64         // from the first to the last byte that the Log had written since the sync before; of a copy, its size
	Err   error         // nil if they are on stable storage
	// Background says that no call has asked for it, but [SyncInterval].
	Background bool
}

// tellWait reports a wait. It does nothing if the wait was short.
func (l *Log) tellWait(ctx context.Context, lock Lock, took time.Duration, err error) {
	if l.opts.OnWait != nil && took >= LongWait {
		l.opts.OnWait(ctx, Wait{lock, took, err})
	}
}

// tellSync reports a sync. It does nothing if this call has not led one.
func (l *Log) tellSync(ctx context.Context, s Synced) {
	if l.opts.OnSync != nil && s != (Synced{}) {
		l.opts.OnSync(ctx, s)
	}
}

// now is the time if an observer wants to know how long things take.
func (l *Log) now() time.Time {
	if l.opts.OnWait == nil && l.opts.OnSync == nil {
		return time.Time{}
	}
	return time.Now()
}

// since is the time that has passed since now, at least 1 ns; 0 if there is no
// observer.
func since(began time.Time) time.Duration {
	if began.IsZero() {
		return 0
	}
	return max(time.Since(began), 1)
}
