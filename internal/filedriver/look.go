package filedriver

import (
	"errors"
	"io/fs"

	"github.com/convolog/convolog/session/driver"
)

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

// row returns the row of an entry. A bad one is made again from the transcript.
// It reports false if it is missing.
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
