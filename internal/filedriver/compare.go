package filedriver

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/session/driver"
)

// compare looks for transcripts that are missing or outdated in the index, unless the
// folders have not changed since this process or a writer of the index last compared
// their names.
func (x *index) compare(ctx context.Context) error {
	if err := x.seekDead(); err != nil {
		return err
	}
	at, err := x.a.changed()
	if err != nil {
		return err
	}
	if !x.lost && at == x.listed {
		return nil
	}
	archives, err := x.a.files(1)
	if err != nil {
		return err
	}
	x.a.d.at("compare: archives")
	transcripts, err := x.a.files(0)
	if err != nil {
		return err
	}
	if now, err := x.a.changed(); err != nil || now[1] != at[1] { // a session may have changed folders
		again, againErr := x.a.files(1)
		if err = cmp.Or(err, againErr); err != nil {
			return err
		}
		archives = append(archives, again...)
	}
	there := make(map[string]bool, len(transcripts)+len(archives))
	for _, f := range append(transcripts, archives...) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if there[f.id] {
			continue // the transcript counts
		}
		there[f.id] = true
		e := x.find(f.id)
		known := e != nil && e.key != "" && e.archived == f.archived
		if known && !x.lost {
			continue
		}
		f, err := x.stat(f.id) // it may have just been archived, restored or removed
		if errors.Is(err, fs.ErrNotExist) {
			delete(there, f.id)
			continue
		}
		if err != nil {
			return err
		}
		size := f.size
		if f.archived {
			size, _ = x.a.archivedSize(f) // readers get the error
		}
		if known && e.archived == f.archived && e.size == size {
			continue
		}
		err = x.look(f) // said in the log
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			return x.a.d.wrap("list sessions", x.a.path(f), err, "try again with fewer open files or a higher limit")
		}
	}
	for id := range x.byID {
		if !there[id] {
			x.check(id) // it may have been archived and restored
		}
	}
	x.lost, x.listed, x.looked = false, at, true
	return nil
}

// compared notes that this writer changed the folder itself, so its names need
// no look. The caller holds the lock of the index.
func (x *index) compared() {
	if at, err := x.a.changed(); err == nil {
		x.listed = at
	}
}

// changed returns the times of the last changes of the folders of transcripts and
// archives.
func (a *agent) changed() (at folderTimes, err error) {
	for i, k := range kinds {
		info, err := a.root.Lstat(k.folder)
		if i == 1 && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return at, a.listError("", err)
		}
		at[i] = changeTime(info)
	}
	return at, nil
}

// hasStrangers reports whether the folders may have a transcript or archive that the
// index lacks. It ignores their times.
func (x *index) hasStrangers() (bool, error) {
	for _, k := range kinds {
		for enc, err := range names(x.a.root, k.folder, k.ext) {
			if err != nil {
				return false, x.a.listError(k.folder, err)
			}
			id, _ := filename.Decode(enc)                // a hashed name gives none
			if x.find(enc) == nil && x.find(id) == nil { // most IDs are not encoded
				return true, nil
			}
		}
	}
	return false, nil
}

// certain looks for names in the folders that the index lacks, unless this process has
// done so. It returns an error while a transcript's key is unknown: a key that seems to
// have no session may be its key.
func (x *index) certain(ctx context.Context) error {
	if !x.looked {
		strangers, err := x.hasStrangers()
		if strangers {
			x.listed = folderTimes{}
			err = x.compare(ctx)
		}
		if err != nil {
			return err
		}
		x.looked = true
	}
	var all []string
	for e := x.byKey[ownedKey{}]; e != nil; e = e.next {
		all = append(all, e.id)
	}
	for _, id := range all {
		f, err := x.a.stat(id)
		if err == nil {
			err = x.look(f) // it may have been restored
		}
		if errors.Is(err, fs.ErrNotExist) {
			x.drop(id)
			continue
		}
		if e := x.find(id); err == nil || e != nil && e.key != "" {
			continue
		}
		fix := "restore it from a copy or move it away"
		if driver.CheckRef(driver.Ref{Agent: "-", ID: id}) == nil {
			fix += ", or delete session " + id
		}
		return x.a.spoilt("create session", f, err, "it may be the requested session: "+fix+"; one that is made expressly need not wait for that")
	}
	return nil
}

// ready applies lines of other writers, and notices new names in the folder and
// unfinished changes of sessions. It takes no lock and writes nothing. The caller
// holds x.mu.
func (x *index) ready(ctx context.Context) error {
	err := x.refresh()
	if err == nil {
		err = x.compare(ctx)
	}
	if err != nil {
		return err
	}
	for id := range x.changes {
		x.check(id)
	}
	return ctx.Err()
}

// isAlive reports whether a writer may still append. Where the system cannot tell, all
// writers count as alive, but a read-only store takes them for dead.
func (x *index) isAlive(by int64) bool {
	if own := by == x.by; own || x.lock == nil {
		return own
	}
	held, err := x.lock.Held(by)
	return held || err != nil && !x.a.d.opts.ReadOnly
}

// seekDead makes compare look at all transcripts once for each writer that has died:
// rows may lack its last appends.
func (x *index) seekDead() error {
	dead := func() (all []int64) {
		for by, known := range x.writers {
			if !known && !x.isAlive(by) {
				all = append(all, by)
			}
		}
		return all
	}
	if len(dead()) == 0 {
		return nil
	}
	if err := x.refresh(); err != nil { // a closing writer first removes its name
		return err
	}
	for _, by := range dead() {
		x.writers[by], x.lost = true, true
	}
	return nil
}
