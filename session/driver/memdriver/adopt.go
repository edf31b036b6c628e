package memdriver

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"

	"github.com/convolog/convolog/session/driver"
)

var _ driver.Adopter = (*memory)(nil)

// Adopt implements [driver.Adopter].
func (d *memory) Adopt(ctx context.Context, row driver.Row, header driver.Line) error {
	const op = "Adopt"
	if err := d.begin(ctx); err != nil {
		return fail(op, row.Ref(), err)
	}
	defer d.storage.mu.Unlock()
	return fail(op, row.Ref(), d.adopt(op, row, header))
}

// adopt is Adopt for a caller that has locked the storage.
func (d *memory) adopt(op string, row driver.Row, header driver.Line) error {
	if err := cmp.Or(driver.CheckRef(row.Ref()), driver.CheckKey(row.KeyRef())); err != nil {
		return err
	}
	k := d.storage.keys[row.KeyRef()]
	highest := row.Gen
	if k != nil {
		highest = max(highest, k.gen)
		for _, s := range k.sessions {
			if row.Gen > 0 && s.row.Gen == row.Gen && s.row.ID != row.ID {
				return fmt.Errorf("session %q of the key also has gen %d: delete that session, or copy into another store; nothing was written: %w", s.row.ID, row.Gen, fs.ErrExist)
			}
		}
	}
	s := d.storage.sessions[row.Ref()]
	switch {
	case s == nil:
		made, err := d.storage.prepare(row, []driver.Line{header})
		if err == nil {
			err = d.writable(op, row.Ref())
		}
		if err != nil {
			return err
		}
		d.add(made)
		k = d.storage.keys[row.KeyRef()]
	case s.row.KeyRef() != row.KeyRef():
		return errInUse
	case s.row.Archived:
		return driver.ErrArchived
	case s.row.Gen < row.Gen:
		if err := d.writable(op, row.Ref()); err != nil {
			return err
		}
		s.row.Gen = row.Gen
		d.storage.tell(row.Ref())
	}
	k.gen = highest
	return nil
}
