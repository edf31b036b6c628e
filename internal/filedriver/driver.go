package filedriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Options of [Open]. Nil and zero fields are the defaults.
type Options struct {
	// Sync decides when appended lines are on stable storage. The zero value is
	// driver.SyncAlways.
	Sync driver.SyncPolicy
	// ReadOnly opens without writing anything: no repair, no index. A line that
	// a dead writer left unfinished is taken for final; one that may still be in the
	// writing is left out.
	ReadOnly bool
	// SingleProcess allows file systems on which locks between processes
	// cannot be relied on.
	SingleProcess bool
	// Describe makes the row of a session that is missing or outdated in the
	// index, from its records. Its argument row holds for the records before
	// its Size; a Size of 0 means that it holds ID and Agent alone. Scan yields
	// the records from a cursor on, or backward down to it, and may be called
	// several times. Size need not be set in what Describe returns. If it fails
	// the session keeps its key and shows nothing else. Nil leaves everything
	// empty but the ID, the key, the gen and the times.
	Describe func(row driver.Row, scan Scan) (driver.Row, error)
	// OpenFiles is how many idle transcripts stay open; 0 means 128.
	OpenFiles int
	// Observe receives every event of a transcript, as [filelog.Options] says, every
	// long wait for its turn lock, and those for an agent's index, whose ID is empty.
	// It is called while locks may be held and must not use the driver.
	Observe func(ctx context.Context, ref driver.Ref, e filelog.Event)
	// Logger receives warnings for a person: a corrupt index, a transcript that
	// cannot be read. Nil is silent.
	Logger *slog.Logger
}

// A Scan yields all records of one transcript as [driver.Driver.Scan] does.
type Scan func(from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error]

// Driver is a [driver.Driver] over a folder.
type Driver struct {
	opts Options
	dir  string
	root *os.Root
	log  *slog.Logger
	logs *logs

	watches *watches

	mu      sync.Mutex          // guards the fields below
	agents  map[string]*agent   // by their names
	marks   map[driver.Ref]mark // of transcripts that were opened
	closing context.Context     //nolint:containedctx // done when Close begins
	close   func()
	ops     sync.WaitGroup // calls under way

	opening singleflight.Group // of agents

	step func(name string) // called at each step of an archive or a delete; nil but in tests
}

var _ driver.Driver = (*Driver)(nil)

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

// wrap returns an error that names a file and the way out, unless err is one already.
func (d *Driver) wrap(op, path string, err error, fix string) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*filelog.Error](err); ok {
		return err
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err // without its operation and path
	}
	return &filelog.Error{Op: op, Path: path, Err: err, Fix: fix}
}

// rewrap is wrap, but if err names a file already it gets another way out: its own is
// about one step, not the whole call.
func (d *Driver) rewrap(op, path string, err error, fix string) error {
	if e, ok := errors.AsType[*filelog.Error](err); ok {
		return &filelog.Error{Op: op, Path: e.Path, Err: e.Err, Fix: fix}
	}
	return d.wrap(op, path, err, fix)
}

// readOnly is the error of a call that writes to a store that is read-only.
func (d *Driver) readOnly(op, path string) error {
	return d.wrap(op, path, driver.ErrReadOnly, "open the store without ReadOnly")
}

// Path returns the name of a session's transcript.
func (d *Driver) Path(ref driver.Ref) string {
	return filepath.Join(d.dir, "agents", EncodeName(ref.Agent), "sessions", fileName(ref.ID))
}

// enter registers a call, so that Close waits for its d.ops.Done.
func (d *Driver) enter(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing.Err() != nil {
		return driver.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	d.ops.Add(1)
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

func (d *Driver) agentFolders() ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(d.root.FS(), "agents")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, d.wrap("list agents", filepath.Join(d.dir, "agents"), err, "check that it is a folder that this user may read")
	}
	return entries, nil
}

// hasSessions reports whether there is a transcript or an archive in an agent's
// folder.
func (d *Driver) hasSessions(agent fs.DirEntry) (bool, error) {
	_, ours := DecodeName(agent.Name())
	if !ours && !filename.IsHashed(agent.Name()) || !agent.IsDir() && agent.Type()&fs.ModeSymlink == 0 {
		return false, nil // it belongs to another process
	}
	for _, k := range kinds {
		if has, err := d.hasFiles("agents/"+agent.Name()+"/"+k.folder, k.ext); has || err != nil {
			return has, err
		}
	}
	return false, nil
}

func (d *Driver) hasFiles(folder, ext string) (bool, error) {
	for _, err := range names(d.root, folder, ext) {
		return err == nil, d.wrap("list sessions", filepath.Join(d.dir, folder), err, "check that it is a folder that this user may read, or move it away")
	}
	return false, nil
}

// agentName returns the name of the agent of a folder. If the folder's name is
// hashed, it is the one in the index or in a transcript, and empty if none fits.
func (d *Driver) agentName(ctx context.Context, folder string) (string, error) {
	if name, ok := DecodeName(folder); ok {
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
	// A driver of its own writes nothing, and leaves no log in d.logs whose folder is
	// closed again. It keeps no log open.
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
	if EncodeName(a.name) == folder { // in the first line of the index
		return a.name, nil
	}
	for _, e := range a.idx.byID {
		if row, ok := a.idx.row(e); ok && EncodeName(row.Agent) == folder {
			return row.Agent, nil
		}
	}
	return "", err
}

// agent returns an agent's folder, which concurrent callers open once. The
// first session of the agent makes the folder: before that, the error matches
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
	folder := EncodeName(name)
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

// waited tells the observer how long a call has waited for a lock of
// sessions.lock, unless that was short.
func (d *Driver) waited(ctx context.Context, ref driver.Ref, lock string, began time.Time, err error) {
	if took := time.Since(began); d.opts.Observe != nil && took >= filelog.LongWait {
		d.opts.Observe(ctx, ref, filelog.Wait{Lock: lock, Took: took, Err: err})
	}
}
