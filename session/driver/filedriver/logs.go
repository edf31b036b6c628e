package filedriver

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript/filelog"
)

// logs keeps the logs that are in use open, and some that were in use lately.
type logs struct {
	idle int  // how many unused ones stay open
	owes bool // whether closing a log may sync it
	log  *slog.Logger
	// failed is (*filelog.Log).Failed, but in tests.
	failed func(*filelog.Log) *filelog.NotDurableError

	mu     sync.Mutex // guards what follows; never held while a log is synced
	open   map[driver.Ref]*openLog
	stale  map[*openLog]bool // in use, and no longer in open
	order  *list.List        // of *openLog: those that were released last come first, among the others those in use
	unused int               // how many of them nobody uses and may be closed
	ending bool              // nobody is to wait for a lock any more
	closed bool
}

type openLog struct {
	ref    driver.Ref
	log    *filelog.Log
	users  int
	uses   int           // so far
	place  *list.Element // in the order
	unused bool          // counted as such
	// A log whose file is gone is closed by its last user.
	stale bool
	// looked is set once index.suspect has passed on which bytes dead writers may
	// have left, checked once a call has succeeded since: the log is then sound.
	looked, checked atomic.Bool
	// The lines that conditional appends have read; guarded by the append lock.
	seen seen
}

func newLogs(d *Driver, idle int) *logs {
	return &logs{
		idle: idle, owes: d.opts.Sync != filelog.SyncNever, log: d.log, failed: (*filelog.Log).Failed,
		open: map[driver.Ref]*openLog{}, stale: map[*openLog]bool{}, order: list.New(),
	}
}

// acquire returns the log of a session for use until release.
func (ls *logs) acquire(ref driver.Ref, open func() (*filelog.Log, error)) (*openLog, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.closed {
		return nil, driver.ErrClosed
	}
	o := ls.open[ref]
	if o == nil {
		l, err := open()
		if err != nil {
			return nil, err
		}
		if ls.ending {
			l.Interrupt()
		}
		o = &openLog{ref: ref, log: l}
		o.place = ls.order.PushFront(o)
		ls.open[ref] = o
	}
	ls.use(o)
	return o, nil
}

func (ls *logs) use(o *openLog) {
	if o.unused {
		o.unused = false
		ls.unused--
	}
	o.users++
	o.uses++
}

// release ends a use. err is how it ended; the error that is returned says why
// if the log was closed meanwhile. A failure to close other logs does not
// concern the caller and goes to the logger.
func (ls *logs) release(o *openLog, err error) error {
	ls.mu.Lock()
	if errors.Is(err, filelog.ErrReplaced) {
		ls.forget(o)
	}
	if errors.Is(err, filelog.ErrClosed) {
		why := driver.ErrClosed
		if o.stale {
			why = filelog.ErrReplaced
		}
		err = fmt.Errorf("%w: %w", why, err)
	}
	victims := ls.unuse(o)
	ls.mu.Unlock()
	for _, v := range victims {
		ls.evict(v)
	}
	return err
}

// unuse ends a use and returns the logs that have to go, each used once more
// by the caller. It is called with ls.mu held.
func (ls *logs) unuse(o *openLog) (victims []*openLog) {
	if o.users--; o.users > 0 || ls.closed {
		return nil
	}
	if o.stale {
		o.users++
		return []*openLog{o}
	}
	// A log whose sync failed must stay: closing it would forget that.
	if ls.failed(o.log) != nil {
		return nil
	}
	ls.rest(o)
	for e := ls.order.Back(); e != nil && ls.unused > ls.idle; e = e.Prev() {
		if last, ok := e.Value.(*openLog); ok && last.unused {
			ls.use(last)
			victims = append(victims, last)
		}
	}
	return victims
}

// rest makes o the latest of those that nobody uses. It is called with ls.mu
// held.
func (ls *logs) rest(o *openLog) {
	o.unused = true
	ls.unused++
	ls.order.MoveToFront(o.place)
}

// evict closes a log that the caller has in use, unless somebody else uses it
// meanwhile, or its sync fails.
func (ls *logs) evict(o *openLog) {
	ls.mu.Lock()
	uses := o.uses
	ls.mu.Unlock()
	if ls.owes && ls.failed(o.log) == nil {
		// So that closing has nothing left to sync: whoever opens the file
		// while it is closed would not learn of a failure.
		if err := o.log.Flush(context.Background()); err != nil {
			ls.log.Warn("a transcript that is not in use could not be synced", "agent", o.ref.Agent, "session", o.ref.ID, "err", err)
		}
	}
	ls.mu.Lock()
	o.users--
	switch {
	case o.users > 0 || ls.closed || !o.stale && ls.failed(o.log) != nil:
		ls.mu.Unlock()
		return
	case !o.stale && o.uses != uses:
		ls.rest(o) // it is one of the latest after all
		ls.mu.Unlock()
		return
	}
	delete(ls.stale, o)
	ls.order.Remove(o.place)
	if ls.open[o.ref] == o {
		delete(ls.open, o.ref)
	}
	ls.mu.Unlock()
	if err := o.log.Close(); err != nil {
		ls.log.Warn("closing a transcript failed", "agent", o.ref.Agent, "session", o.ref.ID, "err", err)
	}
}

// adopt takes a log that was opened for a session that nobody has used yet.
func (ls *logs) adopt(ref driver.Ref, l *filelog.Log) error {
	o, err := ls.acquire(ref, func() (*filelog.Log, error) { return l, nil })
	if err != nil {
		return err
	}
	if o.log != l { // somebody was faster
		err = l.Close()
	}
	return errors.Join(err, ls.release(o, nil))
}

// drop closes a session's log as soon as nobody uses it. A call that waits for
// one of its locks fails with ErrReplaced.
func (ls *logs) drop(ref driver.Ref) {
	ls.mu.Lock()
	o := ls.open[ref]
	if o == nil {
		ls.mu.Unlock()
		return
	}
	ls.use(o)
	ls.forget(o)
	ls.mu.Unlock()
	_ = ls.release(o, nil) // never an error
}

func (ls *logs) forget(o *openLog) {
	o.stale = true
	ls.stale[o] = true
	if ls.open[o.ref] == o {
		delete(ls.open, o.ref)
	}
	o.log.Interrupt()
}

// interrupt ends the waits for a lock, now and later.
func (ls *logs) interrupt() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.ending = true
	for _, o := range ls.open {
		o.log.Interrupt()
	}
}

// close closes all logs. Only loops over a Scan may still have one in use.
func (ls *logs) close() error {
	ls.mu.Lock()
	ls.closed = true
	var all []*openLog
	for _, o := range ls.open {
		all = append(all, o)
	}
	for o := range ls.stale {
		all = append(all, o)
	}
	ls.mu.Unlock()
	var errs []error
	for _, o := range all {
		if err := o.log.Close(); !errors.Is(err, filelog.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// checked reports whether the log of a session is open and what dead writers may
// have left in the page cache is known to be on the disk.
func (ls *logs) checked(ref driver.Ref) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	o := ls.open[ref]
	return o != nil && o.checked.Load()
}

// unsynced returns the offset of the first byte that this process has written
// to a session and not synced, at most size.
func (ls *logs) unsynced(ref driver.Ref, size int64) int64 {
	ls.mu.Lock()
	o := ls.open[ref]
	ls.mu.Unlock()
	if o == nil || !ls.owes {
		return size
	}
	return min(size, o.log.Unsynced())
}
