package filedriver

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// findHeader returns the first header entry of a transcript and the number of
// entries before it.
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
			gen = 0 // a copy never precedes the original
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

// idOf returns the ID of the session in a file. If the file's name is hashed,
// the header holds the ID; it is empty if that cannot be read.
func (a *agent) idOf(f found, enc string) (id string, ok bool) {
	if id, ok = filename.Decode(enc); !ok && filename.IsHashed(enc) {
		e, _, _ := a.header(f)
		id, ok = e.ID, filename.Encode(e.ID) == enc
	}
	return id, ok && driver.CheckRef(driver.Ref{Agent: "-", ID: id}) == nil
}

// check makes the row of a session again unless it covers all of the transcript. Without
// a transcript it drops the row; the session is then missing, unless it was being made.
// It reports whether the row has changed.
func (x *index) check(id string) (changed bool) {
	f, err := x.stat(id)
	e := x.find(id)
	if errors.Is(err, fs.ErrNotExist) && e != nil {
		x.del(e)
		powerCut := x.lost && x.a.d.opts.Sync == filelog.SyncNever // which may lose files
		if e.key != "" && !x.changes[id] && !x.deletes[id] && !powerCut {
			x.missing[id] = e
		}
		return true
	}
	if err != nil || e != nil && e.archived == f.archived && (f.archived || e.size == f.size) {
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

// look makes the row of a transcript. An unreadable transcript keeps its row,
// or gets one with only its key; opening it reports the error, which look
// returns too.
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
		x.set(&entry{id: f.id, size: f.size})
		if e == nil || x.lost {
			x.news[f.id] = true
		}
		return err
	case err != nil && known.ID != "" && known.Key != "":
		known.Gen, known.Archived = max(row.Gen, e.gen), f.archived
		row = known
	}
	n := entryOf(row)
	if n.key == "" {
		n.size = f.size // the row covers nothing; another look is of use when the file has changed
	}
	x.set(n)
	if e == nil || e.key != row.Key || x.lost {
		x.news[f.id] = true
	}
	return err
}

// row returns the row of an entry. A bad one is made again from the transcript.
// It reports false if the transcript is missing.
func (x *index) row(e *entry) (row driver.Row, ok bool) {
	if row, ok = x.stored(e); ok {
		return row, true
	}
	x.del(e)
	x.check(e.id)
	if e = x.find(e.id); e == nil {
		return row, false
	}
	return x.stored(e)
}
