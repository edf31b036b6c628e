package filedriver

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/convolog/convolog/session/driver"
)

var _ driver.Adopter = (*Driver)(nil)

// Adopt implements [driver.Adopter].
func (d *Driver) Adopt(ctx context.Context, row driver.Row, header driver.Line) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.ops.Done()
	if err := driver.CheckKey(row.KeyRef()); err != nil {
		return err
	}
	first := func(int64) (driver.Row, driver.Line) { return row, header }
	a, err := d.writable(row.Agent, first)
	if err != nil {
		return err
	}
	x := a.idx
	return x.hold(ctx, func() error {
		for e := x.byKey[ownedKeyOf(row.KeyRef())]; e != nil; e = e.next {
			if e.gen == row.Gen && e.gen > 0 && e.id != row.ID {
				return fmt.Errorf("session %s of agent %q: session %s of the key also has gen %d: delete that session, or copy into another store; nothing was written: %w", row.ID, a.name, e.id, e.gen, fs.ErrExist)
			}
		}
		x.check(row.ID)
		e := x.find(row.ID)
		switch {
		case e == nil:
			_, err := a.create(row.KeyRef(), row.Gen, first, nil)
			return err
		case e.ownedKey != ownedKeyOf(row.KeyRef()):
			return fmt.Errorf("session %s of agent %q: %w: it is of another key", row.ID, a.name, fs.ErrExist)
		case e.archived:
			return a.archivedError(row.ID)
		case e.gen >= row.Gen:
			return nil
		}
		was, ok := x.row(e)
		if !ok {
			return d.notFound(row.Ref())
		}
		was.Gen = row.Gen
		return x.putRow(was)
	})
}
