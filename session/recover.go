package session

import (
	"context"
	"errors"

	"github.com/convolog/convolog/session/driver"
)

// Recover makes a session usable again after a [*NotDurableError]: until then
// every append to it is refused. Call it once the disk is in order, and again
// if it fails. On a session without a failed sync it does no harm.
//
// When the error is nil, everything that was ever acknowledged is on stable
// storage, and so is everything else in the transcript now. This may include failed
// appends: each is there whole or not at all. Append them again under the
// idempotency key of the first try, see [Cond].
//
// If another process has archived, restored, erased or deleted the session since the
// sync failed, the first call that would report success, [Session.Flush] included,
// fails with a [*NotDurableError] instead: entries that this process acknowledged
// before a sync, under an interval, may be missing there. The error also matches
// [ErrArchived], [ErrReplaced] or fs.ErrNotExist. The next call is about the session
// as it is then.
//
// If a dead writer has left the last line without its line break, Recover adds it, as
// an append would.
//
// The state is read again, so that the next call sees the present file. In the
// worst case the transcript was replaced by a copy of itself; other processes
// then get [ErrReplaced] once, and so does this one if it holds a turn, which
// should begin anew.
func (s *Session) Recover(ctx context.Context) error {
	const op = "recover"
	err := s.store.check(ctx, s.ref)
	if err == nil {
		err = s.store.drv.Flush(ctx, s.ref, true)
	}
	if err == nil {
		_, err = s.store.drv.Append(ctx, s.ref, nil, driver.Anywhere, nil)
	}
	if err != nil && !errors.Is(err, ErrArchived) {
		return s.store.done(ctx, op, s.ref, err)
	}
	t := s.store.table.Acquire(ctx, s.ref)
	defer s.store.table.Release(t)
	return s.locked(ctx, op, t, func() error { return t.Reread(ctx) }) // including changes by the copy
}
