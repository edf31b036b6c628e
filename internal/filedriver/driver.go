package filedriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
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
	// filelog.SyncAlways.
	Sync filelog.SyncPolicy
	// ReadOnly opens without writing anything: no repair, no index. A line that a
	// dead writer left unfinished counts as final; a line that a writer may still
	// be adding is left out.
	ReadOnly bool
	// SingleProcess allows file systems on which locks between processes
	// cannot be relied on.
	SingleProcess bool
	// Describe makes the row of a session that is missing or outdated in the
	// index, from its records. Its argument row covers the records before its
	// Size; a Size of 0 means that it holds ID and Agent alone. Scan yields the
	// records from a cursor on, or backward down to it, and may be called
	// several times. The row returned need not have its Size. If Describe
	// fails, the session keeps only its key. Nil leaves everything empty but
	// the ID, the key, the gen and the times.
	Describe func(row driver.Row, scan Scan) (driver.Row, error)
	// OpenFiles is how many idle transcripts stay open; 0 means 128.
	OpenFiles int
	// Observe receives every event of a transcript, as for [filelog.Options], every
	// long wait for its turn lock, and waits for an agent's index, with an empty ID.
	// It is called while locks may be held and must not use the driver.
	Observe func(ctx context.Context, ref driver.Ref, e filelog.Event)
	// Replaced, if set, is called before a call reports that a session was replaced or
	// removed, while no other call can open the new transcript. It must not use the driver.
	Replaced func(ref driver.Ref)
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
	agents  map[string]*agent   // by their names: added by agent
	marks   map[driver.Ref]mark // of transcripts that were opened: set by remember, beginRead and create, cleared by cause and identify
	closing context.Context     //nolint:containedctx // done when Close begins
	close   func()
	ops     sync.WaitGroup // calls under way

	opening singleflight.Group // of agents

	step func(name string) // called at each step of an archive or a delete; set by tests
}

// agent is the folder of one agent.
type agent struct {
	d    *Driver
	name string // empty if only its hashed folder is known
	dir  string // for errors
	root *os.Root
	sess *os.Root // the folder of transcripts
	idx  *index

	sessFile *os.File // sess as a file, for filelog.Options.Folder

	synced bool // this process has synced the names of the folders: set by syncFolders; guarded by index.mu
}

// An index is the list of an agent's sessions, as the package comment describes it.
//
// All transcripts are compared with their rows once if the index is missing or damaged,
// if its first line names another boot of the system, or if a writer that it names has
// died: any of its rows may be old or lost then. Therefore only lines of a deletion and
// an erase need a sync.
//
// Writers hold a lock byte of the file sessions.lock, which also has one byte
// for each living writer. Readers take no lock. A writer also rewrites the log
// into a new file when more than half of it is of no use.
type index struct {
	a    *agent
	lock *filelog.LockFile // a read-only store only looks at its bytes; nil if it may not

	mu sync.Mutex // guards the fields below; taken after the lock
	rows
	file    *os.File          // set by refresh; nil if missing
	info    fs.FileInfo       // of file, at the last refresh
	applied int64             // offset after the last line that was applied: set by read
	version int               // of the file; 0 if its first line lacks it; set by apply
	by      int64             // this process as a writer: set by openWriter, cleared by closeWriter
	named   atomic.Bool       // the file names it: set by openWriter and apply, cleared by forget
	writers map[int64]bool    // open ones: added and removed by apply; true if found dead, see seekDead
	changes map[string]bool   // sessions whose files count until their next row: added by apply; removed by apply, drop and finish
	deletes map[string]bool   // begun and perhaps not finished: added by apply, removed by finishDeletes
	erases  map[string]bool   // the same, by finishErases
	missing map[string]*entry // not in rows: their transcripts are gone, and the index records no deletion: added by check; removed by set, drop and finish
	remake  bool              // the next writer must rewrite the file: set by refresh and apply, cleared by rewrite and by a head of this boot
	said    folderTimes       // the last ones in the file: set by apply
	learned
}

// learned holds the findings of a process in the transcripts themselves.
type learned struct {
	lost bool            // all transcripts are to be compared with their rows: set by forget, apply, refresh, seekDead and rewrite; cleared by compare and by a head of this boot
	news map[string]bool // sessions whose rows the next writer must add: by look, finish and closeWriter; taken by addNews
	// When the folders of transcripts and archives were changed last before their
	// names were compared with the rows: set by compare, compared and apply.
	listed folderTimes
	looked bool // this process itself has looked at these names: set by compare and certain, cleared by apply
}

// logs keeps open the logs in use, and some that were used lately.
type logs struct {
	d     *Driver
	limit int // how many unused ones stay open
	// failed is (*filelog.Log).Failed, except in tests.
	failed func(*filelog.Log) *driver.NotDurableError

	mu   sync.Mutex              // guards the fields below; never held while a log is synced
	open map[driver.Ref]*openLog // added by acquire; removed by ended and evict; nil after close
	uses uint64                  // calls of acquire
}

type openLog struct {
	ref     driver.Ref
	log     *filelog.Log
	users   int    // calls of acquire without their release
	used    uint64 // logs.uses at its last use: set by acquire
	evicted bool   // a call is to close it, unless it is used: set by surplus, cleared by acquire
	stale   bool   // its file was removed, and its last user closes it: set by ended
}

// A watch is one call of Watch.
type watch struct {
	ref          driver.Ref // zero for all sessions
	folder, file string     // of the agent and of the transcript; folder is empty for all sessions
	changed      func(driver.Ref, error)
}

// watches are the watches of a driver. Their functions are called with mu held,
// so none is called after its watch has ended.
type watches struct {
	d       *Driver
	running sync.WaitGroup // the goroutines of notes

	mu    sync.Mutex      // guards the fields below
	all   map[*watch]bool // added by add; removed by remove and fail
	notes interface {     // reports of the system: set by add, cleared by end; nil without watches
		cover(w *watch) error
		close()
	}
}

// tries is how often a lookup is repeated because the session was archived and
// restored during it.
const tries = 100

// busyWait is how long an append waits for the lock of the index, and how long a
// writer waits for a transcript. Others hold these locks for moments; a stopped
// process must not stop this one.
const busyWait = 500 * time.Millisecond

// logWait is how long the holder of the lock of an index waits for an append lock.
const logWait = 20 * busyWait

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

// rewrap is wrap, but gives an err that names a file another way out: the old one is
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
	return filepath.Join(d.dir, "agents", filename.Encode(ref.Agent), "sessions", fileName(ref.ID))
}

func (d *Driver) notFound(ref driver.Ref) error {
	return d.wrap("find session "+ref.ID, d.Path(ref), fs.ErrNotExist, "list the sessions to see which there are")
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

// waited tells the observer how long a call has waited for a lock of
// sessions.lock, if long.
func (d *Driver) waited(ctx context.Context, ref driver.Ref, lock string, began time.Time, err error) {
	if took := time.Since(began); d.opts.Observe != nil && took >= filelog.LongWait {
		d.opts.Observe(ctx, ref, filelog.Wait{Lock: lock, Took: took, Err: err})
	}
}

// at announces a step, so that a test can intervene.
func (d *Driver) at(step string) {
	if d.step != nil {
		d.step(step)
	}
}

func (x *index) fail(op string, err error, fix string) error {
	return x.a.d.wrap(op, filepath.Join(x.a.dir, indexName), err, fix)
}

// lockError returns the error of a lock in terms of package driver.
func lockError(err error) error {
	switch {
	case errors.Is(err, filelog.ErrBusy):
		return fmt.Errorf("%w: %w", driver.ErrBusy, err)
	case errors.Is(err, filelog.ErrClosed):
		return fmt.Errorf("%w: %w", driver.ErrClosed, err)
	}
	return err
}

func (a *agent) listError(folder string, err error) error {
	return a.d.wrap("list sessions", filepath.Join(a.dir, folder), err, "check that this user may read it")
}

var _ driver.Driver = (*Driver)(nil)
