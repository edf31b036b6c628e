package filedriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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

	// The two folders as files, for filelog.Options.Folder.
	rootFile, sessFile *os.File
}

// openAgent opens an agent's folder, or returns it if it is open. Callers that
// ask for one folder at the same time open it once.
func (d *Driver) openAgent(ctx context.Context, name, folder string) (*agent, error) {
	for {
		d.mu.Lock()
		if a := d.agents[folder]; a != nil {
			d.mu.Unlock()
			return a, nil
		}
		opened := d.opening[folder]
		if opened == nil {
			break
		}
		d.mu.Unlock()
		select {
		case <-opened: // or it could not be, and then this caller sees why
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	opened := make(chan struct{})
	d.opening[folder] = opened
	d.mu.Unlock()

	a, err := d.openFolder(name, folder)

	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.opening, folder)
	close(opened)
	if err != nil {
		return nil, err
	}
	d.agents[folder], d.named[name] = a, a
	if d.closed {
		a.idx.interrupt()
	}
	return a, nil
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
	if a.rootFile, err = a.root.Open("."); err != nil {
		return nil, fail(err)
	}
	if a.sessFile, err = a.sess.Open("."); err != nil {
		return nil, fail(err)
	}
	if a.idx, err = openIndex(a); err != nil {
		return nil, err
	}
	if entries, err := fs.ReadDir(a.root.FS(), "."); err == nil {
		for _, e := range entries {
			a.removeTemp(a.root, e)
		}
	}
	return a, nil
}

func (a *agent) close() error {
	var errs []error
	if a.idx != nil {
		errs = append(errs, a.idx.close())
	}
	for _, f := range []*os.File{a.sessFile, a.rootFile} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	for _, r := range []*os.Root{a.sess, a.root} {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}

func (a *agent) logOptions(ref driver.Ref) *filelog.Options {
	o := &filelog.Options{Sync: a.d.opts.Sync, ReadOnly: a.d.opts.ReadOnly, Folder: a.sessFile}
	o.OnTail = func(ctx context.Context, t filelog.Tail) {
		a.idx.lose() // a record may have become whole that no row knows of
		if f := a.d.opts.OnTail; f != nil {
			f(ctx, ref, t)
		}
	}
	a.observe(o, ref)
	return o
}

// observe sets what tells of the syncs and the waits of a log.
func (a *agent) observe(o *filelog.Options, ref driver.Ref) {
	if f := a.d.opts.OnSync; f != nil {
		o.OnSync = func(ctx context.Context, s filelog.Synced) { f(ctx, ref, s) }
	}
	if f := a.d.opts.OnWait; f != nil {
		o.OnWait = func(ctx context.Context, w filelog.Wait) { f(ctx, ref, w) }
	}
}

func (a *agent) openLog(ref driver.Ref) (*filelog.Log, error) {
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

// readAll reads a file of the agent's folder; a missing one is nil.
func (a *agent) readAll(name string) (*string, fs.FileInfo, error) {
	info, err := a.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	var text strings.Builder // of which rows are parts: it is never copied
	if err == nil {
		var f *os.File
		if f, err = a.root.Open(name); err == nil {
			text.Grow(int(info.Size()))
			if _, err = io.CopyBuffer(struct{ io.Writer }{&text}, struct{ io.Reader }{f}, make([]byte, 256<<10)); err == nil {
				info, err = f.Stat()
			}
			err = cmp.Or(err, f.Close())
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	data := text.String()
	return &data, info, a.d.wrap("read index", filepath.Join(a.dir, name), err, "move it away: it is made again from the transcripts")
}
