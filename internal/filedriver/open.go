package filedriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/session/driver"
)

// openFolder opens a folder below agents and reads its index.
func (d *Driver) openFolder(name, folder string) (_ *agent, err error) {
	a := &agent{d: d, name: name, dir: filepath.Join(d.dir, "agents", folder)}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	for _, dir := range []string{"agents", "agents/" + folder} {
		if err := d.folder(dir, false); err != nil {
			return nil, err
		}
	}
	if err := d.transcriptFolder("agents/" + folder); err != nil {
		return nil, err
	}
	if a.root, err = d.root.OpenRoot("agents/" + folder); err == nil {
		a.sess, err = a.root.OpenRoot("sessions")
	}
	if err == nil {
		a.sessFile, err = a.sess.Open(".")
	}
	if err != nil {
		return nil, d.wrap("open agent", a.dir, err, "check that it is a folder that this user may use")
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

func openIndex(a *agent) (*index, error) {
	x := &index{a: a}
	_, err := a.root.Lstat(lockName)
	if err == nil || !a.d.opts.ReadOnly {
		if x.lock, err = filelog.OpenLockFile(a.root, lockName); err != nil && !a.d.opts.ReadOnly {
			return nil, err
		}
	}
	x.mu.Lock()
	err = x.refresh()
	pending := len(x.deletes)+len(x.erases) > 0
	x.mu.Unlock()
	if err != nil {
		return nil, errors.Join(err, x.close())
	}
	if pending && !a.d.opts.ReadOnly {
		// The words of a deleted session are still there. The holder of the lock
		// may be removing them, or may be a stopped process.
		short, cancel := context.WithTimeout(context.Background(), busyWait)
		defer cancel()
		if err := x.locked(short, func() error { return x.finish(context.Background()) }); err != nil {
			a.d.log.Warn("an interrupted deletion or erase could not be finished; the next writer tries again", "folder", a.dir, "err", err)
		}
	}
	return x, nil
}

// agent returns an agent's folder, which concurrent callers open once. The
// agent's first session makes the folder: until then the error matches
// fs.ErrNotExist.
func (d *Driver) agent(name string) (*agent, error) {
	d.mu.Lock()
	a := d.agents[name]
	d.mu.Unlock()
	if a != nil {
		return a, nil
	}
	if err := driver.CheckAgent(name); err != nil {
		return nil, err
	}
	folder := filename.Encode(name)
	opened, err, _ := d.opening.Do(folder, func() (any, error) {
		d.mu.Lock()
		a := d.agents[name]
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
		d.agents[name] = a
		if d.closing.Err() != nil {
			a.idx.interrupt()
		}
		return a, nil
	})
	a, _ = opened.(*agent)
	return a, err
}

func (d *Driver) existing(ref driver.Ref) (*agent, error) {
	if err := driver.CheckRef(ref); err != nil {
		return nil, err
	}
	a, err := d.agent(ref.Agent)
	if errors.Is(err, fs.ErrNotExist) {
		err = d.notFound(ref)
	}
	return a, err
}

// listable returns an agent's folder, or nil without any session.
func (d *Driver) listable(name string) (*agent, error) {
	a, err := d.agent(name)
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid) {
		return nil, nil
	}
	return a, err
}

// on calls f with the folder of the agent of a session.
func (d *Driver) on(ctx context.Context, ref driver.Ref, f func(a *agent) error) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.ops.Done()
	a, err := d.existing(ref)
	if err != nil {
		return err
	}
	return f(a)
}

// with calls f with the open log of a session.
func (d *Driver) with(ctx context.Context, ref driver.Ref, f func(a *agent, o *openLog) error) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.ops.Done()
	a, err := d.agent(ref.Agent) // an open log has a checked name
	if err != nil {
		if a, err = d.existing(ref); err != nil {
			return err
		}
	}
	return a.use(ref, func(o *openLog) error { return f(a, o) })
}

// agentName returns the name of the agent of a folder. If the folder's name is
// hashed, it comes from the index or a transcript, and is empty if none fits.
func (d *Driver) agentName(ctx context.Context, folder string) (string, error) {
	if name, ok := filename.Decode(folder); ok {
		return name, nil
	}
	d.mu.Lock()
	for name, a := range d.agents {
		if filepath.Base(a.dir) == folder {
			d.mu.Unlock()
			return name, nil
		}
	}
	d.mu.Unlock()
	if err := d.transcriptFolder("agents/" + folder); err != nil {
		return "", err
	}
	// A separate driver writes nothing, keeps no log open, and so leaves none in
	// d.logs whose folder is closed.
	reader := &Driver{opts: d.opts, dir: d.dir, root: d.root, log: d.log, closing: d.closing, marks: map[driver.Ref]mark{}}
	reader.opts.ReadOnly = true
	reader.logs = newLogs(reader, 0)
	a, err := reader.openFolder("", folder)
	if err != nil {
		return "", err
	}
	defer func() { _ = a.close() }() // only read
	a.idx.mu.Lock()
	defer a.idx.mu.Unlock()
	err = a.idx.ready(ctx)
	if filename.Encode(a.name) == folder { // in the first line of the index
		return a.name, nil
	}
	for _, e := range a.idx.byID {
		if row, ok := a.idx.row(e); ok && filename.Encode(row.Agent) == folder {
			return row.Agent, nil
		}
	}
	return "", err
}

// listAgents returns a row for each agent that has sessions.
func (d *Driver) listAgents(ctx context.Context) (rows []driver.Row, err error) {
	folders, err := d.agentFolders()
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		has, err := d.hasSessions(folder)
		if err != nil {
			return nil, err
		}
		if !has {
			continue
		}
		name, err := d.agentName(ctx, folder.Name())
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // else it was just removed
			return nil, err
		}
		if name != "" {
			rows = append(rows, driver.Row{Agent: name})
		}
	}
	slices.SortFunc(rows, func(a, b driver.Row) int { return strings.Compare(a.Agent, b.Agent) })
	return rows, nil
}

// Open opens a folder, which is made unless opts says read-only. The error
// names the folder and what to do about it.
func Open(dir string, opts *Options) (*Driver, error) {
	d := &Driver{dir: dir, agents: map[string]*agent{}, marks: map[driver.Ref]mark{}}
	d.closing, d.close = context.WithCancel(context.Background())
	if opts != nil {
		d.opts = *opts
	}
	d.log = cmp.Or(d.opts.Logger, slog.New(slog.DiscardHandler))
	if !d.opts.ReadOnly {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, d.wrap("open store", dir, err, "choose a folder that this user can write")
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		fix := "choose a folder that this user can read"
		if errors.Is(err, fs.ErrNotExist) {
			fix = "nothing is stored there yet; open it without ReadOnly to begin"
		}
		return nil, d.wrap("open store", dir, err, fix)
	}
	d.root = root
	d.watches = &watches{d: d, all: map[*watch]bool{}}
	d.logs = newLogs(d, cmp.Or(d.opts.OpenFiles, 128))
	for _, step := range []func() error{d.refuseForeign, d.prepare, d.finishDeletes} {
		if err := step(); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// prepare makes the missing folders of a store, and checks the others.
func (d *Driver) prepare() error {
	if d.opts.ReadOnly {
		return nil
	}
	if !d.opts.SingleProcess {
		if err := filelog.CheckFS(d.root); err != nil {
			return fmt.Errorf("%w (or set Options.SingleProcess if no other process uses the store)", err)
		}
	}
	if err := d.shutStore(); err != nil {
		return err
	}
	return d.folder("agents", true)
}

// finishDeletes opens the agents with a deletion that a kill has cut short: no word
// of the session may stay. If a folder's name is hashed and its index is damaged,
// its agent may be unknown. The first call for that agent then finishes the
// deletion: an index is not written without the name.
func (d *Driver) finishDeletes() error {
	agents, err := d.agentFolders()
	if err != nil || d.opts.ReadOnly {
		return err
	}
	for _, folder := range agents {
		if info, err := d.root.Lstat("agents/" + folder.Name() + "/" + indexName); err != nil || info.Mode()&fs.ModeSticky == 0 {
			continue
		}
		name, err := d.agentName(context.Background(), folder.Name())
		switch {
		case err != nil:
		case name == "":
			d.log.Warn("a deletion or an erase was not finished: the name of its agent is not known; the first call for that agent finishes it", "folder", folder.Name())
		default:
			_, err = d.agent(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Close implements [driver.Driver]. It brings the indexes up to date, and ignores
// failures to do so, which lose no data.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.closing.Err() != nil {
		d.mu.Unlock()
		return driver.ErrClosed
	}
	d.close()
	for _, a := range d.agents {
		a.idx.interrupt()
	}
	d.mu.Unlock()
	d.watches.close()
	d.logs.interrupt()
	d.ops.Wait()
	opened := map[string][]string{} // by agent
	d.mu.Lock()
	for ref := range d.marks {
		opened[ref.Agent] = append(opened[ref.Agent], ref.ID)
	}
	d.mu.Unlock()
	for _, a := range d.agents {
		a.idx.closeWriter(opened[a.name])
	}
	errs := []error{d.logs.close()}
	for _, a := range d.agents {
		errs = append(errs, a.close())
	}
	return errors.Join(append(errs, d.root.Close())...)
}
