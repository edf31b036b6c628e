package session

import (
	"context"
	"errors"

	"github.com/convolog/convolog/session/driver"
)

// Recover makes a session usable again after a [*NotDurableError]: until then
// every append to it is refused. Call it once the disk has been seen to, and
// again if it fails. On a session without a failed sync it does no harm.
//
// When the error is nil, everything that was ever acknowledged is on stable
// storage, and so is everything else that is in the transcript now, which may
// be entries of the appends that failed: each of those is there, whole, or it
// is not. Append them again under the idempotency key of the first try, see
// [Cond].
//
// If another process has archived, restored, erased or deleted the session since the
// sync failed, the first call that would report success, [Session.Flush] included,
// fails with a [*NotDurableError] instead: entries that this process acknowledged
// before a sync, under an interval, may be missing there. The error also matches
// [ErrArchived], [ErrReplaced] or fs.ErrNotExist. The next call is about the session
// as it is then.
//
// A last line that a dead writer has left without its line break gets one, as the next
// append would give it.
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
	t := s.store.table.Acquire(s.ref)
	defer s.store.table.Release(t)
	return s.locked(ctx, op, t, func() error { return t.Reread(ctx) }) // also what the copy may have changed
}
