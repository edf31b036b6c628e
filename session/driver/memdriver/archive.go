package memdriver

import (
	"context"

	"github.com/convolog/convolog/session/driver"
)

var _ driver.Archiver = (*memory)(nil)

// Archive implements [driver.Archiver]. The session takes as much memory as before.
func (d *memory) Archive(ctx context.Context, ref driver.Ref, check func(driver.Row) error) error {
	const op = "Archive"
	s, err := d.alone(ctx, op, ref, d.find)
	if err != nil {
		return err
	}
	defer d.storage.mu.Unlock()
	if s.row.Archived {
		return nil
	}
	if err = d.still(op, s, check); err == nil {
		s.row.Archived = true
		d.storage.tell(ref)
	}
	return fail(op, ref, err)
}

// Restore implements [driver.Archiver].
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

// DeleteIf implements [driver.Archiver].
func (d *memory) DeleteIf(ctx context.Context, refs []driver.Ref, check func(driver.Row) error) []error {
	return driver.Once(refs, func(ref driver.Ref) error { return d.deleteIf(ctx, ref, check) })
}

func (d *memory) deleteIf(ctx context.Context, ref driver.Ref, check func(driver.Row) error) error {
	const op = "DeleteIf"
	s, err := d.alone(ctx, op, ref, d.find)
	if err != nil {
		return err
	}
	defer d.storage.mu.Unlock()
	if err = d.still(op, s, check); err == nil {
		d.storage.remove(s)
	}
	return fail(op, ref, err)
}

// still reports why a session must stay as it is, if there is a reason. The storage
// is locked.
func (d *memory) still(op string, s *session, check func(driver.Row) error) error {
	if len(s.turn) > 0 {
		return driver.ErrBusy
	}
	if check != nil {
		row := s.copyRow()
		row.Size, row.Current = int64(s.end()), d.storage.current(row.KeyRef()) == s
		if err := check(row); err != nil {
			return err
		}
	}
	return d.writable(op, s.row.Ref())
}

// live returns an error if a session is archived.
func (s *session) live() error {
	if s.row.Archived {
		return driver.ErrArchived
	}
	return nil
}
