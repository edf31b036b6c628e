package sessiontest

import (
	"context"
	"errors"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

var checkRules = []Rule{
	{
		"check/called",
		"Check, if not nil, is called once all of the above holds, with the cursor at which the lines will start.",
		checkCalled,
	},
	{"check/fails", "An error of Check fails the append.", checkFails},
	{"check/alone", "Until the append is over nobody else can append to the session or delete it.", checkAlone},
}

func checkCalled(c *check) {
	d := c.start()
	ref := c.create(d, "main", "k").Ref()
	called := 0
	var start driver.Cursor
	cond := driver.Cond{Check: func(_ context.Context, at driver.Cursor) error {
		called++
		start = at
		return nil
	}}
	for range 2 {
		if r := c.appendIf(d, ref, cond, c.note("with a check")); r.Start != start {
			c.errorf("Check was called with the cursor %d, the lines start at %d", start, r.Start)
		}
	}
	if called != 2 {
		c.errorf("Check was called %d times for 2 appends", called)
	}
	refused := cond
	refused.Base, refused.Conflicts = 0, []string{transcript.TypeCustom}
	c.append(d, ref, c.entry(transcript.Custom{Name: "a"}))
	c.refused("with a check and a conflict", d, ref, refused, driver.ErrConflict)
	key := "key"
	lines := c.idemBatch(key, "hash", someText)
	c.appendIf(d, ref, driver.Cond{Idem: key, IdemHash: "hash"}, lines...)
	called = 0
	c.appendIf(d, ref, driver.Cond{Idem: key, IdemHash: "hash", Check: cond.Check}, lines...)
	if called != 0 {
		c.errorf("Check was called for lines that were there")
	}
}

func checkFails(c *check) {
	d := c.start()
	ref := c.create(d, "main", "k").Ref()
	want := errors.New("no")
	c.refused("whose Check fails", d, ref, driver.Cond{Check: func(context.Context, driver.Cursor) error { return want }}, want)
	c.refused("whose Check fails, with a head", d, ref, driver.Cond{Head: driver.NoHead, Check: func(context.Context, driver.Cursor) error { return want }}, want)
}

func checkAlone(c *check) {
	d := c.start()
	other := c.second(d)
	ref := c.create(d, "main", "k").Ref()
	done := make(chan struct{})
	c.appendIf(d, ref, driver.Cond{Check: func(context.Context, driver.Cursor) error {
		line := c.note("from another driver")
		go func() {
			defer close(done)
			c.append(other, ref, line)
		}()
		select {
		case <-done:
			c.errorf("another append was finished while Check was running")
		case <-time.After(alone):
		}
		return nil
	}}, c.note("with a check"))
	<-done
}

// alone is how long an append has time to do what it must not.
const alone = 300 * time.Millisecond
