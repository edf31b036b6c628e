package filedriver

import (
	"context"
	"errors"
	"fmt"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

// Archive implements [driver.Rewriter]. Under every policy the archive is synced,
// read back and compared before the transcript is removed. Archive needs room for
// the archive, and for another transcript if a sync of it has failed: the archive
// is made from the copy that cures it. Only the turn is locked while the
// transcript is compressed.
func (d *Driver) Archive(ctx context.Context, ref driver.Ref, at driver.Cursor) error {
	return d.on(ctx, ref, func(a *agent) error {
		release, err := a.idx.takeTurn(ref.ID)
		if err != nil {
			return err
		}
		defer release()
		for try := 1; ; try++ {
			if err := a.idx.archive(ctx, ref, at); try == archiveTries || !errors.Is(err, errGrown) {
				return err
			}
		}
	})
}

// archiveTries is how often a transcript that keeps changing is compressed.
const archiveTries = 3

var errGrown = fmt.Errorf("%w: it was changed while it was archived", driver.ErrConflict)

// Restore implements [driver.Rewriter]. The transcript is synced, read back and
// compared before the archive is removed.
func (d *Driver) Restore(ctx context.Context, ref driver.Ref) error {
	return d.on(ctx, ref, func(a *agent) error {
		return a.idx.hold(ctx, func() error { return a.idx.restore(ctx, ref) })
	})
}

// archive is one try of [Driver.Archive]. The caller holds the turn lock. The file is
// made under the lock of the index, so that a deletion or an erase finds it.
func (x *index) archive(ctx context.Context, ref driver.Ref, at driver.Cursor) (err error) {
	var p *packed
	var o *openLog
	defer func() {
		if o != nil {
			err = x.a.cause(ref, x.a.d.logs.release(o, err))
		}
	}()
	err = x.hold(ctx, func() error {
		if f, err := x.stat(ref.ID); err != nil || f.archived {
			return err
		}
		if o, err = x.a.acquire(ref); err != nil {
			return err
		}
		release, err := x.holdLog(ctx, o, (*filelog.Log).Hold) // no earlier sync has failed without a cure
		if err != nil {
			return err
		}
		file, err := x.a.sess.Lstat(fileName(ref.ID)) // every byte is committed
		release()
		if err != nil {
			return err
		}
		row, err := x.rowToArchive(ref, at)
		if err == nil {
			err = x.a.removeBeside(ref.ID)
		}
		if err == nil {
			p, err = x.a.newPacked(row, file)
		}
		return err
	})
	if p != nil {
		defer p.Discard()
		if err = x.a.notArchived(ref, x.a.pack(p, o.log)); err == nil {
			x.a.d.at("archive: packed")
			err = x.hold(ctx, func() error { return x.install(ctx, p, o) })
		}
	}
	return err
}

// rowToArchive returns the row of a session, which must cover the transcript up to at.
func (x *index) rowToArchive(ref driver.Ref, at driver.Cursor) (driver.Row, error) {
	row, err := x.checked(ref)
	switch {
	case err != nil:
	case row.Size == 0:
		f, _ := x.a.stat(ref.ID) // for the error alone
		err = x.a.spoilt("archive session "+ref.ID, f, errors.New("it cannot be understood"), "inspect it, and restore it from a copy or delete session "+ref.ID)
	case at >= 0 && row.Size != int64(at):
		err = driver.ErrConflict
	}
	return row, err
}

// install gives an archive its name and removes the transcript, if that still holds the
// packed bytes. A change line in the index makes every reader look at the session's files
// until its row is written. An archive next to a transcript does not count. So a kill
// between two steps leaves the session unchanged or archived.
func (x *index) install(ctx context.Context, p *packed, o *openLog) error {
	ref := p.row.Ref()
	release, err := x.holdLog(ctx, o, (*filelog.Log).Hold)
	if err != nil {
		return err
	}
	defer release()
	if file, err := x.a.sess.Lstat(fileName(ref.ID)); err != nil || !p.holds(file) {
		return errors.Join(err, errGrown)
	}
	x.a.d.at("archive: change line")
	if err := x.change(ref.ID); err != nil {
		return err
	}
	x.a.d.at("archive: rename")
	if err = p.Install(); err == nil {
		x.a.d.at("archive: remove transcript")
		err = x.a.sess.Remove(fileName(ref.ID))
		if f, statErr := x.a.stat(ref.ID); statErr == nil && f.archived {
			err = nil // the transcript was removed, despite the error
		}
	}
	if err != nil {
		_ = x.a.removeBeside(ref.ID) // it does not count
		x.putChecked(ref)
		return x.a.notArchived(ref, err)
	}
	x.a.d.at("archive: sync folder")
	x.a.d.logs.drop(ref)
	err = errors.Join(filelog.RemoveTemps(x.a.sess, fileName(ref.ID)), filelog.SyncDir(x.a.sess, "."))
	_ = x.compare(ctx) // the next call does it again
	x.a.d.at("archive: row")
	x.putLate(p.row)
	return err
}

// notArchived returns the error of an archive that changed nothing, nil if err is nil.
func (a *agent) notArchived(ref driver.Ref, err error) error {
	return a.d.wrap("archive session", a.d.Path(ref), err, "the session is as it was; try again when the cause is gone")
}

// restore is [Driver.Restore].
func (x *index) restore(ctx context.Context, ref driver.Ref) error {
	f, err := x.stat(ref.ID)
	if err != nil {
		return err
	}
	if !f.archived {
		return x.a.removeBeside(ref.ID) // leftovers of a killed process
	}
	x.a.d.at("restore: change line")
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
	_ = x.compare(ctx) // the next call does it again
	x.a.d.at("restore: row")
	x.putChecked(ref)
	return nil
}

// holdLog takes the append lock of a session with lock. The caller holds the lock of the
// index.
func (x *index) holdLog(ctx context.Context, o *openLog, lock func(*filelog.Log, context.Context) (func(), error)) (release func(), err error) {
	x.briefly(ctx, func(ctx context.Context) { release, err = lock(o.log, ctx) })
	return release, err
}
