package memdriver

import (
	"cmp"
	"context"

	"github.com/convolog/convolog/session/driver"
)

// Archive implements [driver.Rewriter]. The session takes as much memory as before.
func (d *memory) Archive(ctx context.Context, ref driver.Ref, at driver.Cursor) error {
	return d.move(ctx, "Archive", ref, func(s *session) error { return d.endsAt(s, at) }, true)
}

// Restore implements [driver.Rewriter].
func (d *memory) Restore(ctx context.Context, ref driver.Ref) error {
	return d.move(ctx, "Restore", ref, func(*session) error { return nil }, false)
}

// move makes a session archived or not, unless it is in that state, if ready returns no
// error.
func (d *memory) move(ctx context.Context, op string, ref driver.Ref, ready func(*session) error, archived bool) error {
	return d.change(ctx, op, ref, func(s *session) error {
		if s.row.Archived == archived {
			return nil
		}
		err := cmp.Or(ready(s), d.writable(op, ref))
		if err == nil {
			s.row.Archived = archived
			d.storage.tell(ref)
		}
		return err
	})
}

// endsAt returns an error unless a session ends at a cursor and has no turn. The storage
// is locked.
func (d *memory) endsAt(s *session, at driver.Cursor) error {
	switch {
	case len(s.turn) > 0:
		return driver.ErrBusy
	case at >= 0 && at != s.end():
		return driver.ErrConflict
	}
	return nil
}

// live returns an error if a session is archived.
func (s *session) live() error {
	if s.row.Archived {
		return driver.ErrArchived
	}
	return nil
}
