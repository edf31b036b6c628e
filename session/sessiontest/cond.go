package sessiontest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

var condRules = []Rule{
	{"cond/anywhere", "or anywhere if at is negative", condAnywhere},
	{"cond/at", "if the session ends at the cursor at", condAt},
	{"cond/race", "The condition and the write are one step, in all processes.", condRace},
	{"cond/nothing", "An error that does not say otherwise means that nothing was written.", condNothing},
	{"decide/called", "Decide is called with the cursor at which the session ends.", decideCalled},
	{"decide/elsewhere", "If the session ends elsewhere, or lines is empty, Append adds the lines that decide returns instead.", decideElsewhere},
	{"decide/none", "An append of no lines only ends an unfinished write of a dead process.", decideNone},
	{"decide/fails", "An error of decide fails the append.", decideFails},
	{"decide/alone", "Until Append returns, no other call, in any process, can append to the session or delete it.", decideAlone},
}

// someText is the content of batches that differ only in their IDs.
var someText = transcript.UserText("some text")

// refused checks that a conditional append fails and writes nothing.
func (c *check) refused(name string, d driver.Driver, ref driver.Ref, at driver.Cursor) {
	before, end := c.ids(d, ref), c.settle(d, ref)
	c.calling("Append")
	_, err := d.Append(c.ctx, ref, c.triple("refused"), at, nil)
	c.wantErr("Append "+name, err, driver.ErrConflict)
	c.wantIDs("the session after an Append that was refused, "+name, c.ids(d, ref), before)
	if now := c.settle(d, ref); now != end && err != nil {
		c.errorf("an Append that was refused, %s, moves the end from %d to %d", name, end, now)
	}
}

func condAnywhere(c *check) {
	d, other, ref := c.startShared()
	want := c.ids(d, ref)
	for _, d := range []driver.Driver{d, other, d, other} {
		lines := c.triple("a")
		c.append(d, ref, lines...)
		want = append(want, lineIDs(lines...)...)
	}
	c.wantIDs("a session after appends without a condition", c.ids(d, ref), want)
}

func condAt(c *check) {
	d, other, ref := c.startShared()
	end, stale := c.settle(d, ref), driver.Cursor(0)
	for range 3 {
		c.refused("at the beginning", d, ref, 0)
		c.refused("at an earlier end", other, ref, stale)
		c.refused("after the end", other, ref, end+1)
		stale = end
		end = c.appendAt(d, ref, end, c.triple("a")...).End
		c.refused("at the end before another driver's append", other, ref, stale)
		stale = end
		end = c.appendAt(other, ref, end, c.note("by another driver")).End
	}
	d = c.restart()
	c.refused("at an earlier end, after opening the storage again", d, ref, stale)
	c.appendAt(d, ref, end, c.user("after opening the storage again"))
}

func condRace(c *check) {
	d, other := c.startTwo()
	ds := []driver.Driver{d, other}
	ref := c.create(d, "main", "k").Ref()
	end := c.settle(d, ref)
	for range 20 {
		var won atomic.Int64
		var winner atomic.Value
		c.calling("Append by several goroutines")
		c.together(writers, ds, func(_ int, d driver.Driver) {
			l := c.user("mine")
			_, err := d.Append(c.ctx, ref, []driver.Line{l}, end, nil)
			if err == nil {
				won.Add(1)
				winner.Store(l.ID)
				return
			}
			c.wantErr("Append at an end that others move at the same time", err, driver.ErrConflict)
		})
		if n := won.Load(); n != 1 {
			c.fatalf("%d of %d appends at one end succeed, want one", n, writers)
		}
		end = c.settle(d, ref)
		if ids := c.ids(d, ref); ids[len(ids)-1] != winner.Load() {
			c.errorf("the last line is not the one whose append succeeded")
		}
	}
	if ids := c.ids(d, ref); len(ids) != 21 {
		c.errorf("20 conditional appends succeeded on a session of one line, and it has %d", len(ids))
	}
}

func condNothing(c *check) {
	d, ref := c.startSession()
	c.append(d, ref, c.batch(someText, someText)...)
	row := c.get(d, ref)
	c.refused("at another end", d, ref, 0)
	got := c.get(d, ref)
	c.wantRow("Get after an append that was refused", got, row)
}

// decided appends lines that are decided.
func (c *check) decided(d driver.Driver, ref driver.Ref, decide decideFunc) driver.Result {
	c.calling("Append")
	r, err := d.Append(c.ctx, ref, nil, driver.Anywhere, decide)
	c.noErr("Append of lines that are decided", err)
	return r
}

type decideFunc = func(ctx context.Context, end driver.Cursor) ([]driver.Line, error)

func decideCalled(c *check) {
	d, ref := c.startSession()
	want := c.ids(d, ref)
	for range 2 {
		called := 0
		var start driver.Cursor
		lines := c.triple("that are decided")
		r := c.decided(d, ref, func(ctx context.Context, end driver.Cursor) ([]driver.Line, error) {
			called++
			start = end
			for _, err := range d.Scan(ctx, ref, 0, driver.Forward, nil) {
				c.errorIf(err != nil, "a scan inside of decide fails: %v", err)
			}
			if _, err := d.Get(ctx, ref); err != nil {
				c.errorf("a Get inside of decide fails: %v", err)
			}
			if _, err := d.Load(ctx, driver.KeyRef{Agent: "main", Key: "k"}, nil); err != nil {
				c.errorf("a Load inside of decide fails: %v", err)
			}
			return lines, nil
		})
		if called != 1 || r.Start != start {
			c.errorf("decide was called %d times, the last time with the cursor %d, and the lines start at %d", called, start, r.Start)
		}
		want = append(want, lineIDs(lines...)...)
	}
	c.wantIDs("a session with lines that were decided", c.ids(d, ref), want)
}

func decideElsewhere(c *check) {
	d, other, ref := c.startShared()
	end, want := c.settle(d, ref), c.ids(d, ref)
	for range 2 {
		given, decided, called := c.note("given"), c.note("decided"), 0
		decide := func(context.Context, driver.Cursor) ([]driver.Line, error) {
			called++
			return []driver.Line{decided}, nil
		}
		before := end
		_, err := d.Append(c.ctx, ref, []driver.Line{given}, end, decide)
		c.noErr("Append at the end", err)
		c.errorIf(called > 0, "decide is called for an append at the end")
		r, err := other.Append(c.ctx, ref, []driver.Line{given}, before, decide)
		c.noErr("Append elsewhere with decide", err)
		c.errorIf(called != 1, "decide is called %d times for an append elsewhere, want once", called)
		end = r.End
		want = append(want, given.ID, decided.ID)
	}
	c.wantIDs("a session after appends elsewhere", c.ids(d, ref), want)
}

func decideNone(c *check) {
	d, other, ref := c.startShared()
	none := func(context.Context, driver.Cursor) ([]driver.Line, error) { return nil, nil }
	for _, decide := range []decideFunc{nil, none, nil} {
		end := c.decided(d, ref, decide).End
		c.wantIDs("a scan from the end", idsOf(c.scan(d, ref, end, driver.Forward)), nil)
		if r := c.decided(d, ref, decide); r.Start != end || r.End != end {
			c.errorf("Append of no lines ends at %d, and at %v when called again", end, r)
		}
		lines := c.triple("a")
		r := c.append(other, ref, lines...)
		c.wantIDs("a scan from what was the end", idsOf(c.scan(d, ref, end, driver.Forward)), lineIDs(lines...))
		if now := c.decided(d, ref, decide).End; now != r.End {
			c.errorf("Append of no lines ends at %d after an append that ended at %d", now, r.End)
		}
	}
}

func decideFails(c *check) {
	d, ref := c.startSession()
	before, no := c.ids(d, ref), errors.New("no")
	c.calling("Append")
	_, err := d.Append(c.ctx, ref, nil, driver.Anywhere, func(context.Context, driver.Cursor) ([]driver.Line, error) {
		return []driver.Line{c.note("refused")}, no
	})
	c.wantErr("Append whose decide fails", err, no)
	c.wantIDs("the session after an Append that failed", c.ids(d, ref), before)
}

func decideAlone(c *check) {
	d, other, ref := c.startShared()
	done := make(chan struct{})
	c.decided(d, ref, func(context.Context, driver.Cursor) ([]driver.Line, error) {
		line := c.note("from another driver")
		go func() {
			defer close(done)
			c.append(other, ref, line)
		}()
		select {
		case <-done:
			c.errorf("another append was finished while decide was running")
		case <-time.After(alone):
		}
		return []driver.Line{c.note("that is decided")}, nil
	})
	<-done
}

// alone is how long a test waits for an append that must not happen.
const alone = 300 * time.Millisecond
