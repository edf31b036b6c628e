package filedriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"syscall"

	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// learned holds the findings of a process in the transcripts themselves.
type learned struct {
	lost bool     // all transcripts are to be compared with their rows
	news []string // sessions whose rows the next writer must add
	// When the folders of transcripts and archives were changed last before their
	// names were compared with the rows.
	listed folderTimes
	looked folderTimes // the same, if this process itself has looked at the names
}

// folderTimes are the times of the last changes of the folders of transcripts and
// archives, in nanoseconds; 0 if there is no such folder.
type folderTimes [2]int64

// compare looks for transcripts that are missing or outdated in the index, unless
// the folders are as they were when their names were compared last, by this process or
// by a writer of the index.
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
	if now, err := x.a.changed(); err != nil || now[1] != at[1] { // a session may have gone from one folder to the other
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
			x.check(id) // it may have gone to and fro
		}
	}
	x.lost, x.listed, x.looked = false, at, at
	return nil
}

// compared notes that the writer's own change of the folder needs no look at
// its names. The caller holds the lock of the index.
func (x *index) compared() {
	if at, err := x.a.changed(); err == nil {
		if x.looked == x.listed {
			x.looked = at
		}
		x.listed = at
	}
}

// changed returns when the folders of transcripts and archives were changed last.
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

// check makes the row of a session again unless it covers all of the
// transcript, and drops it without a transcript. It reports whether the row has
// changed.
func (x *index) check(id string) (changed bool) {
	f, err := x.stat(id)
	e := x.find(id)
	if errors.Is(err, fs.ErrNotExist) && e != nil {
		x.del(e)
		return true
	}
	if err != nil || e != nil && e.archived == f.archived && (f.archived || e.size == f.size || e.key == "" && e.size != unseen) {
		return false
	}
	_ = x.look(f) // said in the log
	return true
}

// checked returns the row of a session after check.
func (x *index) checked(ref driver.Ref) (row driver.Row, err error) {
	x.check(ref.ID)
	ok := false
	if e := x.find(ref.ID); e != nil {
		row, ok = x.row(e)
	}
	if !ok {
		return row, x.a.d.notFound(ref)
	}
	return row, nil
}

// look makes the row of a transcript. An unreadable one keeps its row, or gets
// one with its key alone; opening it reports the error. look returns the
// reason.
func (x *index) look(f found) error {
	var known driver.Row
	e := x.find(f.id)
	if e != nil {
		known, _ = x.stored(e)
	}
	row, err := x.a.describe(f, known)
	if errors.Is(err, fs.ErrNotExist) {
		return err // just deleted
	}
	if err != nil {
		x.a.d.log.Warn("a transcript cannot be read", "file", x.a.path(f), "err", err)
	}
	switch {
	case errors.Is(err, errNoHeader) && (f.archived || e != nil && e.key != ""):
		return err
	case errors.Is(err, errNoHeader) && row.ID == "":
		x.set(&entry{id: f.id})
		if e == nil || x.lost {
			x.news = append(x.news, f.id)
		}
		return err
	case err != nil && known.ID != "" && known.Key != "":
		known.Gen, known.Archived = max(row.Gen, e.gen), f.archived
		row = known
	}
	x.set(entryOf(row))
	if e == nil || e.key != row.Key || x.lost {
		x.news = append(x.news, f.id)
	}
	return err
}

// hasStrangers reports whether the folders may have a transcript or an archive that the
// index lacks, whatever their times.
func (x *index) hasStrangers() (bool, error) {
	for _, k := range kinds {
		for enc, err := range names(x.a.root, k.folder, k.ext) {
			if err != nil {
				return false, x.a.listError(k.folder, err)
			}
			id, _ := DecodeName(enc)                     // a hashed name gives none
			if x.find(enc) == nil && x.find(id) == nil { // most IDs are written as they are
				return true, nil
			}
		}
	}
	return false, nil
}

func (a *agent) listError(folder string, err error) error {
	return a.d.wrap("list sessions", filepath.Join(a.dir, folder), err, "check that this user may read it")
}

// certain looks for names in the folders that the index lacks, if only other processes
// have done so. It returns an error while a transcript may belong to any key: then a key
// without a session may be the key of that one.
func (x *index) certain(ctx context.Context) error {
	if x.looked != x.listed {
		strangers, err := x.hasStrangers()
		if strangers {
			x.listed = folderTimes{}
			err = x.compare(ctx)
		}
		if err != nil {
			return err
		}
		x.looked = x.listed
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
		return x.a.spoilt("create session", f, err, "it may be the session that is asked for: "+fix+"; one that is made expressly need not wait for that")
	}
	return nil
}

// errNoHeader reports a transcript whose key is unknown.
var errNoHeader = errors.New("its header cannot be read")

func noHeader(err error) error {
	if err == nil {
		return errNoHeader
	}
	return fmt.Errorf("%w: %w", errNoHeader, err)
}

// found is a transcript in the folder of an agent.
type found struct {
	file string
	id   string // the file, if its name is hashed and the header cannot be read
	size int64
	// It is an archive: file is its name in the folder of the agent, size is not
	// known.
	archived bool
}

// files returns the files of a kind.
func (a *agent) files(kind int) (all []found, err error) {
	k, archived := kinds[kind], kind == 1
	for enc, err := range names(a.root, k.folder, k.ext) {
		if err != nil {
			return nil, a.listError(k.folder, err)
		}
		f := found{file: enc + k.ext, archived: archived}
		if archived {
			f.file = k.folder + "/" + f.file
		}
		ok := false
		if f.id, ok = a.idOf(f, enc); f.id == "" && !archived && filename.IsHashed(enc) {
			f.id, ok = f.file, true
		}
		if ok {
			all = append(all, f)
		}
	}
	return all, nil
}

// idOf returns the ID of the session of a file with a name. With a hashed name
// the ID is in its header, and empty if that cannot be read.
func (a *agent) idOf(f found, enc string) (id string, ok bool) {
	if id, ok = DecodeName(enc); !ok && filename.IsHashed(enc) {
		e, _, _ := a.header(f)
		id, ok = e.ID, EncodeName(e.ID) == enc
	}
	return id, ok && driver.CheckRef(driver.Ref{Agent: "-", ID: id}) == nil
}

// stat finds the transcript of a session, or else its archive.
func (a *agent) stat(id string) (f found, err error) {
	f = found{file: fileName(id), id: id}
	for range 2 { // the archive may be restored in between
		info, err := a.sess.Lstat(f.file)
		if err == nil {
			f.size = info.Size()
			return f, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return f, a.d.wrap("find session "+id, a.path(f), err, "check that this user may read it")
		}
		has, err := a.hasArchive(id)
		if err != nil {
			return f, err
		}
		if has {
			return found{file: archiveName(id), id: id, archived: true}, nil
		}
	}
	return f, a.d.wrap("find session "+id, a.path(f), fs.ErrNotExist, "list the sessions to see which there are")
}

// stat is the method of the agent, but a session in deletion is missing, even if
// files of it exist.
func (x *index) stat(id string) (found, error) {
	if x.deletes[id] {
		return found{}, x.a.d.notFound(driver.Ref{Agent: x.a.name, ID: id})
	}
	return x.a.stat(id)
}

// live is stat for a session that must not be archived.
func (a *agent) live(id string) (found, error) { return a.unarchived(a.stat(id)) }

func (a *agent) unarchived(f found, err error) (found, error) {
	if err == nil && f.archived {
		err = a.archivedError(f.id)
	}
	return f, err
}

// findHeader returns the header of a transcript, the first entry of its kind,
// and the number of entries before it.
func findHeader(scan Scan) (e transcript.Entry, before int, err error) {
	for rec, err := range scan(0, driver.Forward) {
		if err != nil {
			return e, before, err
		}
		if !rec.HasEntry() {
			continue
		}
		if _, ok := rec.Entry.Body.(transcript.Header); ok {
			return rec.Entry, before, nil
		}
		before++
	}
	return e, before, nil
}

// header reads the header of a transcript.
func (a *agent) header(f found) (e transcript.Entry, h transcript.Header, err error) {
	err = a.read(f, func(_ *opened, scan Scan) (err error) {
		ok := false
		e, _, err = findHeader(scan)
		if h, ok = e.Body.(transcript.Header); !ok {
			return noHeader(err)
		}
		return nil
	})
	return e, h, err
}

// read calls do with a transcript. A last line that a dead writer has left without its
// '\n' is part of it: it may make the session current.
func (a *agent) read(f found, do func(o *opened, scan Scan) error) error {
	o, err := a.open(f)
	if err != nil {
		return noHeader(err)
	}
	defer o.close()
	final := o.zip != nil
	if !final && !endsLine(o, o.size) {
		if size, ok, err := o.TrySize(); ok && err == nil {
			o.size, final = size, true
		} else {
			o.size = wholeLines(o, o.size)
		}
	}
	return do(o, func(from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
		if err := o.turn(dir); err != nil {
			return func(yield func(transcript.Record, error) bool) { yield(transcript.Record{}, err) }
		}
		opts := &transcript.ScanOptions{From: int64(from), Final: final}
		if dir == driver.Backward {
			return transcript.ScanBackward(o, o.size, opts)
		}
		return transcript.Scan(o, o.size, opts)
	})
}

// wholeLines returns the end of the last line before size that has its '\n', so that
// the next reading begins with a line.
func wholeLines(r io.ReaderAt, size int64) int64 {
	if endsLine(r, size) {
		return size
	}
	for rec, err := range transcript.ScanBackward(r, size, nil) {
		if err != nil {
			return size // the caller finds it as well
		}
		return rec.End
	}
	return 0
}

// describe makes the row of a session from its transcript. known is the old
// row, or the zero one. After an error the row covers no lines; then it holds
// only the key of the session, or, if the error is [errNoHeader], the data
// readable without a header. The ID may then be empty.
func (a *agent) describe(f found, known driver.Row) (row driver.Row, err error) {
	defer func() { row.Archived = f.archived }()
	err = a.read(f, func(o *opened, scan Scan) error {
		if o.zip != nil && o.zip.row.ID == f.id {
			row = o.zip.row
			row.Agent = cmp.Or(a.name, row.Agent)
			return nil
		}
		e, before, err := findHeader(scan)
		h, ok := e.Body.(transcript.Header)
		if !ok && (err != nil || before == 0) {
			return noHeader(err)
		}
		row = driver.Row{ID: f.id, Agent: a.name}
		if ok && known.Size > 0 && known.Size <= o.size && known.Owner == h.Owner && known.Key == h.Key && known.Rev == h.Rev && known.CreatedAt.Equal(h.Created) {
			row = known
		}
		gen := row.Gen
		if a.d.opts.Describe != nil {
			if row, err = a.d.opts.Describe(row, scan); err != nil {
				row = driver.Row{Agent: row.Agent}
			}
		}
		if a.d.opts.Describe == nil || err != nil {
			err = cmp.Or(err, lastGen(&row, scan))
		}
		row.ID, row.Agent = f.id, cmp.Or(a.name, row.Agent)
		if !ok {
			row.Size = 0
			return errNoHeader
		}
		if gen = max(gen, row.Gen, h.Gen); e.ID != f.id {
			err = cmp.Or(err, fmt.Errorf("its header names session %q", e.ID))
			gen = 0 // a copy never comes before the original
		}
		if err != nil {
			row = driver.Row{ID: f.id, Agent: row.Agent}
		} else {
			row.Size = o.size
		}
		row.Owner, row.Key, row.Gen, row.Rev = h.Owner, h.Key, gen, h.Rev
		if row.CreatedAt.IsZero() {
			row.CreatedAt = h.Created
		}
		if row.UpdatedAt.IsZero() {
			row.UpdatedAt = e.Time
		}
		return err
	})
	return row, err
}

// lastGen sets the gen of a row to the highest one of its lines.
func lastGen(row *driver.Row, scan Scan) error {
	for rec, err := range scan(driver.Cursor(row.Size), driver.Forward) {
		if err != nil {
			return err
		}
		if c, ok := rec.Entry.Body.(transcript.Current); ok {
			row.Gen = max(row.Gen, c.Gen)
		}
	}
	return nil
}

// path is the name that errors show.
func (a *agent) path(f found) string {
	if f.archived {
		return filepath.Join(a.dir, f.file)
	}
	return filepath.Join(a.dir, "sessions", f.file)
}

func (a *agent) spoilt(op string, f found, err error, fix string) error {
	return a.d.rewrap(op, a.path(f), err, "nothing was written; "+fix)
}
