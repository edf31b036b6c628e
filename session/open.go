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
// exist (unless opts says ReadOnly).
func Open(dir string, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.fill()
	drivers := new(driverEvents)
	do := &filedriver.Options{
		Sync: o.Sync, ReadOnly: o.ReadOnly, SingleProcess: o.SingleProcess, Logger: o.Logger,
		Describe: func(row driver.Row, scan filedriver.Scan) (driver.Row, error) { return describe(row, scan, &o) },
		OnTail: func(_ context.Context, ref Ref, tail Tail) {
			o.Logger.Warn("ended an unfinished line", "agent", ref.Agent, "session", ref.ID,
				"offset", tail.Offset, "size", tail.Size, "whole", tail.Complete)
		},
	}
	drivers.watch(do, o.Observe)
	drv, err := filedriver.Open(dir, do)
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	st := OpenDriver(drv, &o)
	st.drivers = drivers
	return st, nil
}

// watch makes the driver keep its events in d, for observe.
func (d *driverEvents) watch(o *filedriver.Options, observe func(context.Context, Event)) {
	if observe == nil {
		return
	}
	tail := o.OnTail
	o.OnTail = func(ctx context.Context, ref Ref, t Tail) {
		tail(ctx, ref, t)
		d.keep(ctx, Event{Kind: EventRepair, Session: ref, Tail: t})
	}
	o.OnWait = func(ctx context.Context, ref Ref, w filelog.Wait) {
		d.keep(ctx, Event{Kind: EventWait, Session: ref, Lock: w.Lock, Took: w.Took, Err: w.Err})
	}
	o.OnSync = func(ctx context.Context, ref Ref, s filelog.Synced) {
		d.keep(ctx, Event{Kind: EventSync, Session: ref, Took: s.Took, Bytes: int(s.Bytes), Err: s.Err})
		if s.Background { // no call of the application will tell it, and no lock is held
			d.tell(observe)
		}
	}
}
