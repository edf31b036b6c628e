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

// A told is one call of a watch.
type told struct {
	ref driver.Ref
	err error
}

// hear begins a watch that sends its calls to a channel.
func (c *check) hear(d driver.Driver, ref driver.Ref) <-chan told {
	all := make(chan told, 1000)
	c.watch(d, ref, func(ref driver.Ref, err error) {
		select {
		case all <- told{ref, err}:
		default:
		}
	})
	return all
}

// wantTold waits until a watch had the wanted call.
func (c *check) wantTold(what string, all <-chan told, fits func(told) bool) {
	for {
		select {
		case t := <-all:
			if fits(t) {
				return
			}
		case <-c.ctx.Done():
			c.fatalf("nothing was said about %s", what)
		}
	}
}

func watchChanged(c *check) {
	d, other := c.startTwo()
	row := c.create(d, keyK)
	about := func(ref driver.Ref) func(told) bool {
		return func(t told) bool { return t.err == nil && (t.ref == ref || t.ref == driver.Ref{}) }
	}
	one, all := c.hear(d, row.Ref()), c.hear(d, driver.Ref{})
	for range 10 {
		c.append(other, row.Ref(), c.triple(c.id())...)
		c.wantTold("an append to the session that is watched", one, about(row.Ref()))
		c.wantTold("an append, all sessions being watched", all, about(row.Ref()))
	}
	made := c.create(other, driver.KeyRef{Agent: "other", Key: "k"})
	c.wantTold("a new session of a new agent", all, about(made.Ref()))
	c.append(other, made.Ref(), c.triple(c.id())...)
	c.wantTold("an append to a new session", all, about(made.Ref()))
	c.delete(other, row.Ref())
	c.wantTold("the end of the session that is watched", one, about(row.Ref()))
	c.wantTold("the end of a session", all, about(row.Ref()))
}

func watchStop(c *check) {
	d, _, ref := c.startSession()
	for range 20 {
		var stopped, late atomic.Bool
		stop := c.watch(d, ref, func(driver.Ref, error) {
			if stopped.Load() {
				late.Store(true)
			}
		})
		c.append(d, ref, c.triple(c.id())...)
		stop()
		stopped.Store(true)
		stop() // again does nothing
		c.append(d, ref, c.triple(c.id())...)
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
	ended := func(t told) bool { return errors.Is(t.err, driver.ErrClosed) }
	c.wantTold("Close", one, ended)
	c.wantTold("Close, all sessions being watched", all, ended)
}
