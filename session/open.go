package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/filedriver"
	"github.com/convolog/convolog/transcript/filelog"
)

// SyncPolicy says when an append is on stable storage, see [Options].Sync.
// Policies are comparable.
type SyncPolicy = filelog.SyncPolicy

// The policies that take no argument; [SyncInterval] is another one.
var (
	// SyncAlways: when the append returns. It is the zero value.
	SyncAlways = filelog.SyncAlways
	// SyncNever: when the operating system writes it. An append survives a
	// killed process but not a power cut.
	SyncNever = filelog.SyncNever
)

// SyncInterval is the policy that an append is on stable storage at most about d
// after it returned.
func SyncInterval(d time.Duration) SyncPolicy { return filelog.SyncInterval(d) }

// Tail is an unterminated last line of a transcript, left by a writer that died,
// which the next writer ended.
type Tail = filelog.Tail

// Lock names a lock of a transcript or of an index.
type Lock = filelog.Lock

// The locks.
const (
	AppendLock = filelog.AppendLock
	TurnLock   = filelog.TurnLock // see [Session.BeginTurn]
)

// LongWait is the shortest wait for a lock that is an [EventWait].
const LongWait = filelog.LongWait

// Errors of the store that [Open] opens.
var (
	// ErrFragment reports that a write failed and could not be cut back: a
	// partial batch remains in the file. Readers take it for damage or for an
	// append that was never acknowledged. The same call may be tried again.
	ErrFragment = filelog.ErrFragment
	// ErrReadOnly reports that the store was opened read-only.
	ErrReadOnly = filelog.ErrReadOnly
)

// NotDurableError reports that a sync failed: the appended entries may or may
// not survive a power cut. Unless Refused is set the entries may exist. The
// session refuses appends until [Session.Recover] has succeeded.
type NotDurableError = filelog.NotDurableError

// namesFile reports whether an error says which file it is about.
func namesFile(err error) bool {
	_, named := errors.AsType[*filelog.Error](err)
	_, synced := errors.AsType[*NotDurableError](err)
	return named || synced
}

// Open opens the store in a folder of files, which is made if it does not
// exist (unless opts says ReadOnly). It finishes an erase that a kill has cut
// short, see [Store.Erase].
func Open(dir string, opts *Options) (*Store, error) {
	st := newStore(opts)
	o := &st.opts
	do := &filedriver.Options{
		Sync: o.Sync, ReadOnly: o.ReadOnly, SingleProcess: o.SingleProcess, Logger: o.Logger,
		Describe: func(row driver.Row, scan filedriver.Scan) (driver.Row, error) { return describe(row, scan, o) },
		OnTail:   st.onTail,
	}
	if o.Observe != nil {
		do.OnWait = st.onWait
		do.OnSync = st.onSync
	}
	drv, err := filedriver.Open(dir, do)
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	st.drv = drv
	st.resume()
	return st, nil
}

func (st *Store) onTail(ctx context.Context, ref Ref, t Tail) {
	st.opts.Logger.Warn("ended an unfinished line", "agent", ref.Agent, "session", ref.ID,
		"offset", t.Offset, "size", t.Size, "whole", t.Complete)
	if st.opts.Observe != nil {
		st.keep(ctx, Event{Kind: EventRepair, Session: ref, Tail: t})
	}
}

func (st *Store) onWait(ctx context.Context, ref Ref, w filelog.Wait) {
	st.keep(ctx, Event{Kind: EventWait, Session: ref, Lock: w.Lock, Took: w.Took, Err: w.Err})
}

func (st *Store) onSync(ctx context.Context, ref Ref, s filelog.Synced) {
	st.keep(ctx, Event{Kind: EventSync, Session: ref, Took: s.Took, Bytes: int(s.Bytes), Err: s.Err})
	if s.Background { // no call of the application will tell it, and no lock is held
		st.tellKept()
	}
}
