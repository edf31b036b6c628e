package sessiontest

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/convolog/convolog/session/driver"
)

const (
	textLock = "LockTurn takes the turn lock of a session, which is released when release is called or the process ends. ... If wait is false and the lock is held, the error matches [ErrBusy]"
	textWait = "if it is true LockTurn waits until ctx is done, and the error then matches both, even if ctx was done before the call."
)

var turnRules = []rule{
	{"turn/exclusive", textLock, turnExclusive},
	{"turn/release", textLock, turnRelease},
	{"turn/independent", textLock, turnIndependent},
	{"turn/wait", textWait, turnWait},
	{"close/turn", "Calls that wait for a lock give up with [ErrClosed].", closeTurn},
}

// lockTurn takes a turn lock that must be free.
func (c *check) lockTurn(d driver.Driver, ref driver.Ref) (release func() error) {
	c.calling("LockTurn")
	release, err := d.LockTurn(c.ctx, ref, false)
	if errors.Is(err, errors.ErrUnsupported) {
		c.skip(err)
	}
	c.noErr("LockTurn of a free lock", err)
	return release
}

// wantLock takes a turn lock, or checks that it cannot be taken with these errors.
func (c *check) wantLock(when string, ctx context.Context, ref driver.Ref, wait bool, ds []driver.Driver, targets ...error) {
	for _, d := range ds {
		c.calling("LockTurn " + when)
		err := lockError(ctx, d, ref, wait)
		c.wantErr("LockTurn "+when, err, targets...)
		c.errorIf(len(targets) == 0 && err != nil, "LockTurn %s: unexpected error %v", when, err)
	}
}

func turnExclusive(c *check) {
	d, other, ref := c.startSession()
	c.noErr("release", c.lockTurn(d, ref)())
	var inside atomic.Int64
	const rounds = 10
	c.together(writers, d, other, func(_ int, d driver.Driver) {
		for range rounds {
			release, err := d.LockTurn(c.ctx, ref, true)
			c.noErr("LockTurn", err)
			n := inside.Add(1)
			c.errorIf(n != 1, "%d callers hold one turn lock", n)
			for range 10 {
				runtime.Gosched() // an intruder would come in
			}
			c.append(d, ref, c.note("in a turn"))
			inside.Add(-1)
			c.noErr("release", release())
		}
	})
	n := len(c.ids(d, ref)) - 1
	c.errorIf(n != writers*rounds, "%d of %d callers got the turn lock and appended", n, writers*rounds)
}

func turnRelease(c *check) {
	d, other, ref := c.startSession()
	both := []driver.Driver{d, other}
	first := c.lockTurn(d, ref)
	for range 2 {
		c.wantLock("while it is held", c.ctx, ref, false, both, driver.ErrBusy)
	}
	c.noErr("release", first())
	c.wantLock("after it was released", c.ctx, ref, false, both)
	second := c.lockTurn(other, ref)
	c.calling("release")
	_ = first() // may report that it is too late
	c.wantLock("after an earlier holder has released it twice", c.ctx, ref, false, both, driver.ErrBusy)
	c.noErr("release", second())
	c.wantLock("after it was released", c.ctx, ref, false, both)
}

func turnIndependent(c *check) {
	d, other, a := c.startSession()
	both := []driver.Driver{d, other}
	elsewhere, err := c.make(d, driver.KeyRef{Agent: "other", Key: "k"}, a.ID, nil)
	c.noErr("Create", err)
	b := c.create(d, keyK).Ref()
	release := c.lockTurn(d, a)
	for _, ref := range []driver.Ref{b, elsewhere.Ref()} {
		c.wantLock("of another session", c.ctx, ref, false, both)
	}
	want := c.state(d)
	for _, d := range both {
		lines := c.triple("in a turn")
		c.append(d, a, lines...)
		want.append(a, lines...)
		c.put(d, c.get(d, a))
	}
	row, l := c.setCurrent(d, a)
	want.current(row, l)
	c.wantLock("after appends", c.ctx, a, false, both, driver.ErrBusy)
	c.wantState("after calls during a turn", want, both...)
	c.noErr("release", release())
}

func turnWait(c *check) {
	d, other, ref := c.startSession()
	both := []driver.Driver{d, other}
	done, cancel := context.WithCancel(c.ctx)
	cancel()
	for _, waiter := range both {
		release := c.lockTurn(d, ref)
		ctx, cancel := context.WithTimeout(c.ctx, 5*time.Millisecond)
		c.wantLock("that waits until its context is done", ctx, ref, true, []driver.Driver{waiter}, driver.ErrBusy, context.DeadlineExceeded)
		cancel()
		c.wantLock("with a context that is done, while it is held", done, ref, true, both, driver.ErrBusy, context.Canceled)

		var waiting sync.WaitGroup
		var released atomic.Bool
		waiting.Go(func() {
			next, err := waiter.LockTurn(c.ctx, ref, true)
			c.noErr("LockTurn that waits", err)
			c.errorIf(!released.Load(), "LockTurn that waits gets the lock before it is released")
			c.noErr("release", next())
		})
		released.Store(true)
		c.noErr("release", release())
		c.calling("LockTurn that waits for a lock that was released")
		waiting.Wait()
		c.wantLock("with a context that is done, while it is free", done, ref, true, both, driver.ErrBusy, context.Canceled)
	}
}

func closeTurn(c *check) {
	d, _, ref := c.startSession()
	release := c.lockTurn(d, ref)
	var waiting sync.WaitGroup
	for range writers {
		waiting.Go(func() {
			_, err := d.LockTurn(c.ctx, ref, true)
			c.wantErr("LockTurn that waits while Close is called", err, driver.ErrClosed)
		})
	}
	// A call that waits for a while lets the others begin to wait.
	ctx, cancel := context.WithTimeout(c.ctx, 10*time.Millisecond)
	defer cancel()
	c.wantLock("that waits until its context is done", ctx, ref, true, []driver.Driver{d}, context.DeadlineExceeded)
	c.stop(d)
	c.calling("LockTurn that waits while Close is called")
	waiting.Wait()
	_ = release() // may fail because it is too late
	c.noErr("release", c.lockTurn(c.restart(), ref)())
}
