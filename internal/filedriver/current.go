package filedriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/convolog/convolog/session/driver"
)

func (d *Driver) current(ctx context.Context, key driver.KeyRef) (row driver.Row, ok bool, err error) {
	a, err := d.listable(key.Agent)
	if a == nil || err != nil {
		return row, false, err
	}
	a.idx.mu.Lock()
	defer a.idx.mu.Unlock()
	if err := a.idx.ready(ctx); err != nil {
		return row, false, err
	}
	row, ok = a.idx.currentRow(ownedKeyOf(key))
	return row, ok, nil
}

// currentRow returns the row of the current session of a key. The caller holds
// x.mu, and the index is up to date.
func (x *index) currentRow(key ownedKey) (driver.Row, bool) {
	for {
		e, _ := x.current(key)
		if e == nil {
			return driver.Row{}, false
		}
		if f, err := x.stat(e.id); errors.Is(err, fs.ErrNotExist) || err == nil && f.archived {
			if x.check(e.id); x.find(e.id) != e {
				continue // it was archived, or removed by hand
			}
		}
		if row, ok := x.row(e); ok {
			kept := row // it is likely to be needed again
			kept.Labels = slices.Clone(row.Labels)
			e.row = &kept
			return row, true
		}
	}
}

// SetCurrent implements [driver.Driver].
func (d *Driver) SetCurrent(ctx context.Context, ref driver.Ref, gen int64, line func(gen int64) driver.Line) (row driver.Row, err error) {
	err = d.with(ctx, ref, func(a *agent, o *openLog) error {
		return a.idx.hold(ctx, func() error {
			row, err = a.idx.setCurrent(ctx, o, gen, line)
			return err
		})
	})
	return row, err
}

func (x *index) setCurrent(ctx context.Context, o *openLog, given int64, line func(gen int64) driver.Line) (row driver.Row, err error) {
	e := x.find(o.ref.ID)
	if e == nil || e.archived {
		x.check(o.ref.ID)
		e = x.find(o.ref.ID)
	}
	if e == nil {
		return row, x.a.d.notFound(o.ref)
	}
	cur, highest := x.current(e.ownedKey)
	row, ok := x.row(e)
	if !ok {
		return row, x.a.d.notFound(o.ref)
	}
	if given > 0 {
		if err := x.free(e.ownedKey, given, row.ID); err != nil || row.Gen >= given {
			return row, err
		}
		row.Gen = given
		return row, x.putRow(row)
	}
	if cur != nil && cur.id == row.ID {
		return row, nil
	}
	if err := x.change(row.ID); err != nil {
		return row, err
	}
	gen := highest + 1
	l := line(gen)
	x.aside(func() { _, err = x.a.d.appendTo(ctx, o, []driver.Line{l}, driver.Anywhere, nil) })
	failed, inDoubt := errors.AsType[*driver.NotDurableError](err)
	if e := x.find(o.ref.ID); e != nil && (err == nil || inDoubt && !failed.Refused) {
		e.gen = max(e.gen, gen) // even if the row fails: others read the line, and no gen is used twice
	}
	if err != nil {
		return row, err
	}
	if row, err = x.checked(o.ref); err != nil {
		return row, err
	}
	row.Gen = max(row.Gen, gen)
	x.putLate(row)
	return row, nil
}

// free returns an error if a session of the key with another ID uses a gen. The caller
// holds the lock of the index.
func (x *index) free(key ownedKey, gen int64, id string) error {
	for e := x.byKey[key]; e != nil; e = e.next {
		if e.gen == gen && e.id != id {
			return fmt.Errorf("session %s of agent %q: session %s of the key also has gen %d: delete that session, or copy into another store; nothing was written: %w", id, x.a.name, e.id, gen, fs.ErrExist)
		}
	}
	return nil
}
