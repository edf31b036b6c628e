package filedriver

import (
	"container/list"
	"errors"
	"sync"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript/filelog"
)

// logs keeps the logs that are in use open, and some that were in use lately.
type logs struct {
	idle int // how many unused ones stay open

	mu     sync.Mutex // guards what follows
	open   map[driver.Ref]*openLog
	unused *list.List // of *openLog, the latest first
}

type openLog struct {
	ref    driver.Ref
	log    *filelog.Log
	users  int
	unused *list.Element // nil while in use
	// A log whose sync failed must stay: closing it would forget that.
	failed bool
	// A log whose file is gone is closed by its last user.
	stale bool
}

func newLogs(idle int) *logs {
	return &logs{idle: idle, open: map[driver.Ref]*openLog{}, unused: list.New()}
}

// acquire returns the log of a session for use until release.
func (ls *logs) acquire(ref driver.Ref, open func() (*filelog.Log, error)) (*openLog, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	o := ls.open[ref]
	if o == nil {
		l, err := open()
		if err != nil {
			return nil, err
		}
		o = &openLog{ref: ref, log: l}
		ls.open[ref] = o
	}
	if o.unused != nil {
		ls.unused.Remove(o.unused)
		o.unused = nil
	}
	o.users++
	return o, nil
}

// release ends a use. err is how it ended.
func (ls *logs) release(o *openLog, err error) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	o.users--
	if _, ok := errors.AsType[*filelog.NotDurableError](err); ok {
		o.failed = true
	}
	if errors.Is(err, filelog.ErrReplaced) {
		ls.forget(o)
	}
	if o.users > 0 {
		return nil
	}
	if o.stale {
		return o.log.Close()
	}
	if o.failed {
		return nil
	}
	o.unused = ls.unused.PushFront(o)
	if ls.unused.Len() <= ls.idle {
		return nil
	}
	last, ok := ls.unused.Remove(ls.unused.Back()).(*openLog)
	if !ok {
		return nil
	}
	delete(ls.open, last.ref)
	return last.log.Close()
}

// adopt takes a log that was opened for a session that nobody has used yet.
func (ls *logs) adopt(ref driver.Ref, l *filelog.Log) error {
	o, err := ls.acquire(ref, func() (*filelog.Log, error) { return l, nil })
	if err != nil {
		return err
	}
	return ls.release(o, nil)
}

// drop closes a session's log as soon as nobody uses it.
func (ls *logs) drop(ref driver.Ref) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	o := ls.open[ref]
	if o == nil {
		return nil
	}
	ls.forget(o)
	if o.users > 0 {
		return nil
	}
	if o.unused != nil {
		ls.unused.Remove(o.unused)
		o.unused = nil
	}
	return o.log.Close()
}

func (ls *logs) forget(o *openLog) {
	o.stale = true
	if ls.open[o.ref] == o {
		delete(ls.open, o.ref)
	}
}

// close closes all logs. None is in use.
func (ls *logs) close() error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var errs []error
	for _, o := range ls.open {
		errs = append(errs, o.log.Close())
	}
	ls.open = nil
	return errors.Join(errs...)
}
