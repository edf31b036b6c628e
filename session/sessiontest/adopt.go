package sessiontest

import (
	"io/fs"
	"time"

	"github.com/convolog/convolog/session/driver"
)

var adoptRules = []Rule{
	{"adopt/new", "GivenGen is for [Driver.Create] alone: above 0 it is the gen of the session", adoptNew},
	{"adopt/again", "SetCurrent only raises the gen of the session to it, as Create does with a GivenGen, and writes no line.", adoptAgain},
	{"adopt/next", "The next gen of the key is above it.", adoptNext},
	{"adopt/exists", "A gen that another session of the key has gives an error that matches [io/fs.ErrExist].", adoptExists},
}

// adopt makes a session with a gen.
func (c *check) adopt(d driver.Driver, key, id string, gen int64) error {
	c.calling("Create")
	_, err := d.Create(c.ctx, driver.KeyRef{Agent: "main", Key: key}, func(int64) (driver.Row, driver.Line) {
		row, line := header("main", key, id)(gen)
		row.Title, row.GivenGen = "of another storage", gen
		return row, line
	})
	return err
}

// raise raises the gen of a session.
func (c *check) raise(d driver.Driver, id string, gen int64) error {
	c.calling("SetCurrent")
	_, err := d.SetCurrent(c.ctx, driver.Ref{Agent: "main", ID: id}, gen, nil)
	return err
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
	c.noErr("Create", c.adopt(d, "k", "middle", 40))
	c.noErr("Create", c.adopt(other, "k", "newest", 70))
	c.noErr("Create", c.adopt(d, "k", "oldest", 7))
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
	look("after Create", d)
	look("after Create, with another driver", other)
	look("opened again", c.restart())
}

func adoptAgain(c *check) {
	d, other := c.startTwo()
	c.noErr("Create", c.adopt(d, "k", "a", 1))
	c.noErr("Create", c.adopt(d, "k", "b", 2))
	ref := driver.Ref{Agent: "main", ID: "a"}
	c.append(d, ref, c.triple("text")...)
	want := c.ids(d, ref)
	row := driver.Row{ID: "a", Agent: "main", Key: "k", Size: int64(c.settle(d, ref)), Title: "mine", UpdatedAt: clock.Add(time.Hour)}
	c.put(d, row)
	c.noErr("SetCurrent with a gen", c.raise(other, "a", 5))
	c.noErr("SetCurrent with a lower gen", c.raise(d, "a", 3))
	look := func(when string, d driver.Driver) {
		c.wantGen(when, d, "a", 5)
		c.wantCurrent(when, d, "main", "k", "a")
		c.wantIDs(when, c.ids(d, ref), want)
		if row, err := d.Get(c.ctx, ref); err != nil || row.Title != "mine" {
			c.errorf("%s: the row is %+v, error %v; want the title that was put", when, row, err)
		}
	}
	look("after Create", d)
	look("after Create, with another driver", other)
	look("opened again", c.restart())
}

func adoptNext(c *check) {
	d, other := c.startTwo()
	c.noErr("Create", c.adopt(d, "k", "a", 30))
	c.noErr("Create", c.adopt(d, "k", "b", 20))
	if row := c.create(other, "main", "k"); row.Gen <= 30 {
		c.errorf("Create after Create with gen 30: gen %d", row.Gen)
	}
	c.noErr("SetCurrent", c.raise(other, "a", 50))
	row, err := d.SetCurrent(c.ctx, driver.Ref{Agent: "main", ID: "b"}, 0, c.current(c.id()))
	c.noErr("SetCurrent", err)
	c.errorIf(row.Gen <= 50, "SetCurrent after Create with gen 50: gen %d", row.Gen)
}

func adoptExists(c *check) {
	d, other := c.startTwo()
	c.noErr("Create", c.adopt(d, "k", "a", 1))
	c.noErr("Create", c.adopt(d, "k", "b", 2))
	c.noErr("Create of another key with the same gen", c.adopt(d, "other key", "c", 2))
	look := func(d driver.Driver) {
		c.wantErr("Create of an ID under another key", c.adopt(d, "other key", "a", 9), fs.ErrExist)
		c.wantErr("Create with the gen of another session", c.adopt(d, "k", "new", 2), fs.ErrExist)
		c.wantErr("SetCurrent with the gen of another session", c.raise(d, "a", 2), fs.ErrExist)
		c.wantGen("after a Create that failed", d, "a", 1)
		_, err := d.Get(c.ctx, driver.Ref{Agent: "main", ID: "new"})
		c.wantErr("Get after a Create that failed", err, fs.ErrNotExist)
	}
	look(d)
	look(other)
	look(c.restart())
}
