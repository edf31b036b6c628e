package filedriver

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/filelog"
)

// errNoHeader says that it cannot be told which key a transcript belongs to.
var errNoHeader = errors.New("it has no header that can be read")

func noHeader(err error) error {
	if err == nil {
		return errNoHeader
	}
	return fmt.Errorf("%w: %w", errNoHeader, err)
}

// found is a transcript in the folder.
type found struct {
	file string
	id   string // empty if the name is hashed and the header cannot be read
	size int64
}

// files returns the transcripts in the folder, with their sizes if sizes is
// set; the IDs of those with hashed names are in their headers.
func (a *agent) files(sizes bool) (all []found, err error) {
	entries, err := fs.ReadDir(a.sess.FS(), ".")
	if err != nil {
		return nil, a.d.wrap("list sessions", a.dir, err, "check that this user may read it")
	}
	for _, e := range entries {
		enc, ok := strings.CutSuffix(e.Name(), extension)
		if !ok {
			a.removeTemp(a.sess, e)
			continue
		}
		id, ok := DecodeName(enc)
		if !ok && isHashed(enc) {
			id = a.headerID(e.Name())
			ok = id == "" || EncodeName(id) == enc
		}
		if !ok || id != "" && driver.CheckRef(driver.Ref{Agent: "-", ID: id}) != nil {
			continue
		}
		f := found{file: e.Name(), id: id}
		if sizes {
			if info, err := a.sess.Lstat(f.file); err == nil {
				f.size = info.Size()
			} else if errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		all = append(all, f)
	}
	return all, nil
}

// tempAge is how old a temporary file must be to be taken for one that a dead
// process has left: writing one takes milliseconds.
const tempAge = time.Hour

// removeTemp removes what a dead process has left of a file it was making.
func (a *agent) removeTemp(dir *os.Root, e fs.DirEntry) {
	if a.d.opts.ReadOnly || !filelog.IsTemp(e.Name()) || !e.Type().IsRegular() {
		return
	}
	if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > tempAge {
		_ = dir.Remove(e.Name()) // it is in nobody's way
	}
}

// stat finds the transcript of a session.
func (a *agent) stat(id string) (found, error) {
	f := found{file: fileName(id), id: id}
	info, err := a.sess.Lstat(f.file)
	if err != nil {
		return f, a.d.wrap("find session "+id, a.path(f), err, "check that this user may read it")
	}
	f.size = info.Size()
	return f, nil
}

// headerID reads the session ID from the header of a transcript.
func (a *agent) headerID(file string) string {
	l, err := filelog.Open(a.sess, file, &filelog.Options{ReadOnly: true})
	if err != nil {
		return ""
	}
	defer func() { _ = l.Close() }() // only read
	size, err := l.Size()
	if err != nil {
		return ""
	}
	for rec, err := range transcript.Scan(l, size, nil) {
		if err != nil {
			return ""
		}
		if _, ok := rec.Entry.Body.(transcript.Header); ok {
			return rec.Entry.ID
		}
	}
	return ""
}

// identity is what the driver itself must know of a transcript. It is noted
// while somebody else reads the records.
type identity struct {
	id, key string
	header  transcript.Entry
	gen     int64
	entries int
	next    int64 // after the last record that was seen
	err     error // of the reading
}

func (n *identity) watch(records iter.Seq2[transcript.Record, error]) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		for rec, err := range records {
			if err != nil {
				n.err = err
			} else {
				n.note(rec)
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

func (n *identity) note(rec transcript.Record) {
	n.next = rec.End
	if rec.Damage == nil {
		n.entries++
	}
	switch b := rec.Entry.Body.(type) {
	case transcript.Header:
		if n.header.Body == nil {
			n.header, n.id, n.key = rec.Entry, rec.Entry.ID, b.Key
		}
		n.gen = max(n.gen, b.Gen)
	case transcript.Current:
		n.gen = max(n.gen, b.Gen)
	}
}

// describe makes the row of a session from its transcript. If it fails, the
// size of the row says that it holds for none of the lines; what it still says
// is which key the session belongs to, or, if the error is [errNoHeader], what
// can be read without one. Then the ID is empty if that is nothing.
func (a *agent) describe(f found) (driver.Row, error) {
	row := driver.Row{ID: f.id, Agent: a.name}
	l, err := filelog.Open(a.sess, f.file, &filelog.Options{ReadOnly: true})
	if err != nil {
		return driver.Row{}, noHeader(err)
	}
	defer func() { _ = l.Close() }() // only read
	size, err := l.Size()
	if err != nil {
		return driver.Row{}, noHeader(err)
	}
	var n identity
	scan := func(from int64) iter.Seq2[transcript.Record, error] {
		return n.watch(transcript.Scan(l, size, &transcript.ScanOptions{From: from, Final: a.d.opts.ReadOnly}))
	}
	if a.d.opts.Describe != nil {
		row, err = a.d.opts.Describe(row, func(from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
			if dir == driver.Backward {
				return transcript.ScanBackward(l, size, &transcript.ScanOptions{From: int64(from), Final: a.d.opts.ReadOnly})
			}
			if int64(from) != n.next {
				return transcript.Scan(l, size, &transcript.ScanOptions{From: int64(from), Final: a.d.opts.ReadOnly})
			}
			return scan(int64(from))
		})
	}
	if n.err == nil { // what was not asked for may still say a gen
		for _, err := range scan(n.next) {
			if err != nil {
				break // it is in n.err
			}
		}
	}
	h, ok := n.header.Body.(transcript.Header)
	if !ok {
		if err = cmp.Or(err, n.err); err != nil || n.entries == 0 {
			return driver.Row{}, noHeader(err)
		}
		row.ID, row.Agent, row.Size = f.id, cmp.Or(a.name, row.Agent), 0
		return row, errNoHeader
	}
	if err = cmp.Or(err, n.err); err == nil && n.id != f.id {
		err = fmt.Errorf("its header says that it is session %q", n.id)
	}
	if n.id != f.id {
		n.gen = 0 // a copy never comes before the original
	}
	if err != nil {
		row = driver.Row{}
	} else {
		row.Size = size
	}
	row.ID, row.Agent, row.Key, row.Gen = f.id, cmp.Or(a.name, row.Agent), n.key, n.gen
	if row.CreatedAt.IsZero() {
		row.CreatedAt = h.Created
	}
	if row.UpdatedAt.IsZero() {
		row.UpdatedAt = n.header.Time
	}
	return row, err
}
