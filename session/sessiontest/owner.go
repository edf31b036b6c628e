package sessiontest

import (
	"io/fs"

	"github.com/convolog/convolog/session/driver"
)

const (
	textOwner = "Keys of two owners have nothing in common, whatever their names."
	textAside = "A session with the gen 0 is never current."
)

var ownerRules = []Rule{
	{"owner/current", textOwner, ownerCurrent},
	{"owner/load", textOwner, ownerLoad},
	{"owner/gen", textOwner, ownerGen},
	{"owner/odd", textOwner, ownerOdd},
	{"create/aside", textAside, createAside},
}

// owners are the owners of the sessions of a key; the last session has no owner.
var owners = []string{"ada", "bert", "A", ""}

// ownKey returns a key of an owner, with the same name for all of them.
func ownKey(owner string) driver.KeyRef {
	return driver.KeyRef{Agent: "main", Owner: owner, Key: "k"}
}

// createOwn makes a session of the key of an owner.
func (c *check) createOwn(d driver.Driver, owner string) driver.Row {
	c.calling("Create")
	row, err := d.Create(c.ctx, ownKey(owner), headerOf(ownKey(owner), c.id()))
	c.noErr("Create for owner "+owner, err)
	c.errorIf(row.KeyRef() != ownKey(owner), "Create with the key %q returns a row of %q", ownKey(owner), row.KeyRef())
	return row
}

// wantOwn checks the current sessions of the owners.
func (c *check) wantOwn(when string, d driver.Driver, want map[string]string) {
	for _, owner := range owners {
		row, err := d.Load(c.ctx, ownKey(owner), nil)
		if want[owner] == "" {
			c.wantErr(when+", Current of a key that has sessions of other owners", err, fs.ErrNotExist)
		} else if err != nil || row.ID != want[owner] || row.Owner != owner {
			c.errorf("%s, Current for owner %q: session %s of owner %q, error %v; want %s", when, owner, row.ID, row.Owner, err, want[owner])
		}
	}
	for _, row := range c.list(d, "main") {
		if current := row.ID == want[row.Owner]; row.Current != current {
			c.errorf("%s, List: session %s of owner %q is current: %v, want %v", when, row.ID, row.Owner, row.Current, current)
		}
	}
}

func ownerCurrent(c *check) {
	d, other := c.startTwo()
	a, b, n := c.createOwn(d, "ada"), c.createOwn(d, "bert"), c.createOwn(other, "")
	want := map[string]string{"ada": a.ID, "bert": b.ID, "": n.ID}
	look := func(when string) {
		c.wantOwn(when, d, want)
		c.wantOwn(when+", with another driver", other, want)
	}
	look("after a Create for each owner")
	newer := c.createOwn(other, "bert")
	want["bert"] = newer.ID
	look("after a second Create for one owner")
	c.setCurrent(d, b.Ref())
	want["bert"] = b.ID
	look("after SetCurrent")
	c.delete(d, n.Ref(), b.Ref())
	want[""], want["bert"] = "", newer.ID
	look("after Delete")
	c.put(d, a)
	d = c.restart()
	c.wantOwn("opened again", d, want)
	c.delete(d, newer.Ref())
	want["bert"] = ""
	c.wantOwn("after Delete of the last session of an owner", d, want)
}

func ownerLoad(c *check) {
	d := c.start()
	ids := map[string]string{}
	for _, open := range []func() driver.Driver{func() driver.Driver { return d }, func() driver.Driver { return c.second(d) }, c.restart} {
		d := open()
		for _, owner := range owners {
			row, created := c.load(d, ownKey(owner))
			if created != (ids[owner] == "") || !created && row.ID != ids[owner] || row.Owner != owner {
				c.errorf("Load for owner %q: session %s of owner %q, created %v", owner, row.ID, row.Owner, created)
			}
			ids[owner] = row.ID
		}
	}
}

// The gens of an owner do not reveal the number of sessions of others.
func ownerGen(c *check) {
	d := c.start()
	first := c.createOwn(d, "ada")
	for range 3 {
		c.createOwn(d, "bert")
	}
	if row := c.createOwn(d, ""); row.Gen != first.Gen {
		c.errorf("the first session of a key has gen %d, and gen %d if others have sessions", first.Gen, row.Gen)
	}
}

// Names that are easily taken for each other when they are put together.
func ownerOdd(c *check) {
	d := c.start()
	names := [][2]string{{"a", "b:c"}, {"a:b", "c"}, {"ab", "c"}, {"a", "bc"}, {"", "abc"}, {"abc", "abc"}, {"A", "abc"}, {"汉/\"\n", "\\\"k"}, {"a\x00", "k"}, {"a", "\x00k"}}
	ids := map[[2]string]string{}
	for _, n := range names {
		key := driver.KeyRef{Agent: "main", Owner: n[0], Key: n[1]}
		row, created := c.load(d, key)
		if ids[n] = row.ID; !created {
			c.errorf("Load of the new key %q: the session of %q", key, row.KeyRef())
		}
	}
	for range 2 {
		for _, n := range names {
			row, err := d.Load(c.ctx, driver.KeyRef{Agent: "main", Owner: n[0], Key: n[1]}, nil)
			c.noErr("Current", err)
			if row.ID != ids[n] || row.Owner != n[0] || row.Key != n[1] {
				c.errorf("Current of the key %q: session %s of %q", n, row.ID, row.KeyRef())
			}
		}
		d = c.restart()
	}
	key := driver.KeyRef{Agent: "main", Owner: "a\xff", Key: "k"}
	_, err := d.Load(c.ctx, key, nil)
	c.wantErr("Current of an owner that is not UTF-8", err, fs.ErrInvalid, fs.ErrNotExist)
	_, err = d.Create(c.ctx, key, headerOf(key, c.id()))
	c.wantErr("Create for an owner that is not UTF-8", err, fs.ErrInvalid)
}

func createAside(c *check) {
	d, other := c.startTwo()
	aside := func(owner string) driver.Row {
		id, key := c.id(), ownKey(owner)
		row, err := d.Create(c.ctx, key, func(int64) (driver.Row, driver.Line) {
			row, l := headerOf(key, id)(0)
			row.Aside = true
			return row, l
		}, c.user("text"))
		c.noErr("Create aside", err)
		c.errorIf(row.Gen != 0 || row.ID != id, "Create aside: session %s has gen %d, want 0", row.ID, row.Gen)
		return row
	}
	a, b := aside("ada"), aside("bert")
	want := map[string]string{}
	c.wantOwn("after Create aside", other, want)
	want["ada"] = c.createOwn(d, "ada").ID
	aside("ada")
	c.wantOwn("with a session that is current", other, want)
	d = c.restart()
	c.wantOwn("opened again", d, want)
	row := c.setCurrent(d, a.Ref())
	if want["ada"] = a.ID; row.Gen <= 0 {
		c.errorf("SetCurrent of a session with gen 0 gives gen %d", row.Gen)
	}
	c.wantOwn("after SetCurrent", d, want)
	if loaded, created := c.load(d, ownKey("bert")); !created {
		c.errorf("Load of a key with a session aside: session %s", loaded.ID)
	}
	if ids := c.ids(d, b.Ref()); len(ids) != 2 {
		c.errorf("a session aside has %d lines, want 2", len(ids))
	}
	c.adoptAside(d)
}

// adoptAside checks that sessions with the gen 0 do not get into each other's way.
func (c *check) adoptAside(d driver.Driver) {
	create := func(key driver.KeyRef, id string, gen int64) error {
		_, err := d.Create(c.ctx, key, func(int64) (driver.Row, driver.Line) {
			row, l := headerOf(key, id)(gen)
			row.GivenGen, row.Aside = gen, gen == 0
			return row, l
		})
		return err
	}
	for range 2 {
		c.noErr("Create aside", create(ownKey("A"), c.id(), 0))
		if _, err := d.Load(c.ctx, ownKey("A"), nil); err == nil {
			c.errorf("after Create aside the session is current")
		}
	}
	id := c.id()
	c.noErr("Create with a gen", create(ownKey("A"), id, 1))
	c.wantErr("Create of a session for another owner", create(ownKey("bert"), id, 1), fs.ErrExist)
}
