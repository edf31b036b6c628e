package filedriver

import (
	"context"
	"errors"
	"slices"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

var _ driver.Archiver = (*Driver)(nil)

// Archive implements [driver.Archiver]. The archive is on stable storage, was read
// back and compared before the transcript is removed, under every policy. It needs
// room for the archive, and for the transcript as well if a sync of it has failed:
// the archive is made of the copy that cures it. A large transcript is compressed
// before the index is locked, so that no other call waits for that, and again if it
// has changed.
func (d *Driver) Archive(ctx context.Context, ref driver.Ref, check func(driver.Row) error) error {
	return d.on(ctx, ref, func(a *agent) error {
		release, alone, err := a.idx.takeTurn(ref.ID)
		if err != nil {
			return err
		}
		defer release()
		var p *packed
		if f, err := a.stat(ref.ID); err == nil && f.size > packedInside && alone {
			if p, err = a.idx.packAhead(ctx, ref, check); err != nil {
				return err
			}
			defer p.Discard()
		}
		return a.idx.hold(ctx, func() error { return a.idx.archive(ctx, ref, check, p) })
	})
}

// packedInside is the size up to which a transcript is compressed under the lock of
// the index.
const packedInside = 1 << 20

// Restore implements [driver.Archiver]. The transcript is on stable storage, was
// read back and compared before the archive is removed.
func (d *Driver) Restore(ctx context.Context, ref driver.Ref) error {
	return d.on(ctx, ref, func(a *agent) error {
		return a.idx.hold(ctx, func() error { return a.idx.restore(ref) })
	})
}

// DeleteIf implements [driver.Archiver]. It holds the turn lock and the append lock
// of every session that check allows until all of them are deleted. Like Delete it
// copies nothing, even after a failed sync.
func (d *Driver) DeleteIf(ctx context.Context, refs []driver.Ref, check func(driver.Row) error) []error {
	if err := d.enter(ctx); err != nil {
		return slices.Repeat([]error{err}, len(refs))
	}
	defer d.ops.Done()
	errs := make(map[driver.Ref]error, len(refs))
	of := map[*agent][]driver.Ref{}
	for _, ref := range refs {
		if _, doubled := errs[ref]; doubled {
			continue
		}
		a, err := d.existing(ref)
		if errs[ref] = err; err == nil {
			of[a] = append(of[a], ref)
		}
	}
	for a, refs := range of {
		if err := a.idx.hold(ctx, func() error { a.idx.deleteIf(ctx, refs, check, errs); return nil }); err != nil {
			for _, ref := range refs {
				errs[ref] = err
			}
		}
	}
	all := make([]error, len(refs))
	for i, ref := range refs {
		all[i] = errs[ref]
	}
	return all
}

// at announces a step, so that a test can come between.
func (d *Driver) at(step string) {
	if d.step != nil {
		d.step(step)
	}
}

// archive is [Driver.Archive]. A busy line makes every reader look at the files of
// the session until its row is there; while there is a transcript, the archive does
// not count. So a kill between two steps leaves the session unchanged, or archived.
// p is the archive packed ahead, or nil. It is used if the transcript is unchanged
// since.
func (x *index) archive(ctx context.Context, ref driver.Ref, check func(driver.Row) error, p *packed) error {
	if f, err := x.a.stat(ref.ID); err == nil && f.archived {
		return nil
	}
	s, err := x.still(ctx, ref, check, (*filelog.Log).Hold)
	if err != nil {
		return err
	}
	defer s.release()
	beside, err := x.a.hasArchive(ref.ID)
	if beside { // else it would remove the archive packed ahead
		err = x.a.removeBeside(ref.ID)
	}
	if err != nil {
		return err
	}
	x.a.d.at("archive: busy line")
	if err := x.change(ref.ID); err != nil {
		return err
	}
	if !p.holds(s.log.log, s.row) {
		if p != nil {
			p.Discard() // for the room that it takes
		}
		if p, err = x.a.newPacked(ref.ID); err == nil {
			defer p.Discard()
			err = x.a.pack(p, s.log.log, s.row)
		}
	}
	if err == nil {
		x.a.d.at("archive: rename")
		err = p.Install()
	}
	if err == nil {
		x.a.d.at("archive: remove transcript")
		err = x.a.sess.Remove(fileName(ref.ID))
		if f, statErr := x.a.stat(ref.ID); statErr == nil && f.archived {
			err = nil // it has left the folder, despite the error
		}
	}
	if err != nil {
		_ = x.a.removeBeside(ref.ID) // it does not count
		_ = x.putRow(s.row)
		return x.a.notArchived(ref, err)
	}
	x.a.d.at("archive: sync folder")
	x.a.d.logs.drop(ref)
	err = errors.Join(filelog.RemoveTemps(x.a.sess, fileName(ref.ID)), filelog.SyncDir(x.a.sess, "."))
	x.compared()
	x.a.d.at("archive: row")
	s.row.Archived = true
	if rowErr := x.putRow(s.row); rowErr != nil {
		x.a.d.log.Warn("the row of an archived session was not written; readers look at its files", "folder", x.a.dir, "session", ref.ID, "err", rowErr)
	}
	return err
}

// notArchived returns the error of an archive that changed nothing, nil if err is nil.
func (a *agent) notArchived(ref driver.Ref, err error) error {
	return a.d.wrap("archive session", a.d.Path(ref), err, "the session is as it was; try again when the cause is gone")
}

// packAhead packs a transcript that may be changed, deleted or erased during it. The
// caller holds the turn lock, so that no other process packs it.
func (x *index) packAhead(ctx context.Context, ref driver.Ref, check func(driver.Row) error) (p *packed, err error) {
	var row driver.Row
	var o *openLog
	err = x.hold(ctx, func() error {
		s, err := x.still(ctx, ref, check, (*filelog.Log).Hold)
		if err != nil {
			return err
		}
		defer s.release()
		if o, err = x.a.acquire(ref); err != nil {
			return err
		}
		row = s.row
		p, err = x.a.newPacked(ref.ID)
		return err
	})
	if o == nil {
		return nil, err
	}
	if err == nil {
		if err = x.a.notArchived(ref, x.a.pack(p, o.log, row)); err != nil {
			p.Discard()
		}
		x.a.d.at("archive: packed ahead")
	}
	return p, x.a.cause(ref, x.a.d.logs.release(o, err))
}

// restore is [Driver.Restore].
func (x *index) restore(ref driver.Ref) error {
	f, err := x.stat(ref.ID)
	if err != nil {
		return err
	}
	if !f.archived {
		return x.a.removeBeside(ref.ID) // leftovers of a killed process
	}
	x.a.d.at("restore: busy line")
	if err := x.change(ref.ID); err != nil {
		return err
	}
	if err = x.a.syncFolders(); err == nil {
		err = x.a.unpack(f)
	}
	if err != nil {
		return x.a.d.wrap("restore session", x.a.path(f), err, "the session is archived as before; try again when the cause is gone")
	}
	x.a.d.at("restore: remove archive")
	if err := x.a.removeArchive(ref.ID); err != nil {
		x.a.d.log.Warn("an archive that is of no use any more could not be removed", "folder", x.a.dir, "session", ref.ID, "err", err)
	}
	x.compared()
	x.a.d.at("restore: row")
	if err := x.putChecked(ref); err != nil {
		x.a.d.log.Warn("the row of a restored session was not written; readers look at its transcript", "folder", x.a.dir, "session", ref.ID, "err", err)
	}
	return nil
}

// deleteIf is [Driver.DeleteIf] of refs of one agent, whose errors it sets.
func (x *index) deleteIf(ctx context.Context, refs []driver.Ref, check func(driver.Row) error, errs map[driver.Ref]error) {
	var ids []string
	for _, ref := range refs {
		release, _, err := x.takeTurn(ref.ID)
		if errs[ref] = err; err != nil {
			continue
		}
		defer release()
		s, err := x.still(ctx, ref, check, (*filelog.Log).Lock)
		if errs[ref] = err; err != nil {
			continue
		}
		defer s.release()
		ids = append(ids, ref.ID)
	}
	if len(ids) == 0 {
		return
	}
	err := x.delete(ids, x.a.unlink)
	for _, id := range ids {
		errs[driver.Ref{Agent: x.a.name, ID: id}] = err
	}
}

// takeTurn takes the turn lock of a session if it is free. Without turn locks it
// reports that the caller may not be alone.
func (x *index) takeTurn(id string) (release func(), alone bool, err error) {
	if x.lock == nil {
		return nil, false, x.fail("write index", driver.ErrReadOnly, "open the store without ReadOnly")
	}
	off := turnByte(id)
	switch err := x.lock.TryLock(off); {
	case err == nil:
		return func() { _ = x.lock.Unlock(off) }, true, nil // a lock that stays ends with the process
	case errors.Is(err, errors.ErrUnsupported):
		return func() {}, false, nil
	default:
		return nil, false, lockError(err)
	}
}

// A still is a session in which nothing can change: its append lock is held.
type still struct {
	log     *openLog // nil if it is archived
	row     driver.Row
	release func()
}

// still keeps a session as it is until release is called, and asks check about it.
// Lock takes its append lock. The caller holds the turn lock and the lock of the index.
func (x *index) still(ctx context.Context, ref driver.Ref, check func(driver.Row) error, lock func(*filelog.Log, context.Context) (func(), error)) (_ *still, err error) {
	s := &still{release: func() {}}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	f, err := x.stat(ref.ID)
	if err != nil {
		return nil, err
	}
	if !f.archived {
		o, err := x.a.acquire(ref)
		if err != nil {
			return nil, err
		}
		short, cancel := context.WithTimeout(ctx, 20*busyWait)
		var held func()
		x.aside(func() { held, err = lock(o.log, short) })
		cancel()
		if err != nil {
			return nil, x.a.cause(ref, x.a.d.logs.release(o, err))
		}
		s.log, s.release = o, func() {
			x.held = ""
			held()
			_ = x.a.d.logs.release(o, nil) // nil stays nil
		}
		x.held = f.id
		if f.size, err = s.log.log.Size(); err != nil {
			return nil, err
		}
	}
	if s.row, err = x.stillRow(ctx, f); err == nil && check != nil {
		err = check(s.row)
	}
	return s, err
}

// stillRow returns the row of a session that is kept still, which must be about all
// of it.
func (x *index) stillRow(ctx context.Context, f found) (row driver.Row, err error) {
	x.check(f.id)
	e := x.find(f.id)
	if e == nil || e.key == "" || e.archived != f.archived || !f.archived && e.size != f.size {
		return row, x.a.spoilt("look at session "+f.id, f, errors.New("it cannot be understood"), "inspect it, and restore it from a copy or delete session "+f.id)
	}
	if err := x.ready(ctx); err != nil {
		return row, err
	}
	if row, err = x.checked(driver.Ref{Agent: x.a.name, ID: f.id}); err != nil {
		return row, err
	}
	cur, _ := x.current(ownedKeyOf(row.KeyRef()))
	row.Current = cur != nil && cur.id == f.id
	return row, nil
}
