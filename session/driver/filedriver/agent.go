package filedriver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"

	"github.com/convolog/convolog/session/driver"
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

	sessFile *os.File // sess as a file, for filelog.Options.Folder
}

// openAgent opens an agent's folder, or returns it if it is open. Callers that
// ask for one folder at the same time open it once.
func (d *Driver) openAgent(name, folder string) (*agent, error) {
	opened, err, _ := d.opening.Do(folder, func() (any, error) {
		d.mu.Lock()
		a := d.agents[folder]
		d.mu.Unlock()
		if a != nil {
			return a, nil
		}
		a, err := d.openFolder(name, folder)
		if err != nil {
			return nil, err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.agents[folder], d.named[name] = a, a
		if d.closed {
			a.idx.interrupt()
		}
		return a, nil
	})
	a, _ := opened.(*agent)
	return a, err
}

// openFolder opens a folder below agents and reads its index.
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
		if err := d.shut(d.root, dir, info, others); err != nil {
			return nil, err
		}
	}
	if a.root, err = d.root.OpenRoot("agents/" + folder); err != nil {
		return nil, fail(err)
	}
	if a.sess, err = a.root.OpenRoot("sessions"); err != nil {
		return nil, fail(err)
	}
	if a.sessFile, err = a.sess.Open("."); err != nil {
		return nil, fail(err)
	}
	if err := a.clean(); err != nil {
		return nil, err
	}
	a.idx, err = openIndex(a)
	return a, err
}

func (a *agent) close() error {
	var errs []error
	if a.idx != nil {
		errs = append(errs, a.idx.close())
	}
	if a.sessFile != nil {
		errs = append(errs, a.sessFile.Close())
	}
	for _, r := range []*os.Root{a.sess, a.root} {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}

// clean removes what earlier builds have left of their indexes, and temporary
// files of writers that died. The transcripts say all that these files say.
func (a *agent) clean() error {
	if a.d.opts.ReadOnly {
		return nil
	}
	for name, begins := range map[string]string{"sessions.json": oldSnapshot, "sessions.journal": oldJournal} {
		f, err := a.root.Open(name)
		if err != nil {
			continue
		}
		head := make([]byte, len(begins))
		_, err = io.ReadFull(f, head)
		_ = f.Close() // only read
		if err == nil && string(head) == begins {
			if err := a.root.Remove(name); err != nil {
				return a.d.wrap("open agent", filepath.Join(a.dir, name), err, "remove the file: it is the index of an earlier version")
			}
		}
	}
	return nil
}

// The beginnings of the two files that earlier builds kept as an index.
const (
	oldSnapshot = `{"version":1,"generation":`
	oldJournal  = `{"generation":`
)

func (a *agent) logOptions(ref driver.Ref) *filelog.Options {
	o := &filelog.Options{Sync: a.d.opts.Sync, ReadOnly: a.d.opts.ReadOnly, Folder: a.sessFile}
	if f := a.d.opts.OnTail; f != nil {
		o.OnTail = func(ctx context.Context, t filelog.Tail) { f(ctx, ref, t) }
	}
	if f := a.d.opts.OnSync; f != nil {
		o.OnSync = func(ctx context.Context, s filelog.Synced) { f(ctx, ref, s) }
	}
	if f := a.d.opts.OnWait; f != nil {
		o.OnWait = func(ctx context.Context, w filelog.Wait) { f(ctx, ref, w) }
	}
	return o
}

func (a *agent) openLog(ref driver.Ref) (*filelog.Log, error) {
	if err := driver.CheckRef(ref); err != nil {
		return nil, err
	}
	l, err := filelog.Open(a.sess, fileName(ref.ID), a.logOptions(ref))
	if err == nil && !a.d.identify(ref, l) {
		err = errors.Join(fmt.Errorf("%w: session %s was deleted and made again", driver.ErrReplaced, ref.ID), l.Close())
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func fileName(id string) string { return EncodeName(id) + extension }

const maxIdentity = 4 << 10 // bytes of a first line that are looked at

// identify reports whether a transcript is the one that had its name when this
// driver last opened it: whether its first line, which holds the time at which
// it was made, is the same. The new identity is remembered. An open log
// notices by itself that its file was replaced; this is for one that was closed
// in between.
func (d *Driver) identify(ref driver.Ref, l *filelog.Log) bool {
	head := make([]byte, maxIdentity)
	n, _ := l.ReadAt(head, 0) // what cannot be read now fails where it is needed
	line, _, whole := bytes.Cut(head[:n], []byte("\n"))
	if !whole && n < maxIdentity {
		return true // not even the first line is finished
	}
	h := fnv.New64a()
	_, _ = h.Write(line) // never fails
	id := h.Sum64()
	d.idsMu.Lock()
	defer d.idsMu.Unlock()
	was, known := d.ids[ref]
	d.ids[ref] = id
	return !known || was == id
}
