package filedriver

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/filelog"
)

// adopt brings index and files together: transcripts that the index does not
// know, or not with the size they have, get a row, and rows without a
// transcript are left out. Rows that are taken on trust are compared with the
// names alone. It takes no lock and writes nothing; the next
// writer does, see save. What another process is just creating or deleting is
// put right by the lines of the journal that follow. The caller holds x.mu.
func (x *index) adopt(ctx context.Context) error {
	sizes := x.lost || x.rows.lost // else names alone
	listed := x.a.listedAt()
	files, err := x.a.files(sizes)
	if err != nil {
		return err
	}
	clear(x.unreadable)
	x.leftover = nil
	there := make(map[string]bool, len(files))
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		there[f.id] = true
		if x.deleted[f.id] {
			x.leftover = append(x.leftover, f.id)
		} else if size, ok := x.rows.size(f.id); !ok || sizes && size != f.size {
			x.look(f)
		}
	}
	for id := range x.rows.each() {
		if !there[id] {
			x.drop(id)
		}
	}
	x.names, x.listed = false, listed
	if sizes {
		x.lost, x.rows.lost, x.trusted, x.checked = false, false, false, nil
	}
	return nil
}

// look makes a row of a transcript. One that cannot be understood keeps the
// row it has, or gets one that says only which key it belongs to; opening it
// says what is wrong. Without a header it has none, and may belong to any key.
func (x *index) look(f found) {
	row, err := x.a.describe(f)
	if f.id == "" {
		row, err = driver.Row{}, noHeader(err)
	}
	if errors.Is(err, fs.ErrNotExist) {
		delete(x.unreadable, f.file) // just deleted
		return
	}
	if err != nil {
		x.a.d.log.Warn("a transcript cannot be read", "file", x.a.path(f), "err", err)
	}
	if errors.Is(err, errNoHeader) {
		if old, known := x.rows.get(f.id); known && old.Key != "" {
			return
		}
		x.unreadable[f.file] = err
		if row.ID != "" {
			x.set(row.ID, lazyRow{row: &row}) // it can be read, and may belong to any key
		}
		return
	}
	delete(x.unreadable, f.file)
	if old, known := x.rows.get(f.id); known && err != nil {
		if row.Gen <= old.Gen {
			return
		}
		gen := row.Gen
		row = old
		row.Gen = gen
	}
	x.apply(change{Put: &row})
	x.unsaved[row.ID] = true
}

// one returns the row of a session without a look at the others. If the index
// has none, or one that is about more than there is, the row says only what
// the header does: its Size is 0. The caller holds x.mu.
func (x *index) one(ref driver.Ref) (driver.Row, bool) {
	if err := x.refresh(); err != nil || x.deleted[ref.ID] {
		return driver.Row{}, false
	}
	f, err := x.a.stat(ref.ID)
	if err != nil {
		return driver.Row{}, false
	}
	row, known := x.rows.get(ref.ID)
	if known && row.Size > 0 && row.Size <= f.size {
		if x.trusted && row.Size == f.size {
			x.checked[ref.ID] = true
		}
		return row, true
	}
	if known || !x.lost {
		return driver.Row{}, false // it is looked at closely
	}
	return x.a.header(f)
}

// header makes a row of the first line of a transcript.
func (a *agent) header(f found) (driver.Row, bool) {
	l, err := filelog.Open(a.sess, f.file, &filelog.Options{ReadOnly: true})
	if err != nil {
		return driver.Row{}, false
	}
	defer func() { _ = l.Close() }() // only read
	for rec, err := range transcript.Scan(l, f.size, nil) {
		h, ok := rec.Entry.Body.(transcript.Header)
		if err != nil || rec.Damage != nil || !ok || rec.Entry.ID != f.id || h.Key == "" {
			break
		}
		return driver.Row{
			ID: f.id, Agent: a.name, Key: h.Key, Gen: h.Gen, CreatedAt: h.Created, UpdatedAt: rec.Entry.Time,
		}, true
	}
	return driver.Row{}, false
}

// find returns the row of a session. A transcript that has none, because it
// was put there by hand, is given one. The caller holds x.mu.
func (x *index) find(ref driver.Ref) (driver.Row, error) {
	x.check(ref.ID)
	if row, ok := x.rows.get(ref.ID); ok {
		return row, nil
	}
	f, err := x.a.stat(ref.ID)
	if errors.Is(err, fs.ErrNotExist) || x.deleted[ref.ID] {
		return driver.Row{}, x.a.d.notFound(ref)
	}
	if err != nil {
		return driver.Row{}, err
	}
	x.look(f)
	if row, ok := x.rows.get(ref.ID); ok {
		return row, nil
	}
	if err := x.unreadable[f.file]; err != nil {
		return driver.Row{}, x.a.spoilt("find session "+ref.ID, f, err, "restore it from a copy, move it away or delete session "+ref.ID)
	}
	return driver.Row{}, x.a.d.notFound(ref)
}

// certain says whether all transcripts are known by their keys: while one is
// not, a key without a session may be the key of that one. The caller holds
// x.mu.
func (x *index) certain() error {
	for file, err := range x.unreadable {
		f := found{file: file}
		if f.id, _ = DecodeName(file[:len(file)-len(extension)]); f.id != "" {
			stat, err := x.a.stat(f.id)
			if errors.Is(err, fs.ErrNotExist) {
				delete(x.unreadable, file)
				continue
			}
			if err == nil {
				f = stat
				x.look(f) // it may have been restored
			}
		} else if _, err := x.a.sess.Lstat(file); errors.Is(err, fs.ErrNotExist) {
			delete(x.unreadable, file)
			continue
		}
		if _, still := x.unreadable[file]; !still {
			continue
		}
		fix := "restore it from a copy or move it away"
		if f.id != "" {
			fix += ", or delete session " + f.id
		}
		return x.a.spoilt("create session", f, err, "it may be the session that is asked for: "+fix+"; one that is made expressly need not wait for that")
	}
	return nil
}

// path is the name that errors show.
func (a *agent) path(f found) string { return filepath.Join(a.dir, "sessions", f.file) }

func (a *agent) spoilt(op string, f found, err error, fix string) error {
	if e, ok := errors.AsType[*filelog.Error](err); ok {
		err = e.Err
	}
	return &filelog.Error{Op: op, Path: a.path(f), Err: err, Fix: "nothing was written; " + fix}
}

// save writes what was learned from the transcripts, and finishes deletions
// that were cut short. The caller holds the index.
func (x *index) save(h *filelog.Held) error {
	if len(x.unsaved)+len(x.leftover) == 0 {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(x.unsaved)) {
		row, ok := x.rows.get(id)
		if !ok {
			continue
		}
		if err := x.write(h, change{Put: &row}); err != nil {
			return err
		}
	}
	for _, id := range x.leftover {
		if x.deleted[id] {
			if err := x.removeFile(id); err != nil {
				x.a.d.log.Warn("a deleted transcript is still there", "session", id, "err", err)
			}
		}
	}
	x.leftover = nil
	return nil
}

// lookAtIntents looks at the sessions that a process, which may be dead, is
// making current. The caller holds x.mu.
func (x *index) lookAtIntents() {
	for id := range x.intents {
		if size, ok := x.rows.size(id); ok {
			if f, err := x.a.stat(id); err == nil && f.size != size {
				x.look(f)
			}
		}
	}
}

// finishIntents finishes or discards what a dead process had begun: to create a
// session or to make it current. The caller holds the index.
func (x *index) finishIntents(h *filelog.Held) error {
	for id := range x.intents {
		f, err := x.a.stat(id)
		if size, ok := x.rows.size(id); err == nil && (!ok || size != f.size) {
			x.look(f)
		}
		c := change{Abort: id}
		if row, ok := x.rows.get(id); ok {
			c = change{Put: &row}
		}
		if err := x.write(h, c); err != nil {
			return err
		}
	}
	return nil
}

// removeFile removes the transcript of a deleted session.
func (x *index) removeFile(id string) error {
	err := x.a.sess.Remove(fileName(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && x.a.d.opts.Sync != filelog.SyncNever {
		err = filelog.SyncDir(x.a.sess, ".")
	}
	return x.a.d.wrap("delete session", x.a.dir, err, "remove "+fileName(id)+" by hand; the session is gone from the index")
}
