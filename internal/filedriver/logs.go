package filedriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

func (a *agent) acquire(ref driver.Ref) (o *openLog, err error) {
	for range tries {
		o, err = a.d.logs.acquire(ref, func() (*filelog.Log, error) { return a.openLog(ref) })
		if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) { // the latter: an invalid name
			return o, err
		}
		if _, err := a.live(ref.ID); err != nil {
			return nil, err
		}
	}
	return nil, err
}

// use calls f with the open log of a session.
func (a *agent) use(ref driver.Ref, f func(o *openLog) error) (err error) {
	o, err := a.acquire(ref)
	if err != nil {
		return err
	}
	defer func() { err = a.cause(ref, a.d.logs.release(o, err)) }() // even if a function of the caller panics
	return f(o)
}

// cause returns err with the reason why a log was replaced.
func (a *agent) cause(ref driver.Ref, err error) error {
	if !errors.Is(err, filelog.ErrReplaced) {
		return err
	}
	_, liveErr := a.live(ref.ID)
	if !errors.Is(liveErr, driver.ErrArchived) { // the archive may have the same bytes
		a.d.setMark(ref, mark{}) // the caller learns of it
	}
	_, failed := errors.AsType[*driver.NotDurableError](err)
	switch {
	case errors.Is(liveErr, driver.ErrArchived) && failed:
		return fmt.Errorf("%w: %w", liveErr, err)
	case errors.Is(liveErr, driver.ErrArchived):
		return liveErr
	case errors.Is(liveErr, fs.ErrNotExist):
		return fmt.Errorf("%w: %w: %w", driver.ErrReplaced, fs.ErrNotExist, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrReplaced, err)
}

func newLogs(d *Driver, limit int) *logs {
	return &logs{d: d, limit: max(limit, 0), failed: (*filelog.Log).Failed, open: map[driver.Ref]*openLog{}}
}

// acquire returns the log of a session for use until release.
func (ls *logs) acquire(ref driver.Ref, open func() (*filelog.Log, error)) (*openLog, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.open == nil {
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
		ls.open[ref] = o
	}
	ls.uses++
	o.used, o.evicted = ls.uses, false
	o.users++
	return o, nil
}

// closedLog is for acquire when it must open no log.
func closedLog() (*filelog.Log, error) { return nil, fs.ErrNotExist }

// release ends a use with the error err, which it returns by way of ended. A
// failure to close other logs does not concern the caller and is logged.
func (ls *logs) release(o *openLog, err error) error {
	ls.mu.Lock()
	if err != nil {
		err = ls.ended(o, err)
	}
	o.users--
	done := o.users == 0 && o.stale
	old := ls.surplus()
	ls.mu.Unlock()
	if done {
		ls.shut(o)
	}
	if old != nil {
		ls.evict(old)
	}
	return err
}

// ended returns the error of a failed use. It gives the reason if the log was closed
// during the use, and adds the log's failed sync if its file was replaced. Except
// filelog.ErrReplaced, which is for [agent.cause], errors are in terms of package
// driver. The caller holds ls.mu.
func (ls *logs) ended(o *openLog, err error) error {
	if errors.Is(err, filelog.ErrReplaced) {
		o.stale = true
		ls.d.replaced(o.ref)
		if ls.open[o.ref] == o {
			delete(ls.open, o.ref) // the next call opens the file anew
		}
		o.log.Interrupt()
		if failed := ls.failed(o.log); failed != nil { // the new one lacks this error
			err = fmt.Errorf("%w: %w", err, failed)
		}
	}
	if o.stale && errors.Is(err, filelog.ErrClosed) {
		return fmt.Errorf("%w: %w", filelog.ErrReplaced, err)
	}
	return lockError(err)
}

// surplus returns the unused log that was used longest ago, for the caller to evict, if
// there are too many. The caller holds ls.mu.
func (ls *logs) surplus() (old *openLog) {
	if len(ls.open) <= ls.limit {
		return nil
	}
	idle := 0
	for _, o := range ls.open {
		if o.users == 0 && !o.evicted {
			if idle++; old == nil || o.used < old.used {
				old = o
			}
		}
	}
	if idle <= ls.limit {
		return nil
	}
	old.evicted = true
	return old
}

// evict closes a log unless it is used again. A log with a failed sync stays: closing
// it would forget the failure.
func (ls *logs) evict(o *openLog) {
	if ls.failed(o.log) == nil && o.log.Owes() {
		// Then closing does not sync: a log opened just before would not learn
		// of a failure.
		if err := o.log.Sync(context.Background()); err != nil {
			ls.d.log.Warn("a transcript that is not in use could not be synced", "agent", o.ref.Agent, "session", o.ref.ID, "err", err)
		}
	}
	ls.mu.Lock()
	// A short use since then may have left something to sync.
	done := o.users == 0 && ls.open[o.ref] == o &&
		ls.failed(o.log) == nil && !o.log.Owes() && ls.d.remember(o.ref, o.log)
	if done {
		delete(ls.open, o.ref)
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

// drop closes a session's log as soon as it is idle. A call that waits for one
// of its locks fails with ErrReplaced.
func (ls *logs) drop(ref driver.Ref) {
	o, err := ls.acquire(ref, closedLog)
	if err == nil {
		_ = ls.release(o, filelog.ErrReplaced)
	}
}

// interrupt ends all waits for a lock, now and later: Close has begun.
func (ls *logs) interrupt() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, o := range ls.open {
		o.log.Interrupt()
	}
}

// close closes all logs, even if a loop over a Scan still uses one.
func (ls *logs) close() error {
	ls.mu.Lock()
	all := slices.Collect(maps.Values(ls.open))
	ls.open = nil
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
		o.Observe = func(ctx context.Context, e filelog.Event) {
			own, _ := ctx.Value(caller{}).(context.Context)
			f(cmp.Or(own, ctx), ref, e)
		}
	}
	return o
}

func (a *agent) openLog(ref driver.Ref) (*filelog.Log, error) {
	if err := driver.CheckRef(ref); err != nil {
		return nil, err
	}
	l, err := filelog.Open(a.sess, fileName(ref.ID), a.logOptions(ref))
	if err != nil {
		return nil, err
	}
	if err := a.d.identify(ref, l, func() { a.d.remember(ref, l) }); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (d *Driver) mark(ref driver.Ref) mark {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.marks[ref]
}

func (d *Driver) setMark(ref driver.Ref, m mark) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.marks[ref] = m; m == (mark{}) {
		delete(d.marks, ref)
	}
}

// remember marks a transcript as it is. It reports false, and changes nothing,
// during an append, because that may be taken back, and if the file cannot be read.
func (d *Driver) remember(ref driver.Ref, l *filelog.Log) bool {
	size, ok, err := l.TrySize()
	switch {
	case errors.Is(err, filelog.ErrReplaced):
		d.setMark(ref, mark{size: -1})
	case ok && err == nil:
		m, err := markOf(l, size)
		if err != nil {
			return false
		}
		d.setMark(ref, m)
	}
	return ok || err != nil
}

// identify returns an error, once, if a transcript or an archive is not the one that this
// driver last opened or closed under its name. Then note marks it.
func (d *Driver) identify(ref driver.Ref, r io.ReaderAt, note func()) error {
	fits, err := d.mark(ref).fits(r)
	if err != nil {
		return err
	}
	if !fits {
		d.replaced(ref)
		d.setMark(ref, mark{})
		err = madeAgain(ref.ID)
	}
	note()
	return err
}

func (d *Driver) replaced(ref driver.Ref) {
	if f := d.opts.Replaced; f != nil {
		f(ref)
	}
}

func madeAgain(id string) error {
	return fmt.Errorf("%w: session %s was deleted and made again, or something was erased from it", driver.ErrReplaced, id)
}
