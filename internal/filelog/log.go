package filelog

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// A SyncPolicy decides when appended lines are put on stable storage. Package session
// describes the policies. They are comparable, and the zero value is [SyncAlways].
type SyncPolicy struct {
	never    bool
	interval time.Duration
}

// The policies without a parameter.
var (
	SyncAlways = SyncPolicy{}
	SyncNever  = SyncPolicy{never: true}
)

// SyncInterval returns the policy of syncs in the background, at most d after an append.
// If d is not positive, it is [SyncAlways].
func SyncInterval(d time.Duration) SyncPolicy { return SyncPolicy{interval: max(d, 0)} }

// String returns "always", "never" or "interval" and its length.
func (p SyncPolicy) String() string {
	switch {
	case p.never:
		return "never"
	case p.interval > 0:
		return "interval " + p.interval.String()
	}
	return "always"
}

// Options configure a [Log]. Nil means the defaults, and so does the zero value
// of each field.
type Options struct {
	// Sync decides when appended lines are put on stable storage. The zero
	// value is [SyncAlways].
	Sync SyncPolicy

	// ReadOnly opens the file without write access: calls that write or lock fail
	// with [driver.ErrReadOnly].
	ReadOnly bool

	// Folder, if not nil, is the log's Root opened as a file (by the name ".").
	// It must stay open as long as the Log is used; many Logs may share it.
	// Where the system allows it, every append then looks up its log with one
	// system call.
	Folder *os.File

	// Observe, if not nil, is called for every unterminated tail that this Log has
	// ended, for every sync of the file after its creation, and for every wait for
	// the append lock that took at least [LongWait]. It runs in the goroutine of the
	// call that the event is about, with its context, after that call has released
	// its locks. For a sync of [SyncInterval] it runs in a goroutine of its own.
	Observe func(context.Context, Event)

	seam *seam
}

// A Log is one open log file. It is safe for several goroutines. Several Logs,
// in one process or many, may have the same file open.
type Log struct {
	current atomic.Pointer[opened] // set by swap, with the append lock held
	root    *os.Root
	name    string // within root
	path    string // for errors
	opts    Options

	// Semaphores of one place: the sender holds it. A waiter can give up, which a
	// mutex does not allow.
	appending chan struct{} // the append lock within this Log
	leading   chan struct{} // a call syncs, or cures: see syncTo

	ended     chan struct{}  // closed to end all waits for a lock
	interrupt func()         // closes it
	ops       sync.WaitGroup // calls under way and the armed timer

	// Only the holder of the append lock within this Log uses these.
	end  int64   // where this Log's last write and its line end: set by add and settle; 0 (unknown) after swap, before a write
	last [1]byte // a buffer

	moving sync.Mutex // held while this Log gives the name to a copy and moves to it

	mu       sync.Mutex              // guards the fields below; never held across I/O
	closed   bool                    // set by Close
	written  uint64                  // counts the writes of this Log: wrote
	synced   uint64                  // the last write known to be on stable storage: set by syncNow, compare and cure
	dirty    extent                  // written parts not covered by a sync: grown by wrote, emptied by the three that set synced
	unsynced unsynced                // their bytes, if the policy needs them: grown and emptied with dirty
	failed   *driver.NotDurableError // the first failed sync: set by syncNow, compare and cure, cleared by cure
	timer    *time.Timer             // armed by wrote under SyncInterval, cleared by tick
}

// Open opens the existing regular file that name refers to within root. It
// refuses symbolic links, folders, FIFOs and devices. A missing file matches
// [fs.ErrNotExist]; nothing is created.
//
// Root must stay open as long as the Log is used. Every append looks the name
// up, which costs less when root is the file's own folder.
func Open(root *os.Root, name string, opts *Options) (*Log, error) {
	if opts == nil {
		opts = new(Options)
	}
	f, err := openNamed(root, name, opts)
	if err != nil {
		return nil, openError(root, name, err)
	}
	return newLog(root, name, f, opts), nil
}

func openError(root *os.Root, name string, err error) error {
	return &Error{Op: "open", Path: fullPath(root, name), Fix: "check that the file exists and that this user may use it", Err: cause(err)}
}

func newLog(root *os.Root, name string, f *opened, opts *Options) *Log {
	ended := make(chan struct{})
	l := &Log{
		root:      root,
		name:      name,
		path:      fullPath(root, name),
		opts:      *opts,
		appending: make(chan struct{}, 1),
		leading:   make(chan struct{}, 1),
		ended:     ended,
		interrupt: sync.OnceFunc(func() { close(ended) }),
	}
	l.current.Store(f)
	return l
}

// file is the last known file of the name.
func (l *Log) file() file { return l.current.Load().file }

// fail returns an Error about the log's file.
func (l *Log) fail(op string, err error) error { return newError(op, l.path, err) }

// begin registers a call, so that Close waits for its ops.Done.
func (l *Log) begin(op string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.fail(op, ErrClosed)
	}
	l.ops.Add(1)
	return nil
}

// lookup looks the name up. It fails with [ErrReplaced] if the name no longer
// refers to the file.
func (l *Log) lookup(op string) (look, error) {
	for {
		f := l.current.Load()
		now, err := f.Lookup()
		if err == nil {
			return now, nil
		}
		if !errors.Is(err, ErrReplaced) {
			return look{}, l.fail(op, err)
		}
		l.moving.Lock() // a copy by this Log may have taken the name
		moved := f != l.current.Load()
		l.moving.Unlock()
		if !moved {
			return look{}, l.fail(op, ErrReplaced)
		}
	}
}

// owed returns the number of this Log's last write.
func (l *Log) owed() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written
}

// Failed returns the first failed sync of this Log since it was opened or
// recovered, or nil: a sync of a call or one in the background. A Log that has
// failed acknowledges nothing more before [Log.Recover]. Only this Log has the
// error: opened anew, the file looks sound.
func (l *Log) Failed() *driver.NotDurableError {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// ReadAt implements [io.ReaderAt] on the file. It takes no lock, so bytes after
// the last '\n' may be a write in progress. It still works after another file
// has taken the name.
func (l *Log) ReadAt(p []byte, off int64) (int, error) {
	if err := l.begin("read"); err != nil {
		return 0, err
	}
	defer l.ops.Done()
	for {
		f := l.current.Load()
		n, err := f.ReadAt(p, off) // io.EOF must come through as it is
		if errors.Is(err, fs.ErrClosed) && f != l.current.Load() {
			continue // a copy has just taken its place
		}
		return n, err
	}
}

// Interrupt makes the calls that wait for a lock, now or later, give up with
// [ErrClosed]; a free lock is still taken. Everything else continues, and the
// Log must still be closed. It is for a caller that waits for its own calls
// before it calls Close. It may be called several times.
func (l *Log) Interrupt() { l.interrupt() }

// A written describes the changes of one call to the file.
type written struct {
	tail  int64  // the end of the tail it ended, or 0
	lines extent // its bytes
	seq   uint64 // its last write, or 0
	cured Synced // the cure, if the call had to make one
}
