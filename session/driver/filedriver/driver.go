package filedriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/filelog"
)

// Options of [Open]. Nil and zero fields are the defaults.
type Options struct {
	// Sync says when appended lines are on stable storage. The zero value is
	// filelog.SyncAlways.
	Sync filelog.SyncPolicy
	// ReadOnly opens without writing anything: no repair, no index. A line that
	// a dead writer left unfinished is taken for final.
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
	// OnTail receives every unfinished end of a transcript that was settled,
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

	mu     sync.Mutex        // guards what follows
	agents map[string]*agent // by the names of their folders
	named  map[string]*agent // by their own: an append need not encode the name
	closed bool
	ops    sync.WaitGroup // calls under way

	opening singleflight.Group // of folders
	closing context.Context    //nolint:containedctx // done when Close begins
	close   func()

	idsMu sync.Mutex
	ids   map[driver.Ref]uint64 // what the first lines of transcripts were, see identify
}

var _ driver.Driver = (*Driver)(nil)

// Open opens a folder, which is made unless opts says read-only. The error
// names the folder and what to do about it.
func Open(dir string, opts *Options) (*Driver, error) {
	d := &Driver{
		dir: dir, agents: map[string]*agent{}, named: map[string]*agent{}, ids: map[driver.Ref]uint64{},
		log: slog.New(slog.DiscardHandler),
	}
	d.closing, d.close = context.WithCancel(context.Background())
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
	d.logs = newLogs(d, cmp.Or(d.opts.OpenFiles, 128))
	for _, step := range []func() error{d.refuseForeign, d.prepare, d.finishDeletes} {
		if err := step(); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// ErrForeign says that a folder holds the sessions of another program. Nothing
// in it was changed.
var ErrForeign = errors.New("the folder holds the sessions of another program")

// refuseForeign fails if the folder is another program's: if an index of
// sessions lies where this package has none. Opening it would show its sessions
// without names, and start new ones beside them.
func (d *Driver) refuseForeign() error {
	agents, err := fs.ReadDir(d.root.FS(), "agents")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d.wrap("open store", filepath.Join(d.dir, "agents"), err, "check that it is a folder that this user may read")
	}
	places := []string{"sessions.json", "sessions/sessions.json"}
	for _, a := range agents {
		places = append(places, "agents/"+a.Name()+"/sessions.json", "agents/"+a.Name()+"/sessions/sessions.json")
	}
	for _, name := range places {
		info, err := d.root.Lstat(name)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		f, err := d.root.Open(name)
		if err != nil {
			continue
		}
		head := make([]byte, len(oldSnapshot))
		_, _ = io.ReadFull(f, head) // a short file is no index of ours
		_ = f.Close()               // only read
		if string(head) != oldSnapshot {
			return d.wrap("open store", filepath.Join(d.dir, name), ErrForeign,
				"nothing was changed; open a folder of your own and import the sessions into it, see package session/exchange")
		}
	}
	return nil
}

// finishDeletes opens the agents of which somebody was deleting a session when
// a kill came in between: no word of it is to stay.
func (d *Driver) finishDeletes() error {
	if d.opts.ReadOnly {
		return nil
	}
	agents, err := fs.ReadDir(d.root.FS(), "agents")
	if err != nil {
		return d.wrap("open store", filepath.Join(d.dir, "agents"), err, "check that it is a folder that this user may read")
	}
	for _, a := range agents {
		if info, err := d.root.Lstat("agents/" + a.Name() + "/" + indexName); err != nil || info.Mode()&fs.ModeSticky == 0 {
			continue
		}
		name, _ := DecodeName(a.Name()) // empty if it is hashed; the index says it
		if name == "" {
			found, err := d.openFolder("", a.Name())
			if err == nil {
				err = found.close()
			}
			if err != nil {
				return err
			}
			continue
		}
		if _, err := d.openAgent(name, a.Name()); err != nil {
			return err
		}
	}
	return nil
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

// enter registers a call, so that Close waits for its d.ops.Done.
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
	d.close()
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
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.ops.Done()
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
	for _, e := range a.idx.byID {
		if row, ok := a.idx.row(e); ok && EncodeName(row.Agent) == folder {
			return row.Agent, true
		}
	}
	return "", false
}

// agent returns an agent's folder. It does not exist before the agent has a
// session, unless create is set: the error then matches fs.ErrNotExist.
func (d *Driver) agent(name string, create bool) (*agent, error) {
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
	return d.openAgent(name, folder)
}

// waited tells the observer how long a call has waited for a lock of
// sessions.lock, unless that was short.
func (d *Driver) waited(ctx context.Context, ref driver.Ref, lock filelog.Lock, began time.Time, err error) {
	if took := time.Since(began); d.opts.OnWait != nil && took >= filelog.LongWait {
		d.opts.OnWait(ctx, ref, filelog.Wait{Lock: lock, Took: took, Err: err})
	}
}
