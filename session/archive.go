package session

import (
	"context"
	"math"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// ErrArchived says that a session is archived: it can be read, and appended to
// after [Store.Restore].
var ErrArchived = driver.ErrArchived

// State says whether a session is in use, expired or archived.
type State string

// The states.
const (
	Live     State = ""         // neither archived nor expired
	Archived State = "archived" // by [Store.Archive]
	Expired  State = "expired"  // its TTL is over, and it is not archived
	AnyState State = "any"      // only in [ListOptions]: all of them
)

// Archive compresses a session to a fraction of its size. An archived session keeps
// its ID, [Store.List] lists it by its [State], and it can be read and searched as
// before, at the cost of unpacking it. Appends, turns and [Session.MakeCurrent] fail
// with [ErrArchived] until [Store.Restore]. It is no longer the current session of
// its key: the newest of the others is, or the next [Store.Load] makes one. A
// session that is already archived stays as it is.
//
// When the error is nil, the archive has everything that was appended, is on stable
// storage and was read back. If a turn is running, the error matches [ErrBusy].
// After an error or a crash the session is either unchanged or archived. The archive
// needs room on the disk; if a sync of the transcript has failed, a copy of the
// transcript needs room first. To make room on a full disk, delete sessions. A driver
// that is no [driver.Archiver] gives an error that matches [errors.ErrUnsupported].
func (st *Store) Archive(ctx context.Context, ref Ref) error { return st.archive(ctx, ref, nil) }

func (st *Store) archive(ctx context.Context, ref Ref, check func(driver.Row) error) error {
	for _, s := range st.table.due(ref.Agent) {
		if s.ref == ref {
			st.putRow(ctx, s, true) // a driver may keep the row as it is
		}
	}
	a, err := able[driver.Archiver](st.drv)
	if err == nil {
		err = a.Archive(ctx, ref, check)
	}
	return st.moved(ctx, "archive", ref, err)
}

// Restore brings back an archived session, byte for byte as it was before
// [Store.Archive]. It is the current session of its key again unless a newer one was
// made. A session that is not archived stays as it is. When the error is nil, the
// session is on stable storage; after an error or a crash it is either still archived
// or restored. Another process that has the session open may get [ErrReplaced] once.
func (st *Store) Restore(ctx context.Context, ref Ref) error {
	a, err := able[driver.Archiver](st.drv)
	if err == nil {
		err = a.Restore(ctx, ref)
	}
	return st.moved(ctx, "restore", ref, err)
}

// moved ends a call that may have archived, restored or deleted a session.
func (st *Store) moved(ctx context.Context, op string, ref Ref, err error) error {
	st.looks.Add(1)
	if err == nil {
		st.table.forget(ref)
		err = st.sweepDeleted(ctx, ref) // it may have been deleted
	}
	return st.done(ctx, op, ref, err)
}

// expires returns when a TTL is over that counts from the last user message, or
// from the creation if there is none. The zero time is never.
func expires(row driver.Row, ttl time.Duration) time.Time {
	switch {
	case ttl <= 0:
		return time.Time{}
	case row.LastUserAt.Before(row.CreatedAt): // zero, or a clock was corrected
		return row.CreatedAt.Add(ttl)
	}
	return row.LastUserAt.Add(ttl)
}

// ttlOf returns the TTL of a row. One that is negative, or too long for a Duration,
// centuries, is none.
func ttlOf(row driver.Row) time.Duration {
	if row.TTL < 0 || row.TTL > int64(math.MaxInt64/time.Second) {
		return 0
	}
	return time.Duration(row.TTL) * time.Second
}

// stateOf returns the state of a session. The clock is asked if it matters.
func stateOf(row driver.Row, now func() time.Time) State {
	if row.Archived {
		return Archived
	}
	if over := expires(row, ttlOf(row)); !over.IsZero() && !now().Before(over) {
		return Expired
	}
	return Live
}
