package filedriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript/filelog"
)

// notFound says that a session is not there.
func (d *Driver) notFound(ref driver.Ref) error {
	return &filelog.Error{
		Op: "find session " + ref.ID, Path: d.Path(ref),
		Err: fs.ErrNotExist, Fix: "list the sessions to see which there are",
	}
}

// existing returns the folder of an agent for a call on one of its sessions.
func (d *Driver) existing(ctx context.Context, ref driver.Ref) (*agent, error) {
	if err := driver.CheckRef(ref); err != nil {
		return nil, err
	}
	a, err := d.agent(ref.Agent, false)
	if errors.Is(err, fs.ErrNotExist) {
		err = d.notFound(ref)
	}
	return a, err
}

// Current implements [driver.Driver].
func (d *Driver) Current(ctx context.Context, agent, key string) (driver.Row, error) {
	if err := d.enter(ctx); err != nil {
		return driver.Row{}, err
	}
	defer d.ops.Done()
	row, ok, err := d.current(ctx, agent, key)
	if err == nil && !ok {
		err = fmt.Errorf("key %q has no session: %w", key, fs.ErrNotExist)
	}
	return row, err
}

func (d *Driver) current(ctx context.Context, agent, key string) (driver.Row, bool, error) {
	if err := driver.CheckAgent(agent); err != nil {
		return driver.Row{}, false, err
	}
	a, err := d.agent(agent, false)
	if errors.Is(err, fs.ErrNotExist) {
		return driver.Row{}, false, nil
	}
	if err != nil {
		return driver.Row{}, false, err
	}
	a.idx.mu.Lock()
	defer a.idx.mu.Unlock()
	if err := a.idx.readyKey(ctx, key); err != nil {
		return driver.Row{}, false, err
	}
	row, ok := a.idx.currentRow(key)
	return row, ok, nil
}

// currentRow returns the row of the current session of a key. The caller holds
// x.mu, and the index is up to date.
func (x *index) currentRow(key string) (driver.Row, bool) {
	for {
		e, _ := x.current(key)
		if e == nil {
			return driver.Row{}, false
		}
		if x.readGen(e); x.find(e.id) != e {
			continue // somebody has removed it by hand
		}
		if row, ok := x.row(e); ok {
			e.row = &row // it is likely to be asked for again
			row.Labels = slices.Clone(row.Labels)
			return row, true
		}
	}
}

// LoadOrCreate implements [driver.Driver].
func (d *Driver) LoadOrCreate(ctx context.Context, agent, key string, header func(int64) (driver.Row, driver.Line)) (row driver.Row, created bool, err error) {
	if err := d.enter(ctx); err != nil {
		return row, false, err
	}
	defer d.ops.Done()
	if err := driver.CheckKey(key); err != nil {
		return row, false, err
	}
	row, ok, err := d.current(ctx, agent, key)
	if ok || err != nil {
		return row, false, err
	}
	a, err := d.writable(ctx, agent, header)
	if err != nil {
		return row, false, err
	}
	x := a.idx
	err = x.hold(ctx, func() error {
		if err := x.readyKey(ctx, key); err != nil {
			return err
		}
		if row, ok = x.currentRow(key); ok {
			return nil
		}
		if err := x.certain(); err != nil {
			return err
		}
		if row, ok = x.currentRow(key); ok { // it was restored
			return nil
		}
		created = true
		row, err = a.create(key, header)
		return err
	})
	if err != nil {
		return driver.Row{}, false, err
	}
	return row, created, nil
}

// Create implements [driver.Driver].
func (d *Driver) Create(ctx context.Context, agent, key string, header func(int64) (driver.Row, driver.Line)) (row driver.Row, err error) {
	if err := d.enter(ctx); err != nil {
		return row, err
	}
	defer d.ops.Done()
	if err := driver.CheckKey(key); err != nil {
		return row, err
	}
	a, err := d.writable(ctx, agent, header)
	if err != nil {
		return row, err
	}
	err = a.idx.hold(ctx, func() error {
		if err := a.idx.readyKey(ctx, key); err != nil {
			return err
		}
		row, err = a.create(key, header)
		return err
	})
	if err != nil {
		return driver.Row{}, err
	}
	return row, nil
}

// writable returns an agent's folder for a session to be made in. The folder is
// not made for a session that cannot be.
func (d *Driver) writable(ctx context.Context, name string, header func(int64) (driver.Row, driver.Line)) (*agent, error) {
	if err := driver.CheckAgent(name); err != nil {
		return nil, err
	}
	if d.opts.ReadOnly {
		return nil, &filelog.Error{
			Op: "create session", Path: filepath.Join(d.dir, "agents", EncodeName(name)),
			Err: filelog.ErrReadOnly, Fix: "open the store without ReadOnly",
		}
	}
	a, err := d.agent(name, false)
	if !errors.Is(err, fs.ErrNotExist) {
		return a, err
	}
	row, _ := header(1)
	if err := driver.CheckRef(driver.Ref{Agent: name, ID: row.ID}); err != nil {
		return nil, err
	}
	return d.agent(name, true)
}

// create makes a transcript. The caller holds the lock of the index, which is
// up to date. A busy line comes first, then the file gets its name, then the
// index its row: the next writer finishes or discards what a kill left.
func (a *agent) create(key string, header func(int64) (driver.Row, driver.Line)) (driver.Row, error) {
	x := a.idx
	_, highest := x.current(key)
	row, line := header(highest + 1)
	row.Agent, row.Key, row.Gen = a.name, key, highest+1
	ref := row.Ref()
	if err := driver.CheckRef(ref); err != nil {
		return driver.Row{}, err
	}
	row.Labels = slices.Clone(row.Labels)
	row.Size = int64(len(line.Data)) + 1
	if x.find(ref.ID) != nil {
		return driver.Row{}, fmt.Errorf("session %s of agent %q: %w: choose another ID or none", ref.ID, ref.Agent, fs.ErrExist)
	}
	if err := x.write(record{By: x.by, Busy: ref.ID}); err != nil {
		return driver.Row{}, err
	}
	l, err := filelog.Create(a.sess, fileName(ref.ID), append(slices.Clip(line.Data), '\n'), a.logOptions(ref))
	if err != nil {
		if !errors.Is(err, fs.ErrExist) { // it may have its name, and only opening it failed
			err = errors.Join(err, a.remove(ref.ID))
		}
		delete(x.busy, ref.ID) // others find no transcript there
		return driver.Row{}, err
	}
	a.d.logs.drop(ref) // of a session that had the ID before
	a.d.identify(ref, l)
	if err := a.d.logs.adopt(ref, l); err != nil {
		return driver.Row{}, err
	}
	x.compared()
	if err := x.write(record{By: x.by, Row: &row}); err != nil {
		a.d.logs.drop(ref)
		delete(x.busy, ref.ID)
		return driver.Row{}, errors.Join(err, a.remove(ref.ID))
	}
	return row, nil
}

// SetCurrent implements [driver.Driver].
func (d *Driver) SetCurrent(ctx context.Context, ref driver.Ref, line func(gen int64) driver.Line) (row driver.Row, err error) {
	if err := d.enter(ctx); err != nil {
		return row, err
	}
	defer d.ops.Done()
	a, err := d.existing(ctx, ref)
	if err != nil {
		return row, err
	}
	o, done, err := d.use(ctx, ref)
	if err != nil {
		return row, err
	}
	x := a.idx
	x.suspect(o)
	err = x.hold(ctx, func() error {
		if err := x.ready(ctx); err != nil {
			return err
		}
		if x.find(ref.ID) == nil {
			x.check(ref.ID)
		}
		e := x.find(ref.ID)
		if e == nil {
			return d.notFound(ref)
		}
		if err := x.readyKey(ctx, e.key); err != nil {
			return err
		}
		cur, highest := x.current(e.key)
		ok := false
		if row, ok = x.row(e); !ok {
			return x.fail("make current", errors.New("its row cannot be read"), "list the sessions and try again")
		}
		if cur == e {
			return nil
		}
		row.Gen = highest + 1
		// The busy line makes others look at the transcript until there is a row.
		if err := x.markBusy(o); err != nil {
			return err
		}
		l := line(row.Gen)
		res, err := func() (driver.Result, error) {
			// Others may read the rows while this waits for the append lock.
			x.mu.Unlock()
			defer x.mu.Lock()
			return d.appendTo(ctx, o, []driver.Line{l}, driver.Cond{})
		}()
		if err != nil {
			return err
		}
		if row.Size == int64(res.Start) {
			row.Size, row.LastID = int64(res.End), l.ID
		} else { // others have appended in between
			x.check(ref.ID)
			if e = x.find(ref.ID); e == nil {
				return d.notFound(ref) // somebody has removed it by hand
			}
			if known, ok := x.row(e); ok {
				known.Gen = max(known.Gen, row.Gen)
				row = known
			}
		}
		return x.putRow(row, row.Size)
	})
	if err = done(err); err != nil {
		return driver.Row{}, err
	}
	return row, nil
}

// Delete implements [driver.Driver].
func (d *Driver) Delete(ctx context.Context, refs ...driver.Ref) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.ops.Done()
	var errs []error
	of := map[*agent][]string{}
	var agents []*agent
	for _, ref := range refs {
		a, err := d.existing(ctx, ref)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if of[a] == nil {
			agents = append(agents, a)
		}
		of[a] = append(of[a], ref.ID)
	}
	for _, a := range agents {
		errs = append(errs, a.idx.hold(ctx, func() error {
			var there []string
			for _, id := range of[a] {
				if _, err := a.sess.Lstat(fileName(id)); err != nil {
					errs = append(errs, d.notFound(driver.Ref{Agent: a.name, ID: id}))
					continue
				}
				there = append(there, id)
			}
			if len(there) == 0 {
				return nil
			}
			return a.idx.delete(there)
		}))
	}
	return errors.Join(errs...)
}

// Get implements [driver.Driver]. A row that the index knows is returned as it
// is, though others may have appended since; a transcript that the index does
// not know gives the row of its header.
func (d *Driver) Get(ctx context.Context, ref driver.Ref) (driver.Row, error) {
	if err := d.enter(ctx); err != nil {
		return driver.Row{}, err
	}
	defer d.ops.Done()
	a, err := d.existing(ctx, ref)
	if err != nil {
		return driver.Row{}, err
	}
	x := a.idx
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(); err != nil {
		return driver.Row{}, err
	}
	f, err := a.stat(ref.ID)
	if errors.Is(err, fs.ErrNotExist) || x.deletes[ref.ID] {
		return driver.Row{}, d.notFound(ref)
	}
	if err != nil {
		return driver.Row{}, err
	}
	if e := x.find(ref.ID); e != nil && e.size > 0 && e.size <= f.size {
		if row, ok := x.row(e); ok {
			return row, nil
		}
	}
	row, err := a.headerRow(f)
	if errors.Is(err, errNoHeader) {
		x.look(f)
		if e := x.find(ref.ID); e != nil { // its lines can be read
			row, _ = x.row(e)
			return row, nil
		}
		return driver.Row{}, a.spoilt("find session "+ref.ID, f, err, "restore it from a copy, move it away or delete session "+ref.ID)
	}
	return row, err
}

// Put implements [driver.Driver].
func (d *Driver) Put(ctx context.Context, row driver.Row) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.ops.Done()
	a, err := d.existing(ctx, row.Ref())
	if err != nil {
		return err
	}
	row.Labels = slices.Clone(row.Labels)
	return a.idx.put(ctx, row)
}

// listTries is how often List looks again at a page of which a row had changed
// without a busy line: somebody has changed or removed a transcript by hand.
const listTries = 3

// List implements [driver.Driver].
func (d *Driver) List(ctx context.Context, agent string, after driver.Place, n int) ([]driver.Row, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.ops.Done()
	if err := driver.CheckAgent(agent); err != nil {
		return nil, err
	}
	a, err := d.agent(agent, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	x := a.idx
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.readyRows(ctx); err != nil {
		return nil, err
	}
	var list []driver.Row
	for range listTries {
		page := x.page(after, n)
		changed := false
		for _, e := range page {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			changed = x.check(e.id) || changed
		}
		list = make([]driver.Row, 0, len(page))
		for _, e := range page {
			if x.find(e.id) != e {
				continue
			}
			row, ok := x.row(e)
			if !ok {
				continue
			}
			cur, _ := x.current(e.key)
			row.Current = cur == e
			list = append(list, row)
		}
		if !changed {
			break
		}
	}
	return list, nil
}
