package sessiontest

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

const textClosed = "after Close every method gives one that matches [ErrClosed]"

var closeRules = []Rule{
	{"close/methods", textClosed, closeMethods},
	{"close/scan", textClosed, closeScan},
	{"close/loop", "Close does not wait for a loop over a Scan: the loop ends with [ErrClosed] at its next record.", closeLoop},
	{"close/turn", "Calls that wait for a lock give up with [ErrClosed].", closeTurn},
	{"close/wait", "Close waits for the calls under way and releases everything.", closeWait},
	{"close/reopen", "A nil error means that the write is as durable as the settings of the driver promise.", closeReopen},
}

func closeMethods(c *check) {
	d, ref := c.startSession()
	before, rows := c.ids(d, ref), c.list(d, "main")
	c.stop(d)
	for _, methods := range [][]method{sessionMethods, storeMethods} {
		c.wantEach(methods, c.ctx, d, ref, "after Close", driver.ErrClosed)
	}
	c.calling("Close")
	c.wantErr("Close after Close", d.Close(), driver.ErrClosed)
	d = c.restart()
	c.wantIDs("the session after calls to a closed driver", c.ids(d, ref), before)
	c.wantRows("after calls to a closed driver", c.list(d, "main"), rows)
}

func closeScan(c *check) {
	d, ref := c.startSession()
	c.append(d, ref, c.notes(100)...)
	scans := map[string]iter.Seq2[transcript.Record, error]{
		"forward":  d.Scan(c.ctx, ref, 0, driver.Forward, nil),
		"backward": d.Scan(c.ctx, ref, 0, driver.Backward, nil),
	}
	c.stop(d)
	for name, scan := range scans {
		var last error
		n := 0
		for _, err := range scan {
			n, last = n+1, err
		}
		c.wantErr("a loop, after Close, over a "+name+" Scan from before it", last, driver.ErrClosed)
		c.errorIf(n > 1, "a loop, after Close, over a %s Scan from before it has %d rounds", name, n)
	}
}

func closeLoop(c *check) {
	for _, dir := range []driver.Direction{driver.Forward, driver.Backward} {
		d := c.restart()
		ref := c.create(d, "main", "k").Ref()
		c.append(d, ref, c.notes(100)...)
		var last error
		n := 0
		for _, err := range d.Scan(c.ctx, ref, 0, dir, nil) {
			if n, last = n+1, err; n == 1 {
				c.stop(d)
			}
		}
		c.wantErr("a loop over a Scan in which Close is called", last, driver.ErrClosed)
		if n != 2 {
			c.errorf("a loop over a Scan in which Close is called has %d rounds, want one and another with the error", n)
		}
	}
}

func closeTurn(c *check) {
	d, ref := c.startSession()
	release := c.lockTurn(d, ref)
	var waiting sync.WaitGroup
	for range writers {
		waiting.Go(func() {
			_, err := d.LockTurn(c.ctx, ref, true)
			c.wantErr("LockTurn that waits while Close is called", err, driver.ErrClosed)
		})
	}
	// One that waits for a while lets the others begin to wait.
	ctx, cancel := context.WithTimeout(c.ctx, 10*time.Millisecond)
	defer cancel()
	_, err := d.LockTurn(ctx, ref, true)
	c.wantErr("LockTurn that waits until its context is done", err, context.DeadlineExceeded)
	c.stop(d)
	c.calling("LockTurn that waits while Close is called")
	waiting.Wait()
	_ = release() // may fail because it is too late
	c.noErr("release", c.lockTurn(c.start(), ref)())
}

func closeWait(c *check) {
	for range 3 {
		d := c.restart()
		ref := c.create(d, "main", "k").Ref()
		var (
			mu       sync.Mutex
			written  = []string{ref.ID}
			writing  sync.WaitGroup
			underWay sync.WaitGroup
		)
		underWay.Add(writers)
		for range writers {
			writing.Go(func() {
				begun := sync.OnceFunc(underWay.Done)
				defer begun()
				for c.ctx.Err() == nil {
					lines := c.triple("a")
					_, err := d.Append(c.ctx, ref, lines, driver.Anywhere, nil)
					if err != nil {
						c.wantErr("Append while Close is called", err, driver.ErrClosed)
						return
					}
					mu.Lock()
					written = append(written, lineIDs(lines...)...)
					mu.Unlock()
					begun()
				}
			})
		}
		underWay.Wait()
		c.stop(d)
		c.calling("Append after Close")
		writing.Wait()

		got := c.ids(c.start(), ref)
		slices.Sort(got)
		slices.Sort(written)
		if !slices.Equal(got, written) {
			c.errorf("appends around Close returned nil for %d lines, and the session has %d, not the same", len(written), len(got))
		}
	}
}

func closeReopen(c *check) {
	d := c.start()
	var refs []driver.Ref
	for _, agent := range []string{"main", "other"} {
		for _, key := range []string{"k", "k", "other key"} {
			row := c.create(d, agent, key)
			c.append(d, row.Ref(), c.triple("a")...)
			row.Title, row.Messages = "title of "+row.ID, 3
			row.Size = int64(c.settle(d, row.Ref()))
			c.put(d, row)
			refs = append(refs, row.Ref())
		}
	}
	c.setCurrent(d, refs[0])
	lines := map[driver.Ref][]string{}
	for _, ref := range refs {
		lines[ref] = c.ids(d, ref)
	}
	mainRows, otherRows := c.list(d, "main"), c.list(d, "other")
	for range 2 {
		d = c.restart()
		c.wantAgents("after opening the storage again", d, []string{"main", "other"})
		c.wantRows("after opening the storage again", c.list(d, "main"), mainRows)
		c.wantRows("after opening the storage again", c.list(d, "other"), otherRows)
		c.wantCurrent("after opening the storage again", d, "main", "k", refs[0].ID)
		c.wantCurrent("after opening the storage again", d, "other", "k", refs[4].ID)
		for _, ref := range refs {
			c.wantIDs("a session after opening the storage again", c.ids(d, ref), lines[ref])
		}
	}
}
