package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/convolog/convolog/session/driver"
)

var condRules = []rule{
	{"cond/at", "if the session ends at the cursor at ... An error that does not say otherwise means that nothing was written.", condAt},
	{"cond/race", "The condition and the write are one step, in all processes.", condRace},
	{"decide/called", "Decide is called with the cursor at which the session ends. ... An error of decide fails the append.", decideCalled},
	{"decide/elsewhere", "If the session ends elsewhere, or lines is empty, Append adds the lines that decide returns instead.", decideElsewhere},
	{"decide/none", "An append of no lines only ends an unfinished write of a dead process.", decideNone},
	{"decide/alone", "Until Append returns, no other call, in any process, can append to the session or delete it.", decideAlone},
}

func condAt(c *check) {
	d, other, ref := c.startSession()
	want, end, stale := c.state(d), c.end(d, ref), driver.Cursor(0)
	refused := func(d driver.Driver) {
		for _, at := range []driver.Cursor{0, stale, end + 1} {
			_, err := c.tryAppend(d, ref, at, nil, c.triple("refused")...)
			c.wantErr(fmt.Sprintf("Append at %d to a session that ends at %d", at, end), err, driver.ErrConflict)
		}
		c.wantState("after an Append that was refused", want, d)
	}
	for i := range 6 {
		refused(d)
		refused(other)
		lines := [][]driver.Line{c.triple("a"), {c.note("b")}}[i%2]
		r, err := c.tryAppend(other, ref, end, nil, lines...)
		c.noErr("Append at the end", err)
		want.append(ref, lines...)
		stale, end = end, r.End
		d, other = other, d
	}
	d = c.everywhere("after conditional appends", want, d, other)
	refused(d)
	_, err := c.tryAppend(d, ref, end, nil, c.note("opened again"))
	c.noErr("Append at the end, opened again", err)
}

func condRace(c *check) {
	d, other, ref := c.startSession()
	want, end := c.ids(d, ref), c.end(d, ref)
	for range 20 {
		won := make(chan string, writers)
		c.together(writers, d, other, func(_ int, d driver.Driver) {
			l := c.note("mine")
			_, err := d.Append(c.ctx, ref, []driver.Line{l}, end, nil)
			if err == nil {
				won <- l.ID
				return
			}
			c.wantErr("Append at an end that others move at the same time", err, driver.ErrConflict)
		})
		if len(won) != 1 {
			c.fatalf("%d of %d appends at one end succeed, want one", len(won), writers)
		}
		end, want = c.end(d, ref), append(want, <-won)
	}
	c.wantIDs("a session after conditional appends", c.ids(d, ref), want)
}

func decideCalled(c *check) {
	d, other, ref := c.startSession()
	want := c.state(d)
	for range 2 {
		var ends []driver.Cursor
		lines := c.triple("that are decided")
		r, err := c.tryAppend(d, ref, driver.Anywhere, func(ctx context.Context, end driver.Cursor) ([]driver.Line, error) {
			ends = append(ends, end)
			c.errorIf(firstError(ctx, d, ref, 0, driver.Forward) != nil, "a scan inside of decide fails")
			c.errorIf(errOf(d.Get(ctx, ref)) != nil, "a Get inside of decide fails")
			c.errorIf(errOf(d.Load(ctx, keyK, nil)) != nil, "a Load inside of decide fails")
			return lines, nil
		})
		c.noErr("Append with decide", err)
		if !slices.Equal(ends, []driver.Cursor{r.Start}) {
			c.errorf("decide was called with the cursors %v, and the lines start at %d", ends, r.Start)
		}
		want.append(ref, lines...)
		no := errors.New("no")
		_, err = c.tryAppend(d, ref, driver.Anywhere, func(context.Context, driver.Cursor) ([]driver.Line, error) { return c.triple("refused"), no })
		c.wantErr("Append whose decide fails", err, no)
		c.wantState("after appends with decide", want, d, other)
	}
}

func decideElsewhere(c *check) {
	d, other, ref := c.startSession()
	want, end := c.state(d), c.end(d, ref)
	for range 2 {
		given, decided, called := c.note("given"), c.note("decided"), 0
		decide := func(context.Context, driver.Cursor) ([]driver.Line, error) {
			called++
			return []driver.Line{decided}, nil
		}
		_, err := c.tryAppend(d, ref, end, decide, given)
		c.noErr("Append at the end", err)
		c.errorIf(called > 0, "decide is called for an append at the end")
		r, err := c.tryAppend(other, ref, end, decide, given)
		c.noErr("Append elsewhere with decide", err)
		c.errorIf(called != 1, "decide is called %d times for an append elsewhere, want once", called)
		end = r.End
		want.append(ref, given, decided)
	}
	c.wantState("after appends elsewhere", want, d, other)
}

func decideNone(c *check) {
	d, other, ref := c.startSession()
	none := func(context.Context, driver.Cursor) ([]driver.Line, error) { return nil, nil }
	for _, decide := range []decideFunc{nil, none, nil} {
		c.append(other, ref, c.triple("a")...)
		want := c.end(d, ref)
		for range 2 {
			r, err := c.tryAppend(d, ref, driver.Anywhere, decide)
			c.noErr("Append of no lines", err)
			c.errorIf(r.Start != want || r.End != want, "Append of no lines returns %v, and the session ends at %d", r, want)
		}
	}
}

func decideAlone(c *check) {
	d, other, ref := c.startSession()
	done := make(chan struct{})
	_, err := c.tryAppend(d, ref, driver.Anywhere, func(context.Context, driver.Cursor) ([]driver.Line, error) {
		go func() {
			defer close(done)
			c.append(other, ref, c.note("from another driver"))
		}()
		select {
		case <-done:
			c.errorf("another append was finished while decide was running")
		case <-time.After(300 * time.Millisecond): // an append that must not happen
		}
		return []driver.Line{c.note("that is decided")}, nil
	})
	c.noErr("Append with decide", err)
	<-done
}
