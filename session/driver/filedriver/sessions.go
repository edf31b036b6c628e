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

// current returns the row of the current session of a key. The caller holds
// x.mu.
func (x *index) current(key string) (cur driver.Row, highest int64, ok bool) {
	for _, row := range x.rows {
		if row.Key != key {
			continue
		}
		highest = max(highest, row.Gen)
		if !ok || row.Newer(cur) {
			cur, ok = row, true
		}
	}
	return cur, highest, ok
}

// Current implements [driver.Driver].
func (d *Driver) Current(ctx context.Context, agent, key string) (driver.Row, error) {
	end, err := d.begin(ctx)
	if err != nil {
		return driver.Row{}, err
	}
	defer end()
	row, ok, err := d.current(agent, key)
	if err == nil && !ok {
		err = fmt.Errorf("key %q has no session: %w", key, fs.ErrNotExist)
	}
	return row, err
}

func (d *Driver) current(agent, key string) (driver.Row, bool, error) {
	a, err := d.agent(agent, false)
	if errors.Is(err, fs.ErrNotExist) {
		return driver.Row{}, false, nil
	}
	if err != nil {
		return driver.Row{}, false, err
	}
	a.idx.mu.Lock()
	defer a.idx.mu.Unlock()
	if err := a.idx.ready(); err != nil {
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
	row, ok, err := d.current(agent, key)
	if ok || err != nil {
		return row, false, err
	}
	a, err := d.writable(agent)
	if err != nil {
		return row, false, err
	}
	err = a.idx.hold(ctx, func(h *filelog.Held) error {
		var highest int64
		if row, highest, ok = a.idx.current(key); ok {
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
	a, err := d.writable(agent)
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

func (d *Driver) writable(name string) (*agent, error) {
	if err := driver.CheckAgent(name); err != nil {
		return nil, err
	}
	if d.opts.ReadOnly {
		return nil, &filelog.Error{
			Op: "create session", Path: filepath.Join(d.dir, "agents", EncodeName(name)),
			Err: filelog.ErrReadOnly, Fix: "open the store without ReadOnly",
		}
	}
	return d.agent(name, true)
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
	row.File, row.Size = fileName(ref.ID), int64(len(line.Data))+1
	if _, ok := a.idx.rows[ref.ID]; ok {
		return driver.Row{}, fmt.Errorf("session %s of agent %q: %w: choose another ID or none", ref.ID, ref.Agent, fs.ErrExist)
	}
	if err := a.idx.write(h, change{Intent: &row}); err != nil {
		return driver.Row{}, err
	}
	l, err := filelog.Create(a.sess, row.File, append(slices.Clip(line.Data), '\n'), a.logOptions(ref))
	if err != nil {
		return driver.Row{}, errors.Join(err, a.idx.write(h, change{Abort: ref.ID}))
	}
	if err := a.d.logs.adopt(ref, l); err != nil {
		return driver.Row{}, err
	}
	if err := a.idx.write(h, change{Put: &row}); err != nil {
		return driver.Row{}, errors.Join(err, a.d.logs.drop(ref), a.idx.removeFile(ref.ID))
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
	a, err := d.agent(ref.Agent, false)
	if err != nil {
		return row, err
	}
	err = a.idx.hold(ctx, func(h *filelog.Held) error {
		old, ok := a.idx.rows[ref.ID]
		if !ok {
			return d.notFound(ref)
		}
		cur, highest, _ := a.idx.current(old.Key)
		if row = old; cur.ID == ref.ID {
			return nil
		}
		row.Gen = highest + 1
		if _, err := d.append(ctx, ref, []driver.Line{line(row.Gen)}, driver.Cond{}); err != nil {
			return err
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
func (d *Driver) Delete(ctx context.Context, ref driver.Ref) error {
	end, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := driver.CheckRef(ref); err != nil {
		return err
	}
	a, err := d.agent(ref.Agent, false)
	if errors.Is(err, fs.ErrNotExist) {
		return d.notFound(ref)
	}
	if err != nil {
		return err
	}
	return a.idx.hold(ctx, func(h *filelog.Held) error {
		if _, ok := a.idx.rows[ref.ID]; !ok {
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
		return errors.Join(d.logs.drop(ref), a.idx.removeFile(ref.ID))
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
	a, err := d.agent(ref.Agent, false)
	if errors.Is(err, fs.ErrNotExist) {
		return driver.Row{}, d.notFound(ref)
	}
	if err != nil {
		return driver.Row{}, err
	}
	return a.idx.get(ref)
}

// get returns a row. A transcript that has none, because its index entry was
// lost, is given one.
func (x *index) get(ref driver.Ref) (driver.Row, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.ready(); err != nil {
		return driver.Row{}, err
	}
	if row, ok := x.rows[ref.ID]; ok {
		return row, nil
	}
	if _, err := x.a.sess.Lstat(fileName(ref.ID)); err != nil || x.deleted[ref.ID] {
		return driver.Row{}, x.a.d.notFound(ref)
	}
	row, err := x.a.describe(ref.ID) // says what is wrong, if anything is
	if err != nil {
		return driver.Row{}, err
	}
	x.lost = true
	return row, x.ready()
}

// Put implements [driver.Driver].
func (d *Driver) Put(ctx context.Context, row driver.Row) error {
	end, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	old, err := d.Get(ctx, row.Ref())
	if err != nil {
		return err
	}
	a, err := d.agent(row.Agent, false)
	if err != nil {
		return err
	}
	row.Gen, row.Key, row.File = old.Gen, old.Key, old.File
	return a.idx.put(ctx, row)
}

func (x *index) put(ctx context.Context, row driver.Row) error {
	journal := x.log()
	if journal == nil {
		return x.readOnly()
	}
	_, at, err := journal.Append(ctx, change{Put: &row}.line(), nil)
	if err != nil {
		return err
	}
	x.mu.Lock()
	x.dirty = true
	limit := int64(mergeAbove)
	if x.snapshot != nil {
		limit = max(limit, x.snapshot.Size()/4)
	}
	x.mu.Unlock()
	if at < limit {
		return nil
	}
	// The row is written; that the journal stays long is no error of Put.
	if err := x.hold(ctx, func(h *filelog.Held) error {
		if h.End() < limit {
			return nil
		}
		return x.merge(h)
	}); err != nil {
		x.a.d.log.Warn("the index could not be merged", "folder", x.a.dir, "err", err)
	}
	return nil
}

// List implements [driver.Driver].
func (d *Driver) List(ctx context.Context, agent string) ([]driver.Row, error) {
	end, err := d.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	a, err := d.agent(agent, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	a.idx.mu.Lock()
	defer a.idx.mu.Unlock()
	if err := a.idx.ready(); err != nil {
		return nil, err
	}
	rows := make([]driver.Row, 0, len(a.idx.rows))
	for _, row := range a.idx.rows {
		rows = append(rows, row)
	}
	return rows, nil
}
