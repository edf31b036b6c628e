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

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/filelog"
)

// Options of [Open]. Nil and zero fields are the defaults.
type Options struct {
	// Sync says when appended lines are on stable storage. The zero value is
	// filelog.SyncAlways.
	Sync filelog.SyncPolicy
	// ReadOnly opens without writing anything: no repair, no index. What a dead
	// writer left unfinished is taken for final.
	ReadOnly bool
	// SingleProcess allows file systems on which locks between processes
	// cannot be relied on.
	SingleProcess bool
	// Describe makes the row of a session that is not in the index, or not as
	// it is now, from its records. The row it is given holds for the records
	// before its Size; a Size of 0 means that it holds ID and Agent alone. Scan
	// yields the records from a cursor on, or backward down to it, and may be
	// called several times. Size need not be set in what Describe returns. If
	// it fails the session keeps its key and shows nothing else. Nil leaves
	// everything empty but the ID, the key, the gen and the times.
	Describe func(row driver.Row, scan Scan) (driver.Row, error)
	// OpenFiles is how many transcripts stay open while nobody uses them; 0
	// means 128.
	OpenFiles int
	// OnTail is told of every unfinished end of a transcript that was settled,
	// OnSync of every sync of a transcript after its creation, and OnWait of
	// every long wait for one of its locks, as [filelog.Options] says; OnSync
	// and OnWait also of those of an agent's index, whose ID is empty. They are
	// called while locks may be held and must not use the driver.
	OnTail func(ctx context.Context, ref driver.Ref, tail filelog.Tail)
	OnSync func(ctx context.Context, ref driver.Ref, s filelog.Synced)
	OnWait func(ctx context.Context, ref driver.Ref, w filelog.Wait)
	// Logger is told what a person should know: a corrupt index, a transcript
	// that cannot be read. Nil is silent.
	Logger *slog.Logger
}

// A Scan yields the records of one transcript as [driver.Driver.Scan] does.
type Scan func(from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error]

// Driver is a [driver.Driver] over a folder.
type Driver struct {
	opts Options
	dir  string
	root *os.Root
	log  *slog.Logger
	logs *logs

	lines sync.Pool // of *[]byte: the bytes of an append, see append

	mu      sync.Mutex               // guards what follows
	agents  map[string]*agent        // by the names of their folders
	named   map[string]*agent        // by their own: an append need not encode the name
	opening map[string]chan struct{} // closed when a folder has been opened, or not
	closed  bool
	ops     sync.WaitGroup // calls under way

	idsMu sync.Mutex
	ids   map[driver.Ref]uint64 // what the first lines of transcripts were, see identify
}

var _ driver.Driver = (*Driver)(nil)

// Open opens a folder, which is made unless opts says read-only. The error
// names the folder and what to do about it.
func Open(dir string, opts *Options) (*Driver, error) {
	d := &Driver{
		dir: dir, agents: map[string]*agent{}, named: map[string]*agent{}, ids: map[driver.Ref]uint64{}, opening: map[string]chan struct{}{},
		log: slog.New(slog.DiscardHandler),
	}
	if opts != nil {
		d.opts = *opts
	}
	if d.opts.Logger != nil {
		d.log = d.opts.Logger
	}
	if !d.opts.ReadOnly {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, &filelog.Error{Op: "open store", Path: dir, Err: pathCause(err), Fix: "choose a folder that this user can write"}
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		fix := "choose a folder that this user can read"
		if errors.Is(err, fs.ErrNotExist) {
			fix = "nothing is stored there yet; open it without ReadOnly to begin"
		}
		return nil, &filelog.Error{Op: "open store", Path: dir, Err: pathCause(err), Fix: fix}
	}
	d.root = root
	if err := d.prepare(); err != nil {
		return nil, cmp.Or(err, root.Close())
	}
	d.logs = newLogs(d, cmp.Or(d.opts.OpenFiles, 128))
	return d, nil
}

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
	return d.mkdir(d.root, "agents")
}

// mkdir makes a folder and puts its name on stable storage.
func (d *Driver) mkdir(root *os.Root, name string) error {
	err := root.Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrExist) {
		info, err := root.Lstat(name)
		if err == nil && !info.IsDir() {
			err = errors.New("not a folder")
		}
		if err == nil {
			return d.shut(root, name, info, others)
		}
		return d.wrap("open store", filepath.Join(root.Name(), name), err, "move it away")
	}
	if err == nil && d.opts.Sync != filelog.SyncNever {
		err = filelog.SyncDir(root, ".")
	}
	return d.wrap("open store", filepath.Join(root.Name(), name), err, "make the folder writable for this user, or open the store with ReadOnly")
}

func (d *Driver) wrap(op, path string, err error, fix string) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*filelog.Error](err); ok {
		return err
	}
	return &filelog.Error{Op: op, Path: path, Err: pathCause(err), Fix: fix}
}

// pathCause strips the operation and the path, which a filelog.Error has.
func pathCause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// Path returns the name of a session's transcript.
func (d *Driver) Path(ref driver.Ref) string {
	return filepath.Join(d.dir, "agents", EncodeName(ref.Agent), "sessions", fileName(ref.ID))
}

// begin registers a call, so that Close waits for it.
func (d *Driver) begin(ctx context.Context) (end func(), err error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	return d.ops.Done, nil
}

// enter is begin for a caller that calls d.ops.Done itself.
func (d *Driver) enter(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(ctx); err != nil {
		return err
	}
	d.ops.Add(1)
	return nil
}

// ready returns why a call cannot go on, if it cannot.
func (d *Driver) ready(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.usable(ctx)
}

func (d *Driver) usable(ctx context.Context) error {
	if d.closed {
		return driver.ErrClosed
	}
	return ctx.Err()
}

// Close implements [driver.Driver]. It brings the indexes up to date; what
// fails there loses nothing and is not reported.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return driver.ErrClosed
	}
	d.closed = true
	for _, a := range d.agents {
		a.idx.interrupt()
	}
	d.mu.Unlock()
	d.logs.interrupt()
	d.ops.Wait()
	errs := []error{d.logs.close()}
	for _, a := range d.agents {
		errs = append(errs, a.close())
	}
	return errors.Join(append(errs, d.root.Close())...)
}

// Agents implements [driver.Driver].
func (d *Driver) Agents(ctx context.Context) ([]string, error) {
	end, err := d.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	entries, err := fs.ReadDir(d.root.FS(), "agents")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, d.wrap("list agents", filepath.Join(d.dir, "agents"), err, "check that this user may read it")
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() || !d.hasSessions(e.Name()) {
			continue
		}
		if name, ok := DecodeName(e.Name()); ok {
			names = append(names, name)
		} else if name, ok := d.hashedAgent(ctx, e.Name()); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// hasSessions reports whether there is a transcript in an agent's folder.
func (d *Driver) hasSessions(folder string) bool {
	if info, err := d.root.Lstat("agents/" + folder + "/sessions"); err != nil || !info.IsDir() {
		return false
	}
	f, err := d.root.Open("agents/" + folder + "/sessions")
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // only read
	for {
		names, err := f.Readdirnames(64)
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, extension) }) {
			return true
		}
		if err != nil || len(names) == 0 {
			return false
		}
	}
}

// hashedAgent returns the name of an agent whose folder has a hashed name, as
// a row of its index says it.
func (d *Driver) hashedAgent(ctx context.Context, folder string) (string, bool) {
	d.mu.Lock()
	a := d.agents[folder]
	d.mu.Unlock()
	if a != nil {
		return a.name, true
	}
	a, err := d.openFolder("", folder)
	if err != nil {
		d.log.Warn("agent folder cannot be read", "folder", folder, "err", err)
		return "", false
	}
	defer func() { _ = a.close() }() // only read
	a.idx.mu.Lock()
	defer a.idx.mu.Unlock()
	if err := a.idx.ready(ctx); err != nil {
		d.log.Warn("agent folder cannot be read", "folder", folder, "err", err)
	}
	for row := range a.idx.rows.all() {
		if EncodeName(row.Agent) == folder {
			return row.Agent, true
		}
	}
	return "", false
}

// agent returns an agent's folder. It does not exist before the agent has a
// session, unless create is set: the error then matches fs.ErrNotExist.
func (d *Driver) agent(ctx context.Context, name string, create bool) (*agent, error) {
	d.mu.Lock()
	a := d.named[name]
	d.mu.Unlock()
	if a != nil {
		return a, nil
	}
	if err := driver.CheckAgent(name); err != nil {
		return nil, err
	}
	folder := EncodeName(name)
	d.mu.Lock()
	a = d.agents[folder]
	d.mu.Unlock()
	if a != nil {
		return a, nil
	}
	if create && !d.opts.ReadOnly {
		for _, dir := range []string{"agents/" + folder, "agents/" + folder + "/sessions"} {
			root, err := d.root.OpenRoot(filepath.Dir(dir))
			if err != nil {
				return nil, d.wrap("open agent", filepath.Join(d.dir, dir), err, "check that this user may read it")
			}
			if err := cmp.Or(d.mkdir(root, filepath.Base(dir)), root.Close()); err != nil {
				return nil, err
			}
		}
	}
	return d.openAgent(ctx, name, folder)
}

// Append implements [driver.Driver].
func (d *Driver) Append(ctx context.Context, ref driver.Ref, lines []driver.Line, cond driver.Cond) (driver.Result, error) {
	if err := d.enter(ctx); err != nil {
		return driver.Result{}, err
	}
	defer d.ops.Done()
	return d.append(ctx, ref, lines, cond)
}

// Flush implements [driver.Driver].
func (d *Driver) Flush(ctx context.Context, ref driver.Ref) error {
	end, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return d.with(ctx, ref, func(o *openLog) error { return o.log.FlushAll(ctx) })
}

// LockTurn implements [driver.Driver].
func (d *Driver) LockTurn(ctx context.Context, ref driver.Ref, wait bool) (func() error, error) {
	end, err := d.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var release func() error
	err = d.with(ctx, ref, func(o *openLog) error {
		var err error
		if wait {
			release, err = o.log.LockTurn(ctx)
		} else {
			release, err = o.log.TryLockTurn()
		}
		return err
	})
	return release, err
}

// Settle implements [driver.Driver].
func (d *Driver) Settle(ctx context.Context, ref driver.Ref) (driver.Cursor, error) {
	end, err := d.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	var at int64
	err = d.with(ctx, ref, func(o *openLog) error {
		var err error
		at, err = o.log.Settle(ctx)
		return err
	})
	return driver.Cursor(at), err
}
