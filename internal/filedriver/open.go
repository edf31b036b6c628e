package filedriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

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
// of the session may stay. If nothing in a folder names its agent, as its name is
// hashed and its index is damaged, the first call for that agent finishes it: an
// index is not written without the name.
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
// failures, which lose no data.
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
