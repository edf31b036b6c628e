package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// ErrArchived reports that a session is archived: it can be read, and appended
// to after [Store.SetState] has made it [Live].
var ErrArchived = driver.ErrArchived

// A State of a session is live, expired or archived.
type State string

// The states.
const (
	Live     State = ""         // neither archived nor expired
	Archived State = "archived" // by [Store.SetState]
	Expired  State = "expired"  // its TTL is over, and it is not archived
	AnyState State = "any"      // only in [ListOptions]: all of them
)

// SetState archives a session, or restores it if to is [Live]. It changes nothing if
// the session is in that state. At is the [Info.End] that the caller has seen: if
// the log of a session to archive does not end there, the error matches
// [ErrConflict] and nothing was done; less than 0 is any place. If a turn is running
// on the session, the error matches ErrConflict and [ErrBusy].
//
// When the error is nil, the session is on stable storage in its new form; after an
// error or a crash it is there once, in one of the two. If the driver is not a
// [driver.Rewriter], the error matches [errors.ErrUnsupported]. See package
// session/retain about archived sessions.
func (st *Store) SetState(ctx context.Context, ref Ref, to State, at int64) error {
	ref = inMain(ref)
	a, err := able[driver.Rewriter](st.drv)
	err = cmp.Or(err, st.check(ctx, ref))
	switch {
	case err != nil:
	case to == Live:
		err = a.Restore(ctx, ref) // nothing was appended to an archived session
	case to != Archived:
		err = fmt.Errorf("a session cannot be made %q: %w", to, fs.ErrInvalid)
	default:
		s := st.table.acquire(ref)
		st.putRow(ctx, s, true) // a driver may keep the row as it is
		st.table.release(s)
		err = a.Archive(ctx, ref, driver.Cursor(at))
	}
	op := map[State]string{Live: "restore", Archived: "archive"}[to]
	return st.moved(ctx, cmp.Or(op, "set state"), ref, err)
}

// DeleteAt deletes a session like [Store.Delete], archived or not, if its log still
// ends at the [Info.End] that the caller has seen. Otherwise, and if a turn is running
// on the session, the error matches [ErrConflict], and for a turn also [ErrBusy], and
// nothing was deleted: a message that was stored in between is never lost. A session
// that does not exist gives an error that matches [fs.ErrNotExist]; the filters have
// removed leftovers of an interrupted delete.
func (st *Store) DeleteAt(ctx context.Context, ref Ref, at int64) error {
	ref = inMain(ref)
	err := st.check(ctx, ref)
	if err == nil {
		err = st.table.alone(ctx, []Ref{ref}, func() error { return st.drv.Delete(ctx, driver.Cursor(max(at, 0)), ref) })
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.Join(err, st.sweepDeleted(ctx, ref))
	}
	return st.moved(ctx, "delete", ref, err)
}

// moved ends a call that may have archived, restored or deleted a session. A running
// turn is a conflict.
func (st *Store) moved(ctx context.Context, op string, ref Ref, err error) error {
	switch {
	case err == nil:
		st.table.forget(ref)
		err = st.sweepDeleted(ctx, ref) // it may have been deleted
	case errors.Is(err, ErrBusy):
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return st.done(ctx, op, ref, err)
}

// expires returns when a TTL is over that counts from the last user message, or
// else from the creation. The zero time is never.
func expires(row driver.Row, ttl time.Duration) time.Time {
	switch {
	case ttl <= 0:
		return time.Time{}
	case row.LastUserAt.Before(row.CreatedAt): // zero, or a clock was corrected
		return row.CreatedAt.Add(ttl)
	}
	return row.LastUserAt.Add(ttl)
}

// ttlOf returns the TTL of a row. Negative ones, and ones too long for a Duration,
// centuries, are ignored.
func ttlOf(row driver.Row) time.Duration {
	if row.TTL < 0 || row.TTL > int64(math.MaxInt64/time.Second) {
		return 0
	}
	return time.Duration(row.TTL) * time.Second
}

// stateOf returns the state of a session. It reads the clock only if that
// matters.
func stateOf(row driver.Row, now func() time.Time) State {
	if row.Archived {
		return Archived
	}
	if over := expires(row, ttlOf(row)); !over.IsZero() && !now().Before(over) {
		return Expired
	}
	return Live
}
