package sessiontest

import (
	"errors"
	"io/fs"
	"time"

	"github.com/convolog/convolog/session/driver"
)

var adoptRules = []Rule{
	{"adopt/new", "Adopt makes a session with the agent, ID, owner, key and gen of row, whose only line is header.", adoptNew},
	{"adopt/again", "If a session of the key already uses the ID, Adopt raises its gen to row.Gen and writes no line.", adoptAgain},
	{"adopt/next", "The next gen of the key is above it.", adoptNext},
	{"adopt/exists", "An ID in use under another key, and a gen above 0 that another session of the key uses, give an error that matches [io/fs.ErrExist].", adoptExists},
	{"adopt/archived", "If the session exists and is archived, the error matches [ErrArchived].", adoptArchived},
}

// adopt calls Adopt, or skips the rule.
func (c *check) adopt(d driver.Driver, key, id string, gen int64) error {
	a, ok := d.(driver.Adopter)
	if !ok {
		c.skip(errors.ErrUnsupported)
	}
	row, line := header("main", key, id)(gen)
	row.Title = "of another storage"
	c.calling("Adopt")
	return a.Adopt(c.ctx, row, line)
}

// wantGen checks the gen of a session as all methods give it.
func (c *check) wantGen(when string, d driver.Driver, id string, want int64) {
	row, err := d.Get(c.ctx, driver.Ref{Agent: "main", ID: id})
	c.noErr("Get "+when, err)
	rows := []driver.Row{row}
	for _, row := range c.list(d, "main") {
		if row.ID == id {
			rows = append(rows, row)
		}
	}
	for _, row := range rows {
		c.errorIf(row.Gen != want, "%s, session %s has gen %d, want %d", when, id, row.Gen, want)
	}
}

func adoptNew(c *check) {
	d, other := c.startTwo()
	c.noErr("Adopt", c.adopt(d, "k", "middle", 40))
	c.noErr("Adopt", c.adopt(other, "k", "newest", 70))
	c.noErr("Adopt", c.adopt(d, "k", "oldest", 7))
	look := func(when string, d driver.Driver) {
		for id, gen := range map[string]int64{"oldest": 7, "middle": 40, "newest": 70} {
			ref := driver.Ref{Agent: "main", ID: id}
			c.wantGen(when, d, id, gen)
			row := c.get(d, ref)
			if row.Key != "k" || row.Title != "of another storage" {
				c.errorf("%s, the row of %s is %+v, which is not the one that was adopted", when, id, row)
			}
			_, want := header("main", "k", id)(gen)
			if recs := c.scan(d, ref, 0, driver.Forward); len(recs) != 1 || string(recs[0].Entry.Line()) != string(want.Data) {
				c.errorf("%s, session %s has %d lines, want only %s", when, id, len(recs), want.Data)
			}
		}
		c.wantCurrent(when, d, "main", "k", "newest")
	}
	look("after Adopt", d)
	look("after Adopt, with another driver", other)
	look("opened again", c.restart())
}

func adoptAgain(c *check) {
	d, other := c.startTwo()
	c.noErr("Adopt", c.adopt(d, "k", "a", 1))
	c.noErr("Adopt", c.adopt(d, "k", "b", 2))
	ref := driver.Ref{Agent: "main", ID: "a"}
	c.append(d, ref, c.triple("text")...)
	want := c.ids(d, ref)
	row := driver.Row{ID: "a", Agent: "main", Key: "k", Size: int64(c.settle(d, ref)), Title: "mine", UpdatedAt: clock.Add(time.Hour)}
	c.put(d, row)
	c.noErr("Adopt of a session that is there", c.adopt(other, "k", "a", 5))
	c.noErr("Adopt with a lower gen", c.adopt(d, "k", "a", 3))
	look := func(when string, d driver.Driver) {
		c.wantGen(when, d, "a", 5)
		c.wantCurrent(when, d, "main", "k", "a")
		c.wantIDs(when, c.ids(d, ref), want)
		if row, err := d.Get(c.ctx, ref); err != nil || row.Title != "mine" {
			c.errorf("%s: the row is %+v, error %v; want the title that was put", when, row, err)
		}
	}
	look("after Adopt", d)
	look("after Adopt, with another driver", other)
	look("opened again", c.restart())
}

func adoptNext(c *check) {
	d, other := c.startTwo()
	c.noErr("Adopt", c.adopt(d, "k", "a", 30))
	c.noErr("Adopt", c.adopt(d, "k", "b", 20))
	if row := c.create(other, "main", "k"); row.Gen <= 30 {
		c.errorf("Create after Adopt with gen 30: gen %d", row.Gen)
	}
	c.noErr("Adopt", c.adopt(other, "k", "a", 50))
	row, err := d.SetCurrent(c.ctx, driver.Ref{Agent: "main", ID: "b"}, c.current(c.id()))
	c.noErr("SetCurrent", err)
	c.errorIf(row.Gen <= 50, "SetCurrent after Adopt with gen 50: gen %d", row.Gen)
}

func adoptExists(c *check) {
	d, other := c.startTwo()
	c.noErr("Adopt", c.adopt(d, "k", "a", 1))
	c.noErr("Adopt", c.adopt(d, "k", "b", 2))
	c.noErr("Adopt of another key with the same gen", c.adopt(d, "other key", "c", 2))
	look := func(d driver.Driver) {
		c.wantErr("Adopt of an ID under another key", c.adopt(d, "other key", "a", 9), fs.ErrExist)
		c.wantErr("Adopt with the gen of another session", c.adopt(d, "k", "new", 2), fs.ErrExist)
		c.wantErr("Adopt of a session that is there, with the gen of another one", c.adopt(d, "k", "a", 2), fs.ErrExist)
		c.wantGen("after an Adopt that failed", d, "a", 1)
		_, err := d.Get(c.ctx, driver.Ref{Agent: "main", ID: "new"})
		c.wantErr("Get after an Adopt that failed", err, fs.ErrNotExist)
	}
	look(d)
	look(other)
	look(c.restart())
}

func adoptArchived(c *check) {
	d := c.start()
	c.noErr("Adopt", c.adopt(d, "k", "a", 1))
	c.archive(d, driver.Ref{Agent: "main", ID: "a"})
	c.wantErr("Adopt of an archived session", c.adopt(d, "k", "a", 5), driver.ErrArchived)
	d = c.restart()
	c.wantErr("Adopt of an archived session", c.adopt(d, "k", "a", 5), driver.ErrArchived)
	c.wantGen("after an Adopt that failed", d, "a", 1)
}
