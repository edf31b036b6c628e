package sessiontest

import (
	"slices"

	"github.com/convolog/convolog/session/driver"
)

const textSetCurrent = "SetCurrent makes a session the current one of its key. Unless it is current already, it appends the line, with a gen above all of the key."

var currentRules = []Rule{
	{"current/set", textSetCurrent, currentSet},
	{"current/again", textSetCurrent, currentAgain},
	{"current/none", "If header is nil, Load only looks.", currentNone},
}

func currentSet(c *check) {
	d, other := c.startTwo()
	a, b := c.create(d, "main", "k"), c.create(d, "main", "k")
	elsewhere := c.create(d, "main", "other key")
	c.append(d, a.Ref(), c.triple("a")...)
	highest := b.Gen
	for _, ref := range []driver.Ref{a.Ref(), b.Ref(), a.Ref()} {
		before := c.ids(d, ref)
		id, given := c.id(), int64(0)
		c.calling("SetCurrent")
		row, err := d.SetCurrent(c.ctx, ref, 0, func(gen int64) driver.Line {
			given = gen
			return c.current(id)(gen)
		})
		c.noErr("SetCurrent", err)
		if given <= highest || row.Gen != given || row.ID != ref.ID {
			c.errorf("SetCurrent of %s: the line was given gen %d, the row is of %s with gen %d; the key had %d",
				brief([]string{ref.ID}), given, brief([]string{row.ID}), row.Gen, highest)
		}
		highest = max(highest, given)
		for _, d := range []driver.Driver{other, d} {
			c.wantCurrent("after SetCurrent", d, "main", "k", ref.ID)
			c.wantIDs("the session after SetCurrent", c.ids(d, ref), slices.Concat(before, []string{id}))
			got := c.get(d, ref)
			c.errorIf(got.Gen != given, "Get after SetCurrent: gen %d, want %d", got.Gen, given)
		}
	}
	c.wantCurrent("of another key after SetCurrent", d, "main", "other key", elsewhere.ID)
	d = c.restart()
	c.wantCurrent("after SetCurrent and opening the storage again", d, "main", "k", a.ID)
	if row := c.create(d, "main", "k"); row.Gen <= highest {
		c.errorf("Create after SetCurrent and opening the storage again: gen %d, and the key had %d", row.Gen, highest)
	}
}

func currentAgain(c *check) {
	d := c.start()
	current := c.create(d, "main", "k")
	want := c.ids(d, current.Ref())
	for _, d := range []driver.Driver{d, c.second(d)} {
		c.calling("SetCurrent")
		row := c.setCurrent(d, current.Ref())
		if row.Gen != current.Gen || row.ID != current.ID {
			c.errorf("SetCurrent of the session that is the current one: gen %d, and it had %d", row.Gen, current.Gen)
		}
		c.wantIDs("the session after SetCurrent, which was the current one", c.ids(d, current.Ref()), want)
	}
}

func currentNone(c *check) {
	d := c.start()
	a := c.create(d, "main", "k")
	for _, name := range [][2]string{{"main", "K"}, {"main", "k2"}, {"main", a.ID}, {"other", "k"}} {
		c.wantNoCurrent("of a key that has no session", d, name[0], name[1])
	}
	got, err := d.Load(c.ctx, driver.KeyRef{Agent: "main", Key: "k"}, nil)
	c.noErr("Current", err)
	c.wantRow("Current", got, a)
}
