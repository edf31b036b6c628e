package filedriver

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/filelog"
)

// agent is the folder of one agent.
type agent struct {
	d    *Driver
	name string // empty if only its hashed folder is known
	dir  string // for errors
	root *os.Root
	sess *os.Root // the folder of transcripts
	idx  *index
}

// openAgent opens an agent's folder, or returns it if it is open.
func (d *Driver) openAgent(name, folder string) (*agent, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.agents[folder]; a != nil {
		return a, nil
	}
	a, err := d.openFolder(name, folder)
	if err == nil {
		d.agents[folder] = a
	}
	return a, err
}

// openFolder opens a folder below agents and brings its index up to date.
func (d *Driver) openFolder(name, folder string) (_ *agent, err error) {
	a := &agent{d: d, name: name, dir: filepath.Join(d.dir, "agents", folder)}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	fail := func(err error) error {
		return d.wrap("open agent", a.dir, err, "check that it is a folder that this user may use")
	}
	// A link is refused here, although it could not lead out of the store.
	for _, dir := range []string{"agents", "agents/" + folder, "agents/" + folder + "/sessions"} {
		info, err := d.root.Lstat(dir)
		if err != nil {
			return nil, fail(err)
		}
		if !info.IsDir() {
			return nil, fail(errors.New(dir + " is not a folder"))
		}
	}
	if a.root, err = d.root.OpenRoot("agents/" + folder); err != nil {
		return nil, fail(err)
	}
	if a.sess, err = a.root.OpenRoot("sessions"); err != nil {
		return nil, fail(err)
	}
	if a.idx, err = openIndex(a); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *agent) close() error {
	var errs []error
	if a.idx != nil {
		errs = append(errs, a.idx.close())
	}
	for _, r := range []*os.Root{a.sess, a.root} {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}

func (a *agent) logOptions(ref driver.Ref) *filelog.Options {
	o := &filelog.Options{Sync: a.d.opts.Sync, ReadOnly: a.d.opts.ReadOnly}
	if f := a.d.opts.OnTail; f != nil {
		o.OnTail = func(t filelog.Tail) { f(ref, t) }
	}
	return o
}

func (a *agent) openLog(ref driver.Ref) (*filelog.Log, error) {
	return filelog.Open(a.sess, fileName(ref.ID), a.logOptions(ref))
}

func fileName(id string) string { return EncodeName(id) + extension }

// files returns the IDs of the transcripts in the folder; those with hashed
// names are found through their header.
func (a *agent) files() (ids []string, err error) {
	entries, err := fs.ReadDir(a.sess.FS(), ".")
	if err != nil {
		return nil, a.d.wrap("list sessions", a.dir, err, "check that this user may read it")
	}
	for _, e := range entries {
		enc, ok := strings.CutSuffix(e.Name(), extension)
		if !ok {
			continue
		}
		id, ok := DecodeName(enc)
		if !ok {
			if id, ok = a.headerID(e.Name()); !ok || EncodeName(id) != enc {
				continue
			}
		}
		if driver.CheckRef(driver.Ref{Agent: "-", ID: id}) == nil {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// headerID reads the session ID from the first line of a transcript.
func (a *agent) headerID(file string) (string, bool) {
	l, err := filelog.Open(a.sess, file, &filelog.Options{ReadOnly: true})
	if err != nil {
		return "", false
	}
	defer func() { _ = l.Close() }() // only read
	size, err := l.Size()
	if err != nil {
		return "", false
	}
	for rec, err := range transcript.Scan(l, size, nil) {
		if err != nil {
			return "", false
		}
		if _, ok := rec.Entry.Body.(transcript.Header); ok {
			return rec.Entry.ID, true
		}
	}
	return "", false
}

// describe makes the row of a session from its transcript.
func (a *agent) describe(id string) (driver.Row, error) {
	row := driver.Row{ID: id, Agent: a.name, File: fileName(id)}
	l, err := filelog.Open(a.sess, row.File, &filelog.Options{ReadOnly: true})
	if err != nil {
		return row, err
	}
	defer func() { _ = l.Close() }() // only read
	size, err := l.Size()
	if err != nil {
		return row, err
	}
	row.Size = size
	records := transcript.Scan(l, size, &transcript.ScanOptions{Final: a.d.opts.ReadOnly})
	for rec, err := range records {
		if err != nil {
			return row, err
		}
		switch b := rec.Entry.Body.(type) {
		case transcript.Header:
			if row.Key == "" {
				row.Key, row.CreatedAt, row.UpdatedAt = b.Key, b.Created, rec.Entry.Time
			}
			row.Gen = max(row.Gen, b.Gen)
		case transcript.Current:
			row.Gen = max(row.Gen, b.Gen)
		}
	}
	if a.d.opts.Describe == nil {
		return row, nil
	}
	return a.d.opts.Describe(row, records)
}

// readAll reads a file of the agent's folder; a missing one is nil.
func (a *agent) readAll(name string) ([]byte, fs.FileInfo, error) {
	info, err := a.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	var data []byte
	if err == nil {
		var f *os.File
		if f, err = a.root.Open(name); err == nil {
			if data, err = io.ReadAll(f); err == nil {
				info, err = f.Stat()
			}
			err = cmp.Or(err, f.Close())
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	return data, info, a.d.wrap("read index", filepath.Join(a.dir, name), err, "move it away: it is made again from the transcripts")
}
