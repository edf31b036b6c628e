package filedriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Load implements [driver.Driver].
func (d *Driver) Load(ctx context.Context, key driver.KeyRef, header func(int64) (driver.Row, driver.Line)) (row driver.Row, err error) {
	found := false
	err = d.onKey(ctx, key, func() error {
		if row, found, err = d.current(ctx, key); found || err != nil {
			return err
		}
		if header == nil {
			return fmt.Errorf("key %q has no session: %w", key.Key, fs.ErrNotExist)
		}
		a, err := d.writable(key.Agent, header)
		if err != nil {
			return err
		}
		return a.idx.hold(ctx, func() error {
			if row, found = a.idx.currentRow(ownedKeyOf(key)); !found {
				err = a.idx.certain(ctx)
				row, found = a.idx.currentRow(ownedKeyOf(key)) // certain may have seen that it was restored
			}
			if !found && err == nil {
				row, err = a.create(key, header, nil)
			}
			return err
		})
	})
	return row, err
}

// Create implements [driver.Driver].
func (d *Driver) Create(ctx context.Context, key driver.KeyRef, header func(int64) (driver.Row, driver.Line), more ...driver.Line) (row driver.Row, err error) {
	err = d.onKey(ctx, key, func() error {
		a, err := d.writable(key.Agent, header)
		if err != nil {
			return err
		}
		return a.idx.hold(ctx, func() error {
			row, err = a.create(key, header, more)
			return err
		})
	})
	return row, err
}

// onKey calls f for a call on a key.
func (d *Driver) onKey(ctx context.Context, key driver.KeyRef, f func() error) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.ops.Done()
	if err := driver.CheckKey(key); err != nil {
		return err
	}
	return f()
}

// writable returns an agent's folder for a session to be made in. The folder is
// not made for a session that cannot be.
func (d *Driver) writable(name string, header func(int64) (driver.Row, driver.Line)) (*agent, error) {
	if d.opts.ReadOnly {
		return nil, d.readOnly("create session", filepath.Join(d.dir, "agents", EncodeName(name)))
	}
	a, err := d.listable(name)
	if a != nil || err != nil {
		return a, err
	}
	row, _ := header(1)
	if err := driver.CheckRef(driver.Ref{Agent: name, ID: row.ID}); err != nil {
		return nil, err
	}
	folder := "agents/" + EncodeName(name)
	for _, dir := range []string{folder, folder + "/sessions"} {
		if err := d.folder(dir, true); err != nil {
			return nil, err
		}
	}
	if a, err = d.agent(name); errors.Is(err, fs.ErrNotExist) {
		a, err = d.agent(name) // a call at the same time had looked before the folder was made
	}
	return a, err
}

// create makes a transcript. The caller holds the lock of the index, which is up to
// date. The index gets a line about the change, then the file its name, then the index
// its row: after a kill the next writer finishes or discards the session.
func (a *agent) create(key driver.KeyRef, header func(int64) (driver.Row, driver.Line), more []driver.Line) (driver.Row, error) {
	x := a.idx
	_, highest := x.current(ownedKeyOf(key))
	gen := highest + 1
	row, line := header(gen)
	switch {
	case row.Aside:
		gen, row.Aside = 0, false
	case row.GivenGen > 0:
		gen, row.GivenGen = row.GivenGen, 0
		if err := x.free(ownedKeyOf(key), gen, row.ID); err != nil {
			return driver.Row{}, err
		}
	}
	row.Agent, row.Owner, row.Key, row.Gen = a.name, key.Owner, key.Key, gen
	ref := row.Ref()
	if err := driver.CheckRef(ref); err != nil {
		return driver.Row{}, err
	}
	data, err := appendLines(nil, append([]driver.Line{line}, more...))
	if err != nil {
		return driver.Row{}, err
	}
	row.Labels = slices.Clone(row.Labels)
	row.Size = int64(len(data))
	if row.BaseRev != nil {
		if err := x.stands(row.Base.Session, *row.BaseRev); err != nil {
			return driver.Row{}, err
		}
		row.BaseRev = nil
	}
	has, err := a.hasArchive(ref.ID)
	if err != nil {
		return driver.Row{}, err
	}
	if has || x.find(ref.ID) != nil {
		return driver.Row{}, fmt.Errorf("session %s of agent %q: %w: choose another ID or none", ref.ID, ref.Agent, fs.ErrExist)
	}
	if x.deletes[ref.ID] { // whoever finishes that would delete this one
		return driver.Row{}, fmt.Errorf("session %s of agent %q: %w: one with this ID is deleted, and its files could not all be removed: delete it again, which reports the reason, or choose another ID or none", ref.ID, ref.Agent, fs.ErrExist)
	}
	if a.d.opts.Sync != driver.SyncNever {
		if err := a.syncFolders(); err != nil {
			return driver.Row{}, err
		}
	}
	if err := x.change(ref.ID); err != nil {
		return driver.Row{}, err
	}
	l, err := filelog.Create(a.sess, fileName(ref.ID), data, a.logOptions(ref))
	if err != nil {
		return driver.Row{}, err
	}
	a.d.logs.drop(ref) // of a session that had the ID before
	a.d.remember(ref, l)
	_ = l.Close() // it owes nothing
	x.compared()
	x.putLate(row)
	return row, nil
}

// stands returns an error if the rev of a session differs. The caller holds the lock of
// the index.
func (x *index) stands(id string, rev int) error {
	f, err := x.stat(id)
	var h transcript.Header
	if err == nil {
		_, h, err = x.a.header(f)
	}
	if errors.Is(err, fs.ErrNotExist) || err == nil && h.Rev != rev {
		return driver.ErrReplaced
	}
	return err
}
