package memdriver

import (
	"cmp"
	"context"

	"github.com/convolog/convolog/session/driver"
)

// Archive implements [driver.Rewriter]. The session takes as much memory as before.
func (d *memory) Archive(ctx context.Context, ref driver.Ref, at driver.Cursor) error {
	const op = "Archive"
	s, err := d.alone(ctx, op, ref, d.find)
	if err != nil {
		return err
	}
	defer d.storage.mu.Unlock()
	if s.row.Archived {
		return nil
	}
	if err = cmp.Or(d.endsAt(s, at), d.writable(op, ref)); err == nil {
		s.row.Archived = true
		d.storage.tell(ref)
	}
	return fail(op, ref, err)
}

// Restore implements [driver.Rewriter].
func (d *memory) Restore(ctx context.Context, ref driver.Ref) error {
	const op = "Restore"
	s, err := d.alone(ctx, op, ref, d.find)
	if err != nil {
		return err
	}
	defer d.storage.mu.Unlock()
	if !s.row.Archived {
		return nil
	}
	if err = d.writable(op, ref); err == nil {
		s.row.Archived = false
		d.storage.tell(ref)
	}
	return fail(op, ref, err)
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
