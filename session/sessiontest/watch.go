package sessiontest

import (
	"errors"
	"sync/atomic"

	"github.com/convolog/convolog/session/driver"
)

var watchRules = []rule{
	{"watch/changed", "Watch calls changed after lines were appended to a session, and after it was created, replaced or deleted, by any process.", watchChanged},
	{"watch/stop", "After stop has returned, changed is not called any more.", watchStop},
	{"watch/close", "A call with an error is the last one: the driver was closed, which matches [ErrClosed]", watchClose},
}

// watch begins a watch, or skips the rule if the driver cannot watch.
func (c *check) watch(d driver.Driver, ref driver.Ref, changed func(driver.Ref, error)) (stop func()) {
	w, ok := d.(driver.Watcher)
	if !ok {
		c.skip(errors.ErrUnsupported)
	}
	c.calling("Watch")
	stop, err := w.Watch(ref, changed)
	if err != nil {
		c.skip(errors.Join(errors.ErrUnsupported, err))
	}
	return stop
}

// hear begins a watch. The returned function waits for a call about a session, or with
// an error.
func (c *check) hear(d driver.Driver, ref driver.Ref) func(what string, about driver.Ref, want error) {
	type told struct {
		ref driver.Ref
		err error
	}
	all := make(chan told, 1000)
	c.watch(d, ref, func(ref driver.Ref, err error) {
		select {
		case all <- told{ref, err}:
		default:
		}
	})
	return func(what string, about driver.Ref, want error) {
		for {
			select {
			case t := <-all:
				if want != nil && errors.Is(t.err, want) || want == nil && t.err == nil && (t.ref == about || t.ref == driver.Ref{}) {
					return
				}
			case <-c.ctx.Done():
				c.fatalf("a watch of %q does not report %s", ref, what)
			}
		}
	}
}

func watchChanged(c *check) {
	d, other, ref := c.startSession()
	one, all := c.hear(d, ref), c.hear(d, driver.Ref{})
	for range 10 {
		c.append(other, ref, c.triple("a")...)
		one("an append", ref, nil)
		all("an append", ref, nil)
	}
	made := c.create(other, driver.KeyRef{Agent: "other", Key: "k"}).Ref()
	all("a new session of a new agent", made, nil)
	c.append(other, made, c.triple("a")...)
	all("an append to a new session", made, nil)
	c.delete(other, ref)
	one("a deletion", ref, nil)
	all("a deletion", ref, nil)
}

func watchStop(c *check) {
	d, _, ref := c.startSession()
	for range 20 {
		var stopped, late atomic.Bool
		stop := c.watch(d, ref, func(driver.Ref, error) { late.Store(late.Load() || stopped.Load()) })
		c.append(d, ref, c.triple("a")...)
		stop()
		stopped.Store(true)
		stop() // again does nothing
		c.append(d, ref, c.triple("a")...)
		c.ids(d, ref)
		if late.Load() {
			c.fatalf("changed was called after stop had returned")
		}
	}
}

func watchClose(c *check) {
	d, _, ref := c.startSession()
	one, all := c.hear(d, ref), c.hear(d, driver.Ref{})
	c.stop(d)
	one("Close", ref, driver.ErrClosed)
	all("Close", ref, driver.ErrClosed)
}
