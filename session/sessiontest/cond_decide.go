package sessiontest

import (
	"context"
	"errors"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

var decideRules = []Rule{
	{
		"decide/called",
		"Decide, if not nil, is called once all of the above holds, with the cursor at which the lines will start, and returns the lines to append.",
		decideCalled,
	},
	{"decide/fails", "An error of Decide fails the append.", decideFails},
	{"decide/alone", "Until the append is over nobody else can append to the session or delete it.", decideAlone},
}

func decideCalled(c *check) {
	d := c.start()
	ref := c.create(d, "main", "k").Ref()
	called := 0
	var start driver.Cursor
	var decided []driver.Line
	cond := driver.Cond{Decide: func(ctx context.Context, at driver.Cursor) ([]driver.Line, error) {
		called++
		start = at
		for _, err := range d.Scan(ctx, ref, 0, driver.Forward) {
			if err != nil {
				c.errorf("a scan inside of Decide fails: %v", err)
			}
		}
		return decided, nil
	}}
	want := c.ids(d, ref)
	for range 2 {
		decided = []driver.Line{c.note("that is decided")}
		want = append(want, lineIDs(decided...)...)
		if r := c.appendIf(d, ref, cond); r.Start != start {
			c.errorf("Decide was called with the cursor %d, the lines start at %d", start, r.Start)
		}
	}
	c.wantIDs("a session with lines that were decided", c.ids(d, ref), want)
	if called != 2 {
		c.errorf("Decide was called %d times for 2 appends", called)
	}
	refused := cond
	refused.Base, refused.Conflicts = 0, []string{"custom"}
	c.append(d, ref, c.entry(transcript.Custom{Name: "a"}))
	c.refused("that is decided and a conflict", d, ref, refused, driver.ErrConflict)
	key := "key"
	lines := c.idemBatch(key, "hash", someText)
	c.appendIf(d, ref, driver.Cond{Idem: key, IdemHash: "hash"}, lines...)
	called = 0
	c.appendIf(d, ref, driver.Cond{Idem: key, IdemHash: "hash", Decide: cond.Decide}, lines...)
	if called != 0 {
		c.errorf("Decide was called for lines that were there")
	}
}

func decideFails(c *check) {
	d := c.start()
	ref := c.create(d, "main", "k").Ref()
	want := errors.New("no")
	no := func(context.Context, driver.Cursor) ([]driver.Line, error) {
		return []driver.Line{c.note("refused")}, want
	}
	c.refused("whose Decide fails", d, ref, driver.Cond{Decide: no}, want)
	c.refused("whose Decide fails, with a head", d, ref, driver.Cond{Head: driver.NoHead, Decide: no}, want)
}

func decideAlone(c *check) {
	d := c.start()
	other := c.second(d)
	ref := c.create(d, "main", "k").Ref()
	done := make(chan struct{})
	c.appendIf(d, ref, driver.Cond{Decide: func(context.Context, driver.Cursor) ([]driver.Line, error) {
		line := c.note("from another driver")
		go func() {
			defer close(done)
			c.append(other, ref, line)
		}()
		select {
		case <-done:
			c.errorf("another append was finished while Decide was running")
		case <-time.After(alone):
		}
		return []driver.Line{c.note("that is decided")}, nil
	}})
	<-done
}

// alone is how long an append has time to do what it must not.
const alone = 300 * time.Millisecond
