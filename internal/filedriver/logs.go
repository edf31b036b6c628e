package filedriver

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/session/driver"
)

// logs keeps the logs that are in use open, and some that were in use lately.
type logs struct {
	d     *Driver
	limit int // how many unused ones stay open
	// failed is (*filelog.Log).Failed, but in tests.
	failed func(*filelog.Log) *driver.NotDurableError

	mu     sync.Mutex // guards the fields below; never held while a log is synced
	open   map[driver.Ref]*openLog
	order  *list.List // of *openLog: the one used last comes first
	idle   int        // the number of idle ones that may be closed
	closed bool       // by close
}

type openLog struct {
	ref   driver.Ref
	log   *filelog.Log
	users int
	place *list.Element // in the order
	idle  bool          // counted in logs.idle: unused, and no call is evicting it
	stale bool          // its file was removed, and its last user closes it
}

func newLogs(d *Driver, limit int) *logs {
	return &logs{
		d: d, limit: max(limit, 0), failed: (*filelog.Log).Failed,
		open: map[driver.Ref]*openLog{}, order: list.New(),
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
		if ls.d.closing.Err() != nil {
			l.Interrupt()
		}
		o = &openLog{ref: ref, log: l}
		o.place = ls.order.PushFront(o)
		ls.open[ref] = o
	}
	ls.rouse(o)
	ls.order.MoveToFront(o.place)
	o.users++
	return o, nil
}

// rouse makes a log one that may not be closed. It is called with ls.mu held.
func (ls *logs) rouse(o *openLog) {
	if o.idle {
		o.idle = false
		ls.idle--
	}
}

// release ends a use. err is its error, which is returned by way of ended. A
// failure to close other logs does not concern the caller and goes to the logger.
func (ls *logs) release(o *openLog, err error) error {
	ls.mu.Lock()
	if err != nil {
		err = ls.ended(o, err)
	}
	o.users--
	unused, stale := o.users == 0, o.stale
	if unused && !stale && !ls.closed {
		o.idle = true
		ls.idle++
	}
	full := ls.idle > ls.limit
	ls.mu.Unlock()
	if unused && stale {
		ls.shut(o)
	}
	if full {
		ls.evict()
	}
	return err
}

// ended returns the error of a failed use: the reason if the log was closed during it,
// and its failed sync if it is closed because its file was removed. But for
// filelog.ErrReplaced, which is for [agent.cause], it is in terms of package driver. It
// is called with ls.mu held.
func (ls *logs) ended(o *openLog, err error) error {
	if errors.Is(err, filelog.ErrReplaced) {
		o.stale = true
		ls.remove(o) // the next call opens the file anew
		o.log.Interrupt()
		if failed := ls.failed(o.log); failed != nil { // and is unaware of it
			err = fmt.Errorf("%w: %w", err, failed)
		}
	}
	if o.stale && errors.Is(err, filelog.ErrClosed) {
		return fmt.Errorf("%w: %w", filelog.ErrReplaced, err)
	}
	return lockError(err)
}

// oldest returns the idle log used longest ago, or nil. It is called with ls.mu
// held.
func (ls *logs) oldest() *openLog {
	for e := ls.order.Back(); e != nil; e = e.Prev() {
		if o, _ := e.Value.(*openLog); o.idle {
			return o
		}
	}
	return nil
}

// evict closes the log used longest ago, unless it is used again. One whose sync
// failed stays: closing it would forget that.
func (ls *logs) evict() {
	ls.mu.Lock()
	o := ls.oldest()
	if o == nil {
		ls.mu.Unlock()
		return
	}
	ls.rouse(o) // concurrent calls evict another one
	ls.mu.Unlock()
	if ls.failed(o.log) == nil && o.log.Unsynced() < math.MaxInt64 {
		// So that closing does not sync: a log opened in between would
		// not learn of a failure.
		if err := o.log.Sync(context.Background()); err != nil {
			ls.d.log.Warn("a transcript that is not in use could not be synced", "agent", o.ref.Agent, "session", o.ref.ID, "err", err)
		}
	}
	ls.mu.Lock()
	// A use that has come and gone since may have left it something to sync.
	done := o.users == 0 && ls.open[o.ref] == o && !ls.closed &&
		ls.failed(o.log) == nil && o.log.Unsynced() == math.MaxInt64
	if done {
		ls.remove(o)
	}
	ls.mu.Unlock()
	if done {
		ls.shut(o)
	}
}

func (ls *logs) shut(o *openLog) {
	if err := o.log.Close(); err != nil {
		ls.d.log.Warn("closing a transcript failed", "agent", o.ref.Agent, "session", o.ref.ID, "err", err)
	}
}

// adopt takes a log that was opened for a new session.
func (ls *logs) adopt(ref driver.Ref, l *filelog.Log) error {
	o, err := ls.acquire(ref, func() (*filelog.Log, error) { return l, nil })
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if o.log != l { // another call was faster
		err = l.Close()
	}
	return errors.Join(err, ls.release(o, nil))
}

// drop closes a session's log as soon as it is idle. A call that waits for one
// of its locks fails with ErrReplaced.
func (ls *logs) drop(ref driver.Ref) {
	o, err := ls.acquire(ref, func() (*filelog.Log, error) { return nil, fs.ErrNotExist })
	if err == nil {
		_ = ls.release(o, filelog.ErrReplaced)
	}
}

// remove takes a log out of those that are open. It is called with ls.mu held.
func (ls *logs) remove(o *openLog) {
	ls.rouse(o)
	ls.order.Remove(o.place)
	if ls.open[o.ref] == o {
		delete(ls.open, o.ref)
	}
}

// interrupt ends the waits for a lock. Close has begun, so later ones end as well.
func (ls *logs) interrupt() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, o := range ls.open {
		o.log.Interrupt()
	}
}

// close closes all logs, also those that a loop over a Scan still uses.
func (ls *logs) close() error {
	ls.mu.Lock()
	ls.closed = true
	all := slices.Collect(maps.Values(ls.open))
	ls.mu.Unlock()
	var errs []error
	for _, o := range all {
		if err := o.log.Close(); !errors.Is(err, filelog.ErrClosed) { // a last user may have closed it
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (a *agent) logOptions(ref driver.Ref) *filelog.Options {
	o := &filelog.Options{Sync: a.d.opts.Sync, ReadOnly: a.d.opts.ReadOnly, Folder: a.sessFile}
	if f := a.d.opts.Observe; f != nil {
		o.Observe = func(ctx context.Context, e filelog.Event) { f(ctx, ref, e) }
	}
	return o
}

func (a *agent) openLog(ref driver.Ref) (*filelog.Log, error) {
	if err := driver.CheckRef(ref); err != nil {
		return nil, err
	}
	l, err := filelog.Open(a.sess, fileName(ref.ID), a.logOptions(ref))
	if err == nil && !a.d.identify(ref, l) {
		err = errors.Join(madeAgain(ref.ID), l.Close())
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// fileName returns the name of a transcript. One known only by its hashed name
// goes by that name, which is too long for an ID.
func fileName(id string) string {
	if enc, ok := strings.CutSuffix(id, extension); ok && filename.IsHashed(enc) {
		return id
	}
	return EncodeName(id) + extension
}

// forgetIdentity makes the next open of a transcript take it as it is.
func (d *Driver) forgetIdentity(ref driver.Ref) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.ids, ref)
}

// identify reports whether a transcript is the one that had its name when this
// driver last opened it: whether its first line, which holds the time at which
// it was made, is the same. The new identity is remembered. An open log
// notices by itself that its file was replaced; this is for one that was closed
// in between.
func (d *Driver) identify(ref driver.Ref, l *filelog.Log) bool {
	id, whole := identity(l)
	if !whole {
		return true // not even the first line is finished
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	was, known := d.ids[ref]
	d.ids[ref] = id
	return !known || was == id
}
