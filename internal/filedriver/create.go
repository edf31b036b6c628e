package filedriver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/filename"
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
				row, found = a.idx.currentRow(ownedKeyOf(key)) // certain may have found it restored
			}
			if !found && err == nil {
				err = a.idx.missingOf(ctx, ownedKeyOf(key))
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

// writable returns an agent's folder for a new session. It makes no folder for
// a session that cannot be made.
func (d *Driver) writable(name string, header func(int64) (driver.Row, driver.Line)) (*agent, error) {
	if d.opts.ReadOnly {
		return nil, d.readOnly("create session", filepath.Join(d.dir, "agents", filename.Encode(name)))
	}
	a, err := d.listable(name)
	if a != nil || err != nil {
		return a, err
	}
	row, _ := header(1)
	if err := driver.CheckRef(driver.Ref{Agent: name, ID: row.ID}); err != nil {
		return nil, err
	}
	folder := "agents/" + filename.Encode(name)
	for _, dir := range []string{folder, folder + "/sessions"} {
		if err := d.folder(dir, true); err != nil {
			return nil, err
		}
	}
	if a, err = d.agent(name); errors.Is(err, fs.ErrNotExist) {
		a, err = d.agent(name) // a concurrent call had looked before the folder was made
	}
	return a, err
}

// create makes a transcript. The caller holds the lock of the index, which is up to
// date. It writes a change line in the index, then the file, then the row in the
// index: after a kill the next writer finishes or discards the session.
func (a *agent) create(key driver.KeyRef, header func(int64) (driver.Row, driver.Line), more []driver.Line) (driver.Row, error) {
	x := a.idx
	gen := x.nextGen(ownedKeyOf(key))
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
	if x.deletes[ref.ID] { // to finish that would delete this one
		return driver.Row{}, fmt.Errorf("session %s of agent %q: %w: a session with this ID was deleted, but not all its files: delete it again, which reports the reason, or choose another ID or none", ref.ID, ref.Agent, fs.ErrExist)
	}
	if a.d.opts.Sync != filelog.SyncNever {
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
	a.d.logs.drop(ref)                                      // of an earlier session with this ID
	m, _ := markOf(bytes.NewReader(data), int64(len(data))) // never fails
	a.d.setMark(ref, m)
	_ = l.Close() // all is synced
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
	if row, ok = a.idx.currentRow(ownedKeyOf(key)); ok {
		_ = a.idx.missingOf(ctx, ownedKeyOf(key)) // an older one has taken its place
	}
	return row, ok, nil
}

// currentRow returns the row of the current session of a key. The caller holds
// x.mu, and the index is up to date.
func (x *index) currentRow(key ownedKey) (driver.Row, bool) {
	for {
		e := x.current(key)
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

// A Missing event reports that Load did not find the transcript of a session in the
// index that is newer than the others of its key.
type Missing struct{ Err error }

// missingOf returns an error if the newest session of a key is missing: a new session in
// its place would hide the loss. It reports that to the observer. The caller holds x.mu.
func (x *index) missingOf(ctx context.Context, key ownedKey) error {
	var newest *entry
	for _, e := range x.ofKey(key) {
		if (newest == nil || e.gen > newest.gen) && (!e.archived || x.missing[e.id] == nil) {
			newest = e
		}
	}
	if newest == nil || x.missing[newest.id] == nil {
		return nil
	}
	ref := driver.Ref{Agent: x.a.name, ID: newest.id}
	err := x.a.d.wrap("load session "+ref.ID, x.a.d.Path(ref), fmt.Errorf("its transcript is missing: %w", fs.ErrNotExist),
		"bring the file back, or delete session "+ref.ID+", or create a session of the key expressly")
	x.a.d.log.Warn("a transcript is missing, and its session was the current one of its key", "agent", x.a.name, "session", ref.ID, "file", x.a.d.Path(ref))
	if x.a.d.opts.Observe != nil {
		x.a.d.opts.Observe(ctx, ref, Missing{err})
	}
	return err
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
	if cur := x.current(e.ownedKey); cur != nil && cur.id == row.ID {
		return row, nil
	}
	if err := x.change(row.ID); err != nil {
		return row, err
	}
	gen := x.nextGen(e.ownedKey)
	l := line(gen)
	x.briefly(ctx, func(ctx context.Context) { _, err = x.a.d.appendTo(ctx, o, []driver.Line{l}, driver.Anywhere, nil) })
	failed, inDoubt := errors.AsType[*driver.NotDurableError](err)
	if e := x.find(o.ref.ID); e != nil && (err == nil || inDoubt && !failed.Refused) {
		e.gen = max(e.gen, gen) // even if the row fails: others read the line, and a gen is used once
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

// ofKey returns the sessions of a key, missing ones as well: their files may come back.
// The caller holds the lock of the index.
func (x *index) ofKey(key ownedKey) (all []*entry) {
	for e := x.byKey[key]; e != nil; e = e.next {
		all = append(all, e)
	}
	for _, e := range x.missing {
		if e.ownedKey == key {
			all = append(all, e)
		}
	}
	return all
}

// nextGen is the gen that makes a session of the key current.
func (x *index) nextGen(key ownedKey) (gen int64) {
	for _, e := range x.ofKey(key) {
		gen = max(gen, e.gen)
	}
	return gen + 1
}

// free returns an error if a session of the key with another ID uses a gen.
func (x *index) free(key ownedKey, gen int64, id string) error {
	for _, e := range x.ofKey(key) {
		if e.gen == gen && e.id != id {
			return fmt.Errorf("session %s of agent %q: session %s of the key also has gen %d: delete that session, or copy into another store; nothing was written: %w", id, x.a.name, e.id, gen, fs.ErrExist)
		}
	}
	return nil
}
