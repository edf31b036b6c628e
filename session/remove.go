package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// SetState archives a session, puts it into the trash, or restores it if to is [Live]. It
// changes nothing if the session is in that state. At is the [Info.End] that the caller
// has seen: if the log of a session to archive or trash ends elsewhere, the error matches
// [ErrConflict] and nothing was done; a negative at allows any end. If a turn is running
// on the session, the error matches ErrConflict and [ErrBusy].
//
// An archive takes a fraction of the size. The session keeps its ID, [Store.List] lists it
// by its state, and it can be read and searched as before, at the cost of unpacking it.
// Appends, turns and [Session.MakeCurrent] fail with [ErrArchived]. It is no longer the
// current session of its key: the newest of the others is, or the next [Store.Load] makes
// one. Restored, it is byte for byte as it was, and current again unless a newer one was
// made. Another process that has it open may get [ErrReplaced] once.
//
// A trashed session is an archived one that List shows only in the state [Trashed] and
// that [Store.Get] hides. Its metadata record when it was trashed.
//
// When the error is nil, the session is on stable storage in its new form, and an archive
// was read back; after an error or a crash the session is there once, in one of the
// forms. A session that goes from the archive to the trash, or back, is live in between.
// An archive, and after a failed sync a copy of the transcript, needs room on the disk:
// to make room on a full disk, delete sessions. If the driver is not a [driver.Rewriter],
// the error matches [errors.ErrUnsupported].
func (st *Store) SetState(ctx context.Context, ref Ref, to State, at int64) error {
	ref = inMain(ref)
	a, err := able[driver.Rewriter](st.drv)
	err = cmp.Or(err, outside(ctx), st.check(ctx, ref))
	switch {
	case err != nil:
	case to == Live:
		err = st.bringBack(ctx, a, ref) // nothing was appended to an archived session
	case to != Archived && to != Trashed:
		err = fmt.Errorf("a session cannot be made %q: %w", to, fs.ErrInvalid)
	default:
		err = st.putAway(ctx, a, ref, to, at)
	}
	op := map[State]string{Live: "restore", Archived: "archive", Trashed: "trash"}[to]
	return st.moved(ctx, cmp.Or(op, "set state"), ref, err)
}

// bringBack restores a session. One from the trash gets a line, so that an earlier
// decision to delete it fails.
func (st *Store) bringBack(ctx context.Context, a driver.Rewriter, ref Ref) error {
	row, rowErr := st.drv.Get(ctx, ref)
	err := a.Restore(ctx, ref)
	if err == nil && rowErr == nil && isTrashed(row) {
		st.table.Forget(ref)
		_, err = st.markTrashed(ctx, ref, Live, -1)
	}
	return err
}

// putAway archives or trashes a session. The time in the metadata has no effect on a live
// session, so a kill leaves the session live, or archived in the requested form. A killed
// restore leaves the time in the metadata, and the next archive removes it.
func (st *Store) putAway(ctx context.Context, a driver.Rewriter, ref Ref, to State, at int64) error {
	for range putAwayTries {
		row, err := st.drv.Get(ctx, ref)
		if err == nil && row.Archived {
			switch {
			case isTrashed(row) == (to == Trashed):
				return nil
			case at >= 0 && row.Size != at:
				return ErrConflict
			}
			if err = a.Restore(ctx, ref); err == nil {
				st.table.Forget(ref)
			}
		}
		if err == nil && (to == Trashed || row.Trashed != 0) {
			var release func() error
			if release, err = st.drv.LockTurn(ctx, ref, false); err == nil { // else Archive will fail
				err = release()
			}
			if err == nil {
				at, err = st.markTrashed(ctx, ref, to, at)
			}
		}
		if err == nil {
			s := st.table.Acquire(ctx, ref)
			s.PutRow(ctx, true) // a driver may keep the row as it is
			st.table.Release(s)
			err = a.Archive(ctx, ref, driver.Cursor(at))
		}
		if err != nil {
			return err
		}
	}
	return ErrConflict // another process puts it away in another form
}

// putAwayTries is how often putAway tries to reach the requested form.
const putAwayTries = 3

// markTrashed appends the time when a session was trashed, or 0 for another state,
// and returns the new end unless at is negative.
func (st *Store) markTrashed(ctx context.Context, ref Ref, to State, at int64) (int64, error) {
	s, now, m := &Session{st, ref}, st.opts.Now(), transcript.Meta{Trashed: new(int64)}
	if to == Trashed {
		*m.Trashed = max(now.Unix(), 1)
	}
	if at < 0 {
		_, err := s.Append(ctx, m)
		return at, err
	}
	return s.AppendLines(ctx, at, transcript.Entry{ID: newID(), Time: now, Body: m})
}

// Delete removes sessions, their transcripts included. If the current session
// of a key is deleted, its newest remaining one becomes current. When the error
// is nil, no stored word of the sessions remains.
func (st *Store) Delete(ctx context.Context, refs ...Ref) error {
	if err := outside(ctx); err != nil {
		return st.done(ctx, "delete", Ref{}, err)
	}
	refs = slices.Clone(refs)
	for i, ref := range refs {
		refs[i] = inMain(ref)
	}
	err := st.table.Alone(ctx, sorted(refs), func() error {
		if err := st.check(ctx, refs...); err != nil {
			return err
		}
		return st.drv.Delete(ctx, driver.Anywhere, refs...)
	})
	err = errors.Join(err, st.sweepDeleted(ctx, refs...))
	for _, ref := range refs {
		st.Audit(ctx, Action{Name: "delete", Session: ref, Err: err})
	}
	if len(refs) != 1 {
		return st.done(ctx, "delete", Ref{}, err)
	}
	return st.done(ctx, "delete", refs[0], err)
}

// sorted returns sessions in one order, each once.
func sorted(refs []Ref) []Ref {
	return slices.Compact(slices.SortedFunc(slices.Values(refs), func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.ID, b.ID))
	}))
}

// DeleteAt deletes a session like [Store.Delete], archived or not, if its log still
// ends at the [Info.End] that the caller has seen. Otherwise, or if a turn is running
// on the session, nothing was deleted and the error matches [ErrConflict], for a turn
// also [ErrBusy]: a message that was stored in between is never lost. A missing
// session gives an error that matches [fs.ErrNotExist]; the filters then remove
// leftovers of an interrupted delete.
func (st *Store) DeleteAt(ctx context.Context, ref Ref, at int64) error {
	ref = inMain(ref)
	err := cmp.Or(outside(ctx), st.check(ctx, ref))
	if err == nil {
		err = st.table.Alone(ctx, []Ref{ref}, func() error { return st.drv.Delete(ctx, driver.Cursor(max(at, 0)), ref) })
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
		st.table.Forget(ref)
		err = st.sweepDeleted(ctx, ref) // it may have been deleted
	case errors.Is(err, ErrBusy):
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	}
	st.Audit(ctx, Action{Name: op, Session: ref, Err: err})
	return st.done(ctx, op, ref, err)
}
