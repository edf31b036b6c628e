package sessiontest

import (
	"slices"
	"sync"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

const (
	textIdem = "If the key is found at the first line of a whole batch among at least the last 1,024 lines, nothing is written: " +
		"the result is the earlier one, or [ErrIdemMismatch] if the hashes differ."
	textRepeated = "Repeated says that nothing was written: the lines were appended earlier under the same idempotency key. IDs are their entry IDs."
)

var idemRules = []Rule{
	{"idem/repeat", textRepeated, idemRepeat},
	{"idem/mismatch", textIdem, idemMismatch},
	{"idem/far", textIdem, idemFar},
	{"idem/incomplete", textIdem, idemIncomplete},
	{"idem/other-session", textIdem, idemOtherSession},
	{"idem/race", textOneStep, idemRace},
}

var idemCond = driver.Cond{Idem: "key", IdemHash: "hash"}

// keyed returns a batch of n lines under the key of idemCond.
func (c *check) keyed(n int) []driver.Line {
	return c.idemBatch(idemCond.Idem, idemCond.IdemHash, slices.Repeat([]transcript.Item{someText}, n)...)
}

// repeated checks that an append under cond gives an earlier result.
func (c *check) repeated(when string, d driver.Driver, ref driver.Ref, cond driver.Cond, first driver.Result, want []string) {
	before := c.ids(d, ref)
	c.calling("Append")
	r, err := d.Append(c.ctx, ref, c.keyed(len(want)), cond)
	switch {
	case err != nil:
		c.errorf("Append repeated %s: unexpected error %v", when, err)
	case !r.Repeated:
		c.errorf("Append repeated %s: Repeated is false", when)
	default:
		c.wantIDs("Result.IDs of Append repeated "+when, r.IDs, want)
		if r.Start != first.Start || r.End != first.End {
			c.errorf("Append repeated %s: lines at %d to %d, want %d to %d", when, r.Start, r.End, first.Start, first.End)
		}
	}
	c.wantIDs("the session after Append repeated "+when, c.ids(d, ref), before)
}

func idemRepeat(c *check) {
	for _, n := range []int{1, 3} {
		d := c.restart()
		other := c.second(d)
		ref := c.create(d, "main", "k").Ref()
		c.append(d, ref, c.triple("before")...)
		lines := c.keyed(n)
		want := lineIDs(lines...)
		first := c.appendIf(d, ref, idemCond, lines...)
		if first.Repeated {
			c.errorf("Append under a new key: Repeated is set")
		}
		c.repeated("at once", d, ref, idemCond, first, want)
		c.repeated("by another driver", other, ref, idemCond, first, want)
		c.append(d, ref, c.triple("after")...)
		c.repeated("after another append", d, ref, idemCond, first, want)

		// A retry does not know that its first attempt has moved the head.
		late := idemCond
		late.Head = driver.NoHead
		c.repeated("with the Head of the first attempt", d, ref, late, first, want)
		late.Head, late.Conflicts = "", []string{transcript.TypeUser}
		c.repeated("with the Base of the first attempt", other, ref, late, first, want)

		newKey := driver.Cond{Idem: "new key", IdemHash: idemCond.IdemHash}
		if r := c.appendIf(d, ref, newKey, c.idemBatch("new key", idemCond.IdemHash, someText)...); r.Repeated {
			c.errorf("Append under another key repeats the earlier one")
		}
		c.repeated("after opening the storage again", c.restart(), ref, idemCond, first, want)
	}
}

func idemMismatch(c *check) {
	d := c.start()
	ref := c.create(d, "main", "k").Ref()
	lines := c.keyed(2)
	first := c.appendIf(d, ref, idemCond, lines...)
	other := driver.Cond{Idem: idemCond.Idem, IdemHash: "other hash"}
	c.refused("under a key of other content", d, ref, other, driver.ErrIdemMismatch)
	c.append(d, ref, c.notes(10)...)
	c.refused("under a key of other content, by another driver", c.second(d), ref, other, driver.ErrIdemMismatch)
	d = c.restart()
	c.refused("under a key of other content, after opening the storage again", d, ref, other, driver.ErrIdemMismatch)
	c.repeated("after a mismatch", d, ref, idemCond, first, lineIDs(lines...))
}

func idemFar(c *check) {
	d := c.start()
	ref := c.create(d, "main", "k").Ref()
	lines := c.keyed(2)
	first := c.appendIf(d, ref, idemCond, lines...)
	other := c.second(d)
	for _, n := range []int{10, 500, 512} { // then the first line is the last but 1,023
		c.append(d, ref, c.notes(n)...)
		c.repeated("after many lines", d, ref, idemCond, first, lineIDs(lines...))
		c.repeated("after many lines, by another driver", other, ref, idemCond, first, lineIDs(lines...))
	}
	c.repeated("after many lines and opening the storage again", c.restart(), ref, idemCond, first, lineIDs(lines...))
}

func idemIncomplete(c *check) {
	d := c.start()
	ref := c.create(d, "main", "k").Ref()
	// A writer that was killed during an append leaves a part of it.
	c.append(d, ref, c.keyed(3)[:2]...)
	lines := c.keyed(3)
	d = c.restart()
	first := c.appendIf(d, ref, idemCond, lines...)
	if first.Repeated {
		c.errorf("Append under the key of a batch that lacks lines repeats that batch")
	}
	if ids := c.ids(d, ref); len(ids) != 6 {
		c.errorf("the session has %d lines, want the header, 2 of a batch that lacks lines and 3 of the retry", len(ids))
	}
	c.repeated("after one that was cut", d, ref, idemCond, first, lineIDs(lines...))
	// Lines of a batch that another append came into are no batch.
	cut := c.idemBatch("cut", "hash", someText, someText)
	c.append(d, ref, cut[0])
	c.append(d, ref, c.note("between"))
	c.append(d, ref, cut[1])
	cond := driver.Cond{Idem: "cut", IdemHash: "hash"}
	if r := c.appendIf(d, ref, cond, c.idemBatch("cut", "hash", someText, someText)...); r.Repeated {
		c.errorf("Append under the key of a batch that another line came into repeats that batch")
	}
}

func idemOtherSession(c *check) {
	d := c.start()
	for _, name := range [][2]string{{"main", "k"}, {"main", "k"}, {"main", "other key"}, {"other", "k"}} {
		ref := c.createID(d, name[0], name[1], c.id()).Ref()
		lines := c.keyed(1)
		if r := c.appendIf(d, ref, idemCond, lines...); r.Repeated {
			c.errorf("Append repeats one to another session")
		}
		c.wantIDs("the session", c.ids(d, ref), []string{ref.ID, lines[0].ID})
	}
}

func idemRace(c *check) {
	d := c.start()
	ds := []driver.Driver{d, c.second(d)}
	for range 10 {
		ref := c.create(d, "main", "k").Ref()
		var (
			mu   sync.Mutex
			got  [][]string
			made []string
		)
		c.calling("Append by several goroutines")
		c.together(writers, ds, func(_ int, d driver.Driver) {
			lines := c.keyed(2)
			r := c.appendIf(d, ref, idemCond, lines...)
			mu.Lock()
			defer mu.Unlock()
			if r.Repeated {
				got = append(got, r.IDs)
			} else {
				made = append(made, lineIDs(lines...)...)
			}
		})
		if len(made) != 2 {
			c.errorf("%d goroutines append under one key, and %d of them write", writers, len(made)/2)
			continue
		}
		for _, ids := range got {
			c.wantIDs("Result.IDs of an append that was repeated", ids, made)
		}
		c.wantIDs("the session", c.ids(d, ref), append([]string{ref.ID}, made...))
	}
}
