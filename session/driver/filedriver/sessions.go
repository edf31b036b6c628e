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

// Current implements [driver.Driver].
func (d *Driver) Current(ctx context.Context, agent, key string) (driver.Row, error) {
	end, err := d.begin(ctx)
	if err != nil {
		return driver.Row{}, err
	}
	defer end()
	row, ok, err := d.current(ctx, agent, key)
	if err == nil && !ok {
		err = fmt.Errorf("key %q has no session: %w", key, fs.ErrNotExist)
	}
	return row, err
}

func (d *Driver) current(ctx context.Context, agent, key string) (driver.Row, bool, error) {
	a, err := d.agent(ctx, agent, false)
	if errors.Is(err, fs.ErrNotExist) {
		return driver.Row{}, false, nil
	}
	if err != nil {
		return driver.Row{}, false, err
	}
	a.idx.mu.Lock()
	defer a.idx.mu.Unlock()
	if err := a.idx.ready(ctx); err != nil {
		return driver.Row{}, false, err
	}
	row, _, ok := a.idx.current(key)
	return row, ok, nil
}

// LoadOrCreate implements [driver.Driver].
func (d *Driver) LoadOrCreate(ctx context.Context, agent, key string, header func(int64) (driver.Row, driver.Line)) (row driver.Row, created bool, err error) {
	end, err := d.begin(ctx)
	if err != nil {
		return row, false, err
	}
	defer end()
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
	err = a.idx.hold(ctx, func(h *filelog.Held) error {
		if row, _, ok = a.idx.current(key); ok {
			return nil
		}
		if err := a.idx.certain(); err != nil {
			return err
		}
		var highest int64
		if row, highest, ok = a.idx.current(key); ok { // it was restored
			return nil
		}
		created = true
		row, err = a.create(h, key, highest+1, header)
		return err
	})
	if err != nil {
		return driver.Row{}, false, err
	}
	return row, created, nil
}

// Create implements [driver.Driver].
func (d *Driver) Create(ctx context.Context, agent, key string, header func(int64) (driver.Row, driver.Line)) (row driver.Row, err error) {
	end, err := d.begin(ctx)
	if err != nil {
		return row, err
	}
	defer end()
	if err := driver.CheckKey(key); err != nil {
		return row, err
	}
	a, err := d.writable(ctx, agent, header)
	if err != nil {
		return row, err
	}
	err = a.idx.hold(ctx, func(h *filelog.Held) error {
		_, highest, _ := a.idx.current(key)
		row, err = a.create(h, key, highest+1, header)
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
	a, err := d.agent(ctx, name, false)
	if !errors.Is(err, fs.ErrNotExist) {
		return a, err
	}
	row, _ := header(1)
	if err := driver.CheckRef(driver.Ref{Agent: name, ID: row.ID}); err != nil {
		return nil, err
	}
	return d.agent(ctx, name, true)
}

// create makes a transcript. The caller holds the index. First the intent is
// written, then the file gets its name, then the index its row: whoever holds
// the index next finishes or discards what a kill left.
func (a *agent) create(h *filelog.Held, key string, gen int64, header func(int64) (driver.Row, driver.Line)) (driver.Row, error) {
	row, line := header(gen)
	row.Agent, row.Key, row.Gen = a.name, key, gen
	ref := row.Ref()
	if err := driver.CheckRef(ref); err != nil {
		return driver.Row{}, err
	}
	row.Labels = slices.Clone(row.Labels)
	row.Size = int64(len(line.Data)) + 1
	if a.idx.rows.has(ref.ID) {
		return driver.Row{}, fmt.Errorf("session %s of agent %q: %w: choose another ID or none", ref.ID, ref.Agent, fs.ErrExist)
	}
	if a.idx.deleted[ref.ID] { // by a process that died before it removed the file
		if err := a.idx.removeFile(ref.ID); err != nil {
			return driver.Row{}, err
		}
	}
	if err := a.idx.write(h, change{Intent: &row}); err != nil {
		return driver.Row{}, err
	}
	l, err := filelog.Create(a.sess, fileName(ref.ID), append(slices.Clip(line.Data), '\n'), a.logOptions(ref))
	if err != nil {
		if !errors.Is(err, fs.ErrExist) { // it may have its name, and only opening it failed
			err = errors.Join(err, a.idx.removeFile(ref.ID))
		}
		return driver.Row{}, errors.Join(err, a.idx.write(h, change{Abort: ref.ID}))
	}
	a.d.logs.drop(ref) // of a session that had the ID before
	a.d.identify(ref, l)
	if err := a.d.logs.adopt(ref, l); err != nil {
		return driver.Row{}, err
	}
	if err := a.idx.write(h, change{Put: &row}); err != nil {
		a.d.logs.drop(ref)
		return driver.Row{}, errors.Join(err, a.idx.removeFile(ref.ID))
	}
	return row, a.sync(h)
}

// sync makes the journal durable, if the store is.
func (a *agent) sync(h *filelog.Held) error {
	if a.d.opts.Sync == filelog.SyncNever {
		return nil
	}
	return h.Sync()
}

// SetCurrent implements [driver.Driver].
func (d *Driver) SetCurrent(ctx context.Context, ref driver.Ref, line func(gen int64) driver.Line) (row driver.Row, err error) {
	end, err := d.begin(ctx)
	if err != nil {
		return row, err
	}
	defer end()
	if err := driver.CheckRef(ref); err != nil {
		return row, err
	}
	a, err := d.agent(ctx, ref.Agent, false)
	if err != nil {
		return row, err
	}
	err = a.idx.hold(ctx, func(h *filelog.Held) error {
		a.idx.check(ref.ID)
		old, ok := a.idx.rows.get(ref.ID)
		if !ok {
			return d.notFound(ref)
		}
		cur, highest, _ := a.idx.current(old.Key)
		if row = old; cur.ID == ref.ID {
			return nil
		}
		row.Gen = highest + 1
		// Until there is a row that says so, others look at the transcript.
		if err := a.idx.write(h, change{Intent: &row}); err != nil {
			return err
		}
		l := line(row.Gen)
		res, err := func() (driver.Result, error) {
			// Others may read the rows while this waits for the session's lock.
			a.idx.mu.Unlock()
			defer a.idx.mu.Lock()
			return d.append(ctx, ref, []driver.Line{l}, driver.Cond{})
		}()
		if err != nil {
			return err
		}
		if now, ok := a.idx.rows.get(ref.ID); ok {
			now.Gen = row.Gen
			row = now
		}
		if row.Size == int64(res.Start) {
			row.Size, row.LastID = int64(res.End), l.ID
		}
		if err := a.idx.write(h, change{Put: &row}); err != nil {
			return err
		}
		return a.sync(h)
	})
	if err != nil {
		return driver.Row{}, err
	}
	return row, nil
}

// Delete implements [driver.Driver].
func (d *Driver) Delete(ctx context.Context, refs ...driver.Ref) error {
	var errs []error
	for _, ref := range refs {
		errs = append(errs, d.delete(ctx, ref))
	}
	return errors.Join(errs...)
}

func (d *Driver) delete(ctx context.Context, ref driver.Ref) error {
	end, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := driver.CheckRef(ref); err != nil {
		return err
	}
	a, err := d.agent(ctx, ref.Agent, false)
	if errors.Is(err, fs.ErrNotExist) {
		return d.notFound(ref)
	}
	if err != nil {
		return err
	}
	return a.idx.hold(ctx, func(h *filelog.Held) error {
		if !a.idx.rows.has(ref.ID) {
			if _, err := a.sess.Lstat(fileName(ref.ID)); err != nil {
				return d.notFound(ref)
			}
		}
		if err := a.idx.write(h, change{Delete: ref.ID}); err != nil {
			return err
		}
		if err := a.sync(h); err != nil {
			return err
		}
		d.logs.drop(ref)
		return a.idx.removeFile(ref.ID)
	})
}

// Get implements [driver.Driver].
func (d *Driver) Get(ctx context.Context, ref driver.Ref) (driver.Row, error) {
	end, err := d.begin(ctx)
	if err != nil {
		return driver.Row{}, err
	}
	defer end()
	if err := driver.CheckRef(ref); err != nil {
		return driver.Row{}, err
	}
	a, err := d.agent(ctx, ref.Agent, false)
	if errors.Is(err, fs.ErrNotExist) {
		return driver.Row{}, d.notFound(ref)
	}
	if err != nil {
		return driver.Row{}, err
	}
	a.idx.mu.Lock()
	defer a.idx.mu.Unlock()
	if row, ok := a.idx.one(ref); ok {
		return row, nil
	}
	if err := a.idx.ready(ctx); err != nil {
		return driver.Row{}, err
	}
	return a.idx.find(ref)
}

// Put implements [driver.Driver].
func (d *Driver) Put(ctx context.Context, row driver.Row) error {
	end, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	ref := row.Ref()
	if err := driver.CheckRef(ref); err != nil {
		return err
	}
	a, err := d.agent(ctx, ref.Agent, false)
	if errors.Is(err, fs.ErrNotExist) {
		return d.notFound(ref)
	}
	if err != nil {
		return err
	}
	row.Labels = slices.Clone(row.Labels)
	return a.idx.put(ctx, &row)
}

// List implements [driver.Driver].
func (d *Driver) List(ctx context.Context, agent string, after driver.Place, n int) (list []driver.Row, err error) {
	err = d.look(ctx, agent, true, func(x *index) {
		for row := range x.rows.all() {
			if after == (driver.Place{}) || after.Compare(row.Place()) < 0 {
				list = append(list, row)
			}
		}
		slices.SortFunc(list, func(a, b driver.Row) int { return a.Place().Compare(b.Place()) })
		if n > 0 {
			list = list[:min(n, len(list))]
		}
		for i := range list {
			cur, _, ok := x.current(list[i].Key)
			list[i].Current = ok && cur.ID == list[i].ID
		}
	})
	return list, err
}

// look calls f with the index of an agent, if there is one, brought up to date;
// if all is set, with no row taken on trust.
func (d *Driver) look(ctx context.Context, agent string, all bool, f func(x *index)) error {
	end, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	a, err := d.agent(ctx, agent, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	a.idx.mu.Lock()
	defer a.idx.mu.Unlock()
	a.idx.lost = a.idx.lost || all && a.idx.trusted
	if err := a.idx.ready(ctx); err != nil {
		return err
	}
	f(a.idx)
	return nil
}
