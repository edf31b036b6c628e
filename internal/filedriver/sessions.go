package filedriver

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

// isAnother reports whether a transcript is not the one this driver knows. The next
// call that opens it returns the error.
func (a *agent) isAnother(f found) bool {
	ref := driver.Ref{Agent: a.name, ID: f.id}
	if o, err := a.d.logs.acquire(ref, closedLog); err == nil {
		_, _, err = o.log.TrySize()
		_ = a.d.logs.release(o, nil) // nil stays nil
		return errors.Is(err, filelog.ErrReplaced)
	}
	o, err := a.open(f)
	if err != nil {
		return false
	}
	defer o.close()
	fits, err := a.d.mark(ref).fits(o)
	return err == nil && !fits
}

// Get implements [driver.Driver]. It returns a row of the index as it is,
// though others may have appended since. For a transcript missing in the index
// it makes a row from the header.
func (d *Driver) Get(ctx context.Context, ref driver.Ref) (row driver.Row, err error) {
	err = d.on(ctx, ref, func(a *agent) error {
		a.idx.mu.Lock()
		defer a.idx.mu.Unlock()
		row, err = a.idx.get(ref)
		return err
	})
	return row, err
}

func (x *index) get(ref driver.Ref) (row driver.Row, err error) {
	for range tries {
		if err = x.refresh(); err != nil {
			return row, err
		}
		f, statErr := x.stat(ref.ID)
		if statErr != nil {
			return row, statErr
		}
		x.a.d.at("get: found")
		if row, err = x.rowOf(ref, f); !errors.Is(err, fs.ErrNotExist) { // else it was just archived or restored
			break
		}
	}
	return row, err
}

// rowOf returns the row of a session that was found.
func (x *index) rowOf(ref driver.Ref, f found) (driver.Row, error) {
	if e := x.find(ref.ID); e != nil && e.archived == f.archived && (f.archived || e.size > 0 && e.size <= f.size) {
		if row, ok := x.stored(e); ok {
			return row, nil
		}
	}
	if f.archived {
		return x.a.describe(f, driver.Row{})
	}
	e, h, err := x.a.header(f) // look would read all lines
	if err == nil {
		row := driver.Row{ID: f.id, Agent: x.a.name, Owner: h.Owner, Key: h.Key, CreatedAt: h.Created, UpdatedAt: e.Time}
		if e.ID == f.id { // else opening it reports the error
			row.Gen = h.Gen
		}
		return row, nil
	}
	_ = x.look(f)                      // said in the log
	if e := x.find(ref.ID); e != nil { // its lines can be read
		if row, ok := x.stored(e); ok {
			return row, nil
		}
	}
	return driver.Row{}, x.a.spoilt("find session "+ref.ID, f, err, "restore it from a copy, move it away or delete session "+ref.ID)
}

// Put implements [driver.Driver].
func (d *Driver) Put(ctx context.Context, row driver.Row) error {
	row.Labels = slices.Clone(row.Labels)
	return d.on(ctx, row.Ref(), func(a *agent) error { return a.idx.put(ctx, row) })
}

// List implements [driver.Driver].
func (d *Driver) List(ctx context.Context, agent string, after driver.Position, n int) ([]driver.Row, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.ops.Done()
	if agent == "" {
		return d.listAgents(ctx)
	}
	a, err := d.listable(agent)
	if a == nil || err != nil {
		return nil, err
	}
	a.idx.mu.Lock()
	defer a.idx.mu.Unlock()
	return a.idx.list(ctx, after, n)
}

func (x *index) list(ctx context.Context, after driver.Position, n int) (list []driver.Row, err error) {
	if err := x.ready(ctx); err != nil {
		return nil, err
	}
	page, changed := x.page(after, n), false
	for _, e := range page {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		changed = x.check(e.id) || changed
	}
	if changed {
		page = x.page(after, n)
	}
	current := map[ownedKey]*entry{}
	for _, e := range page {
		if e.key == "" && e.row == nil {
			continue // its row is empty
		}
		row, ok := x.row(e)
		if !ok {
			continue
		}
		cur, known := current[e.ownedKey]
		if !known {
			cur = x.current(e.ownedKey)
			current[e.ownedKey] = cur
		}
		row.Current = cur != nil && cur.id == e.id
		list = append(list, row)
	}
	return list, nil
}

// put replaces the row of a session, unless the row in the index covers more of
// the transcript.
func (x *index) put(ctx context.Context, row driver.Row) error {
	return x.hold(ctx, func() error {
		ref := row.Ref()
		f, err := x.a.unarchived(x.stat(row.ID))
		if err != nil {
			return err
		}
		if x.find(row.ID) == nil {
			_ = x.look(f) // said in the log
		}
		e := x.find(row.ID)
		if e == nil || e.key == "" && e.row == nil {
			return x.a.spoilt("put session "+row.ID, f, errNoHeader, "restore it from a copy")
		}
		if row.Rev < e.rev || row.Size > 0 && row.Size < e.size && e.size <= f.size {
			if known, ok := x.row(e); ok {
				row = known
			}
			if e = x.find(row.ID); e == nil || row.Rev < e.rev {
				return x.a.d.notFound(ref)
			}
		} else if row.Rev == e.rev && x.a.isAnother(f) {
			return madeAgain(row.ID)
		}
		row.Gen, row.Owner, row.Key, row.Archived = e.gen, e.owner, e.key, false
		return x.putRow(row)
	})
}
