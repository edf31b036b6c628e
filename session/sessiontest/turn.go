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
	textLock = "LockTurn takes the turn lock of a session, which is released when release is called or the process ends."
	textBusy = "If wait is false and the lock is held, the error matches [ErrBusy]"
	textWait = "if it is true LockTurn waits until ctx is done, and the error then matches both, even if ctx was done before the call."
)

var turnRules = []Rule{
	{"turn/exclusive", textLock, turnExclusive},
	{"turn/release", textLock, turnRelease},
	{"turn/independent", textLock, turnIndependent},
	{"turn/busy", textBusy, turnBusy},
	{"turn/wait", textWait, turnWait},
	{"turn/expired", textWait, turnExpired},
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

// wantHeld checks that a turn lock cannot be taken.
func (c *check) wantHeld(when string, ref driver.Ref, ds ...driver.Driver) {
	for _, d := range ds {
		c.calling("LockTurn")
		release, err := d.LockTurn(c.ctx, ref, false)
		c.wantErr("LockTurn "+when, err, driver.ErrBusy)
		if err == nil {
			c.noErr("release", release())
		}
	}
}

func turnExclusive(c *check) {
	d := c.start()
	ref := c.create(d, "main", "k").Ref()
	c.noErr("release", c.lockTurn(d, ref)())
	var inside, turns atomic.Int64
	const rounds = 10
	c.calling("LockTurn by several goroutines")
	c.together(writers, []driver.Driver{d, c.second(d)}, func(_ int, d driver.Driver) {
		for range rounds {
			release, err := d.LockTurn(c.ctx, ref, true)
			c.noErr("LockTurn", err)
			if n := inside.Add(1); n != 1 {
				c.errorf("%d callers hold one turn lock", n)
			}
			for range 10 {
				runtime.Gosched() // lets in who should not be
			}
			c.append(d, ref, c.note("in a turn"))
			turns.Add(1)
			inside.Add(-1)
			c.noErr("release", release())
		}
	})
	if n := turns.Load(); n != writers*rounds {
		c.errorf("%d of %d callers got the turn lock", n, writers*rounds)
	}
}

func turnRelease(c *check) {
	d := c.start()
	other := c.second(d)
	ref := c.create(d, "main", "k").Ref()
	first := c.lockTurn(d, ref)
	c.noErr("release", first())
	second := c.lockTurn(other, ref)
	c.calling("release")
	_ = first() // may report that it is too late
	c.wantHeld("after an earlier holder has released it twice", ref, d, other)
	c.noErr("release", second())
	c.noErr("release", c.lockTurn(d, ref)())
}

func turnIndependent(c *check) {
	d := c.start()
	other := c.second(d)
	a, b := c.create(d, "main", "k").Ref(), c.create(d, "main", "k").Ref()
	elsewhere := c.createID(d, "other", "k", a.ID).Ref()
	release := c.lockTurn(d, a)
	for _, ref := range []driver.Ref{b, elsewhere} {
		for _, d := range []driver.Driver{d, other} {
			c.calling("LockTurn of another session")
			c.noErr("release", c.lockTurn(d, ref)())
		}
	}
	for _, d := range []driver.Driver{d, other} {
		c.calling("Append while the turn lock is held")
		c.append(d, a, c.triple("in a turn")...)
		c.settle(d, a)
		row, err := d.Get(c.ctx, a)
		c.noErr("Get", err)
		c.noErr("Put", d.Put(c.ctx, row))
	}
	c.calling("SetCurrent while the turn lock is held")
	_, err := d.SetCurrent(c.ctx, a, 0, c.current(c.id()))
	c.noErr("SetCurrent", err)
	c.wantHeld("after appends", a, d, other)
	if ids := c.ids(d, a); len(ids) != 1+2*3+1 {
		c.errorf("7 lines were appended during a turn to a session of one, and it has %d", len(ids))
	}
	c.noErr("release", release())
}

func turnBusy(c *check) {
	d := c.start()
	other := c.second(d)
	ref := c.create(d, "main", "k").Ref()
	release := c.lockTurn(d, ref)
	c.wantHeld("while it is held", ref, d, other)
	c.wantHeld("while it is held, for the second time", ref, d, other)
	c.noErr("release", release())
	for _, d := range []driver.Driver{d, other} {
		c.noErr("release", c.lockTurn(d, ref)())
	}
}

func turnWait(c *check) {
	d := c.start()
	ref := c.create(d, "main", "k").Ref()
	for _, waiter := range []driver.Driver{d, c.second(d)} {
		release := c.lockTurn(d, ref)
		ctx, cancel := context.WithTimeout(c.ctx, 5*time.Millisecond)
		c.calling("LockTurn that waits")
		_, err := waiter.LockTurn(ctx, ref, true)
		cancel()
		c.wantErr("LockTurn that waits until its context is done", err, driver.ErrBusy, context.DeadlineExceeded)

		var waiting sync.WaitGroup
		var released atomic.Bool
		waiting.Go(func() {
			next, err := waiter.LockTurn(c.ctx, ref, true)
			c.noErr("LockTurn that waits", err)
			if !released.Load() {
				c.errorf("LockTurn that waits gets the lock before it is released")
			}
			c.noErr("release", next())
		})
		released.Store(true)
		c.noErr("release", release())
		c.calling("LockTurn that waits for a lock that was released")
		waiting.Wait()
	}
}

func turnExpired(c *check) {
	d := c.start()
	ref := c.create(d, "main", "k").Ref()
	ctx, cancel := context.WithCancel(c.ctx)
	cancel()
	for _, waiter := range []driver.Driver{d, c.second(d)} {
		look := func(when string) {
			c.calling("LockTurn with a context that is done")
			release, err := waiter.LockTurn(ctx, ref, true)
			c.wantErr("LockTurn with a context that is done, "+when, err, driver.ErrBusy, context.Canceled)
			if err == nil {
				c.noErr("release", release())
			}
		}
		release := c.lockTurn(d, ref)
		look("while the lock is held")
		c.noErr("release", release())
		look("while the lock is free")
	}
}
