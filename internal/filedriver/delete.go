package filedriver

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

// deleteAt deletes each session that ends at a cursor and has no turn under way. It
// ends no tail, because sessions can be deleted on a full disk.
func (x *index) deleteAt(ctx context.Context, ids []string, at driver.Cursor) error {
	var releases []func()
	defer func() {
		for _, release := range slices.Backward(releases) {
			release()
		}
	}()
	keep := func(id string) error {
		f, err := x.stat(id)
		if err != nil {
			return err
		}
		release, err := x.takeTurn(id)
		if err != nil {
			return err
		}
		releases = append(releases, release)
		if f.archived {
			f.size, err = x.a.archivedSize(f)
		} else {
			ref := driver.Ref{Agent: x.a.name, ID: id}
			var o *openLog
			if o, err = x.a.acquire(ref); err != nil {
				return err
			}
			x.a.d.at("delete: lock")
			if release, err = x.holdLog(ctx, o, (*filelog.Log).Lock); err != nil {
				return x.a.cause(ref, x.a.d.logs.release(o, err))
			}
			releases = append(releases, func() {
				release()
				_ = x.a.d.logs.release(o, nil) // nil stays nil
			})
			f.size, err = o.log.Size()
		}
		if err == nil && (f.size == 0 || f.size != int64(at)) {
			err = driver.ErrConflict
		}
		return err
	}
	var errs []error
	var ending []string
	for _, id := range ids {
		if err := keep(id); err != nil {
			errs = append(errs, x.a.d.wrap("delete session", x.a.d.Path(driver.Ref{Agent: x.a.name, ID: id}), err, "nothing was deleted; look at the session again"))
			continue
		}
		ending = append(ending, id)
	}
	if len(ending) > 0 {
		errs = append(errs, x.delete(ending, x.a.unlink))
	}
	return errors.Join(errs...)
}

// delete removes sessions for good. It first writes their lines in the index, so
// that any process that finds one finishes a killed deletion. Remove removes
// the files of one session.
func (x *index) delete(ids []string, remove func(id string) error) error {
	recs := make([]record, len(ids))
	for i, id := range ids {
		recs[i] = record{Delete: id}
		x.a.d.setMark(driver.Ref{Agent: x.a.name, ID: id}, mark{}) // nothing of it stays
	}
	const unknown = "it is not known whether the session is deleted: delete it again"
	err := x.announce("delete session", unknown, x.a.d.opts.Sync != filelog.SyncNever, recs...)
	if err == nil {
		return x.finishDeletes(ids, remove)
	}
	if x.deletes[ids[0]] {
		return err
	}
	// The disk is too full for the lines in the index. Removed files make room. If a kill comes
	// before the index is rewritten, the mark makes the next writer do so.
	for _, rec := range recs {
		x.apply(line{record: rec})
	}
	if err = x.finishDeletes(ids, remove); err != nil {
		err = cmp.Or(x.forget(), err) // the file does not list them as deleted
	}
	return err
}

// mentions reports whether the index contains the row or the deletion of a session, whose
// transcript may be gone.
func (x *index) mentions(id string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.refresh() == nil && (x.deletes[id] || x.find(id) != nil || x.missing[id] != nil)
}

// Delete implements [driver.Driver]. Like a delete without a condition, one with a
// condition copies nothing, even after a failed sync.
func (d *Driver) Delete(ctx context.Context, at driver.Cursor, refs ...driver.Ref) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.ops.Done()
	var errs []error
	of := map[*agent][]string{}
	for _, ref := range refs {
		if strings.HasPrefix(ref.Agent, "_") {
			if err := d.sweepAll(); err != nil {
				return err
			}
		}
		a, err := d.existing(ref)
		if err == nil {
			if _, err = a.stat(ref.ID); errors.Is(err, fs.ErrNotExist) && a.idx.mentions(ref.ID) {
				err = nil
			}
		}
		if errs = append(errs, err); err == nil && !slices.Contains(of[a], ref.ID) {
			of[a] = append(of[a], ref.ID)
		}
	}
	for a, ids := range of {
		errs = append(errs, a.idx.hold(ctx, func() error {
			if at >= 0 {
				return a.idx.deleteAt(ctx, ids, at)
			}
			return a.idx.delete(ids, func(id string) error { return a.remove(id, logWait) })
		}))
	}
	return errors.Join(errs...)
}

// Beyond describes where words that were deleted or erased may remain.
func (d *Driver) Beyond() []string {
	return []string{
		"copies of the folder that were made outside of the store: backups, snapshots of the file system",
		"archives beside transcripts that lack lines of them, as after a partly restored backup: the store's log names them",
		"the title, owner and key of sessions whose transcripts are missing, and what is in the files if they come back: delete these sessions",
		"blocks of the disk that are free now, until they are used again",
	}
}
