package filedriver

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/session/driver"
)

// hold calls f under the lock of the index and x.mu, after applying others'
// lines and finishing the work of dead writers.
func (x *index) hold(ctx context.Context, f func() error) error {
	return x.locked(ctx, func() error {
		if err := x.finish(ctx); err != nil {
			return err
		}
		return f()
	})
}

// finish compares the index with the folder and completes the work of dead
// writers: an index to rewrite, deletions and half-made sessions.
func (x *index) finish(ctx context.Context) error {
	if err := x.compare(ctx); err != nil {
		return err
	}
	if err := x.finishErases(); err != nil {
		x.a.d.log.Warn("an erase could not be finished; the next writer tries again", "folder", x.a.dir, "err", err)
	}
	if len(x.deletes) > 0 {
		remove := func(id string) error { return x.a.remove(id, busyWait) }
		if err := x.finishDeletes(slices.Collect(maps.Keys(x.deletes)), remove); err != nil {
			x.a.d.log.Warn("a deletion could not be finished; the next writer tries again", "folder", x.a.dir, "err", err)
		}
	}
	// A killed process may have set the mark of a deletion and not written its line.
	stray := x.info != nil && x.info.Mode()&fs.ModeSticky != 0 && len(x.deletes)+len(x.erases) == 0
	if stray { // the deletion removed the files
		clear(x.missing)
	}
	if x.remake || stray {
		if err := x.rewrite(false); err != nil { // a deletion must be possible on a full disk
			x.a.d.log.Warn("the index could not be rewritten", "folder", x.a.dir, "err", err)
			if err := x.refresh(); err != nil { // a failed look at the new file drops the rows
				return err
			}
			if err := x.compare(ctx); err != nil {
				return err
			}
		}
	}
	for id := range x.changes {
		if x.check(id); x.find(id) == nil { // it was being made
			delete(x.changes, id)
			_ = filelog.RemoveTemps(x.a.sess, fileName(id)) // useless; the header contains words
		}
		x.news[id] = true
	}
	if err := x.addNews(); err != nil {
		x.a.d.log.Warn("rows could not be written; the next writer tries again", "folder", x.a.dir, "err", err)
	}
	return nil
}

// finishErases makes new rows for sessions whose lines were replaced, and
// removes the old rows.
func (x *index) finishErases() error {
	for id := range x.erases {
		x.doubt(id) // a concurrent row may be of the old lines
		x.check(id)
	}
	if len(x.erases) == 0 {
		return nil
	}
	all := x.erases
	x.erases = map[string]bool{}
	err := x.rewrite(true)
	if err != nil {
		x.erases = all
	}
	return err
}

// blobFolder is where package blobs keeps media, in the folder of an agent: a folder
// for each session, by the same name as its transcript.
const blobFolder = "blobs"

// announce marks an index and writes the lines of deletions or of an erase. A
// rewritten index keeps the mark only while there is a deletion to finish. Fix is
// the way out if sync is set and fails.
func (x *index) announce(op, fix string, sync bool, recs ...record) error {
	_ = x.a.root.Chmod(indexName, deleteMode)
	x.a.d.at("index: marked")
	if err := x.write(recs...); err != nil || !sync {
		return err
	}
	return x.fail(op, x.file.Sync(), fix)
}

// finishDeletes removes the files of sessions that the index lists as deleted,
// and every line about them.
func (x *index) finishDeletes(ids []string, remove func(id string) error) error {
	const again = "delete it again when the cause is gone, so that no word of it stays"
	all, left := x.deletes, maps.Clone(x.deletes)
	var errs []error
	failed := func(path string, err error, fix string) {
		errs = append(errs, x.a.d.rewrap("delete session", path, err, "the deletion has begun; "+fix))
	}
	for _, id := range ids {
		ref := driver.Ref{Agent: x.a.name, ID: id}
		x.a.d.logs.drop(ref)
		x.a.d.at("delete: remove")
		var err error
		if x.aside(func() { err = remove(id) }); err != nil {
			failed(x.a.d.Path(ref), err, "delete it again, or remove the file by hand")
			continue
		}
		delete(left, id)
	}
	if len(left) == len(all) {
		return errors.Join(errs...)
	}
	durable := x.a.d.opts.Sync != filelog.SyncNever
	if durable {
		for _, folder := range []string{"sessions", archiveFolder, blobFolder} {
			if err := filelog.SyncDir(x.a.root, folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
				failed(filepath.Join(x.a.dir, folder), err, again)
				return errors.Join(errs...)
			}
		}
	}
	_ = x.compare(context.Background()) // a transcript may have been added since; after an error the next call compares again
	x.deletes = left
	x.a.d.at("delete: rewrite")
	if err := x.rewrite(durable); err != nil {
		x.deletes = all
		failed(filepath.Join(x.a.dir, indexName), err, again)
	}
	return errors.Join(errs...)
}

// remove removes the files of a session. It holds the append lock, so that no copy
// replaces the transcript. It makes no copy itself, even after a failed sync: a
// full disk must not keep the file.
func (a *agent) remove(id string, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	for {
		l, err := filelog.Open(a.sess, fileName(id), &filelog.Options{Sync: filelog.SyncNever, Folder: a.sessFile})
		if err != nil {
			info, statErr := a.sess.Lstat(fileName(id))
			if statErr == nil && info.Mode().IsRegular() && !errors.Is(err, fs.ErrPermission) {
				return err // another process may hold its lock
			}
			return a.unlink(id)
		}
		a.d.at("delete: lock")
		release, err := l.Lock(ctx)
		if err == nil {
			err = a.unlink(id)
			release()
		}
		if closeErr := l.Close(); !errors.Is(err, filelog.ErrReplaced) { // else a copy has taken its place
			return cmp.Or(err, closeErr)
		}
	}
}

// unlink removes the transcript and the archive of a session, if they exist, and
// leftover copies of killed processes.
func (a *agent) unlink(id string) error {
	name := fileName(id)
	err := a.sess.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	err = cmp.Or(err, filelog.RemoveTemps(a.sess, name), a.removeArchive(id))
	if blobs := blobFolder + "/" + filename.Encode(id); err == nil { // files next to the transcript; package blobs relies on the order
		if err = filelog.NoLinks(a.root, blobs); err == nil {
			err = a.root.RemoveAll(blobs)
		}
		err = a.d.wrap("remove", filepath.Join(a.dir, blobs), err, "")
	}
	return err
}

// removeArchive removes the archive of a session, if any, and unfinished ones. It
// syncs nothing: an archive that returns after a power cut does not count next to a
// transcript. The caller holds the lock of the index: a process that makes an archive
// notices before it installs it.
func (a *agent) removeArchive(id string) error {
	name := archiveName(id)
	for _, err := range []error{a.root.Remove(name), filelog.RemoveDrafts(a.root, name)} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return a.d.wrap("remove archive", filepath.Join(a.dir, name), err, "")
		}
	}
	return nil
}

// openWriter adds this process to the writers that the index names, before its first
// append.
func (x *index) openWriter(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, busyWait)
	defer cancel()
	err := x.locked(short, func() error {
		if x.by != 0 {
			return x.write() // the name, if the index was lost
		}
		by := firstWriter + rand.Int64N(writers)
		release, err := x.lock.Claim(by)
		if err != nil {
			return err
		}
		if err = x.write(record{Open: by}); err != nil {
			release()
			return err
		}
		x.by = by
		x.named.Store(true)
		return nil
	})
	if ctx.Err() == nil && errors.Is(err, driver.ErrBusy) {
		// If this process is killed, a session may keep an old place in lists.
		x.a.d.log.Warn("the index is locked by a process that does not go on", "folder", x.a.dir, "err", err)
		return nil
	}
	return err
}

// closeWriter writes the rows of sessions that this process had open and removes it
// from the writers. After a failure other processes find a dead writer.
func (x *index) closeWriter(ids []string) {
	if x.by == 0 { // no call is under way
		return
	}
	err := x.locked(context.Background(), func() error {
		for _, id := range ids {
			x.check(id)
			if e := x.find(id); e != nil && e.n == 0 && e.key != "" {
				x.news[id] = true
			}
		}
		if err := x.addNews(); err != nil {
			return err
		}
		by := x.by
		x.by = 0
		return x.write(record{Closed: by})
	})
	if err != nil {
		x.a.d.log.Warn("the index was not brought up to date; other processes compare it with the transcripts", "folder", x.a.dir, "err", err)
	}
}
