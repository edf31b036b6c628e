package sessiontest

import (
	"fmt"
	"io/fs"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

const (
	textExists = "An ID in use gives an error that matches [io/fs.ErrExist]."
	textGen    = "Header gets a gen above all of the key."
)

var createRules = []rule{
	{"load/first-line", "Without a current session it creates one, and header returns its first line. ... If header is nil, Load only looks.", loadFirstLine},
	{"load/existing", "Load returns the current session of a key ... " + textOwner, loadExisting},
	{"load/same", "Callers that ask for one key at the same time, in any process, get the same session.", loadSame},
	{"create/current", "Create makes a session and the current one of its key. ... " + textGen + " ... " + textOwner, createCurrent},
	{"create/gen-race", textGen, createGenRace},
	{"create/exists", "The lines in more follow the header: the session exists with all of them, or it does not exist. ... " + textExists, createExists},
	{"create/exists-race", textExists, createExistsRace},
	{"create/aside", "A session with the gen 0 is never current.", createAside},
	{"create/given", "GivenGen is for [Driver.Create] alone: above 0 it is the gen of the session ... A gen that another session of the key has gives an error that matches [io/fs.ErrExist]. The next gen of the key is above it.", createGiven},
	{"create/base", "Otherwise Create fails with [ErrReplaced].", createBase},
	{"current/set", "SetCurrent makes a session the current one of its key. Unless it is current already, it appends the line, with a gen above all of the key.", currentSet},
	{"current/raise", "SetCurrent only raises the gen of the session to it, as Create does with a GivenGen, and writes no line.", currentRaise},
}

const textOwner = "Keys of two owners have nothing in common, whatever their names."

// ownKey returns a key of an owner, with the same name for all of them.
func ownKey(owner string) driver.KeyRef {
	return driver.KeyRef{Agent: "main", Owner: owner, Key: "k"}
}

func loadFirstLine(c *check) {
	d, other := c.startTwo()
	id, given, want := c.id(), int64(0), driver.Row{}
	c.calling("Load")
	row, err := d.Load(c.ctx, keyK, func(gen int64) (driver.Row, driver.Line) {
		given, want = gen, newRow(keyK, id, gen)
		want.Title, want.Labels, want.Size = "title", []string{"a"}, 1<<40
		return want, headerLine(want)
	})
	c.noErr("Load", err)
	got, err := d.Get(c.ctx, driver.Ref{Agent: "main", ID: id})
	c.noErr("Get", err)
	for _, size := range []int64{row.Size, got.Size} {
		c.errorIf(size != 0 && size != int64(c.end(d, row.Ref())), "Load: the row of a new session has the Size %d, want 0 or its end", size)
	}
	c.errorIf(given <= 0, "Load: header was given gen %d, want one above 0", given)
	want.Size = row.Size
	c.wantRow("Load", row, want)
	s := state{}
	s.create(want)
	for _, key := range []driver.KeyRef{{Agent: "main", Key: "K"}, {Agent: "main", Key: "k2"}, {Agent: "main", Key: id}, {Agent: "other", Key: "k"}, ownKey("ada")} {
		c.wantNoCurrent("of a key that has no session", d, key)
	}
	c.everywhere("after Load", s, d, other)
}

func loadExisting(c *check) {
	d, other := c.startTwo()
	want := state{}
	for range 2 {
		for _, key := range []driver.KeyRef{keyK, keyOther, ownKey("ada"), ownKey("bert")} {
			want.create(c.create(d, key))
		}
	}
	load := func(d driver.Driver) {
		for _, key := range []driver.KeyRef{keyK, keyOther, ownKey("ada"), ownKey("bert"), ownKey("A")} {
			if row, created := c.load(d, key); created {
				c.errorIf(key != ownKey("A"), "Load of the key %q, which has sessions, creates one", key)
				want.create(row)
			}
		}
	}
	load(other)
	load(c.everywhere("after Load", want, d, other))
	c.errorIf(len(want) != 9, "Load creates %d sessions for one key that had none", len(want)-8)
}

func loadSame(c *check) {
	d, other := c.startTwo()
	want := state{}
	for round := range 10 {
		key := driver.KeyRef{Agent: "main", Key: fmt.Sprint("k", round)}
		var rows [writers]driver.Row
		c.together(writers, d, other, func(i int, d driver.Driver) { rows[i], _ = c.load(d, key) })
		for _, row := range rows {
			c.errorIf(row.ID != rows[0].ID, "Load by several goroutines returns the sessions %s and %s", rows[0].ID, row.ID)
		}
		want.create(rows[0])
	}
	c.wantState("after Load by several goroutines", want, d)
}

func createCurrent(c *check) {
	d, other := c.startTwo()
	want, first := state{}, map[driver.KeyRef]int64{}
	for i := range 3 {
		for _, key := range []driver.KeyRef{ownKey("ada"), keyK, keyOther, ownKey("bert"), ownKey("A"), keyK} {
			row := c.create(d, key)
			want.create(row)
			if first[key] == 0 {
				first[key] = row.Gen
			}
			// The gens of an owner do not reveal the number of sessions of others.
			c.errorIf(first[key] != first[ownKey("ada")], "the first session of a key has gen %d, and gen %d if others have sessions", first[ownKey("ada")], first[key])
			lines := c.triple("a")
			c.append(other, row.Ref(), lines...)
			want.append(row.Ref(), lines...)
			c.wantState("after Create", want, d, other)
			for ref, s := range want {
				c.errorIf(s.row.KeyRef() == key && ref != row.Ref() && s.row.Gen >= row.Gen, "Create gives gen %d, and the key had %d", row.Gen, s.row.Gen)
			}
		}
		if i == 1 {
			d = c.everywhere("after Create", want, d, other)
			other = d
		}
	}
}

func createGenRace(c *check) {
	d, other := c.startTwo()
	want := state{}
	var old []driver.Ref
	for range writers {
		row := c.create(d, keyK)
		old = append(old, row.Ref())
		want.create(row)
	}
	gens := map[int64]string{}
	for range 5 {
		var rows [writers]driver.Row
		var lines [writers]driver.Line
		c.together(writers, d, other, func(i int, d driver.Driver) {
			if i%4 < 2 {
				rows[i] = c.create(d, keyK)
			} else {
				rows[i], lines[i] = c.setCurrent(d, old[i])
			}
		})
		for i, row := range rows {
			if i%4 < 2 {
				want.create(row)
			} else if want[row.Ref()].row.Gen != row.Gen {
				want.current(row, lines[i])
			}
			c.errorIf(gens[row.Gen] != "" && gens[row.Gen] != row.ID, "gen %d was given twice, to %s and %s", row.Gen, gens[row.Gen], row.ID)
			gens[row.Gen] = row.ID
		}
		c.wantState("after Create and SetCurrent by several goroutines", want, d, other)
	}
}

func createExists(c *check) {
	d, other := c.startTwo()
	more, want := c.triple("more"), state{}
	row := c.create(d, keyK, more...)
	row.Title, row.Size = "title", int64(c.end(d, row.Ref()))
	c.put(d, row)
	want.create(row, more...)
	want.create(c.create(d, keyK))
	for _, d := range []driver.Driver{d, other} {
		for _, key := range []driver.KeyRef{keyK, keyOther, ownKey("ada")} {
			_, err := c.make(d, key, row.ID, nil)
			c.wantErr("Create with an ID in use", err, fs.ErrExist)
		}
		key := driver.KeyRef{Agent: "main", Key: "new key"}
		_, err := d.Load(c.ctx, key, header(key, row.ID))
		c.wantErr("Load with an ID in use", err, fs.ErrExist)
		for _, key := range []driver.KeyRef{keyOther, ownKey("ada"), key} {
			c.wantNoCurrent("of a key for which Create failed", d, key)
		}
		bad := append(c.triple("bad"), driver.Line{ID: c.id(), Data: []byte("{\n}")})
		_, err = c.make(d, keyK, c.id(), nil, bad...)
		c.errorIf(err == nil, "Create with a line that has a line break: no error")
	}
	c.everywhere("after a Create that failed", want, d, other)
}

func createExistsRace(c *check) {
	d, other := c.startTwo()
	want := state{}
	for range 5 {
		id := c.id()
		made := make(chan driver.Row, writers)
		c.together(writers, d, other, func(i int, d driver.Driver) {
			row, err := c.make(d, driver.KeyRef{Agent: "main", Key: fmt.Sprint("k", i)}, id, nil)
			if err == nil {
				made <- row
			} else {
				c.wantErr("Create with an ID that others take at the same time", err, fs.ErrExist)
			}
		})
		if len(made) != 1 {
			c.fatalf("%d of %d calls of Create with one ID succeed, want one", len(made), writers)
		}
		want.create(<-made)
	}
	c.wantState("after Create by several goroutines", want, d, other)
}

func createAside(c *check) {
	d, other := c.startTwo()
	want := state{}
	aside := func(owner string) driver.Row {
		l := c.note("aside")
		row, err := c.make(d, ownKey(owner), c.id(), func(row *driver.Row) { row.Aside = true }, l)
		c.noErr("Create aside", err)
		want.create(row, l)
		c.wantState("after Create aside", want, d, other)
		return row
	}
	a := aside("ada")
	aside("bert")
	want.create(c.create(d, ownKey("ada")))
	aside("ada")
	aside("A")
	d = c.everywhere("after Create", want, d, other)
	row, l := c.setCurrent(d, a.Ref())
	c.errorIf(row.Gen <= 0, "SetCurrent of a session with gen 0 gives gen %d", row.Gen)
	want.current(row, l)
	loaded, created := c.load(d, ownKey("bert"))
	c.errorIf(!created, "Load of a key with a session aside: session %s", loaded.ID)
	want.create(loaded)
	row, err := c.make(d, ownKey("A"), c.id(), func(row *driver.Row) { row.GivenGen = 1 })
	c.noErr("Create with a gen", err)
	want.create(row)
	c.wantState("after SetCurrent, Load and Create", want, d)
}

// given makes a session with a gen.
func (c *check) given(d driver.Driver, key driver.KeyRef, id string, gen int64) (driver.Row, error) {
	return c.make(d, key, id, func(row *driver.Row) { row.Title, row.GivenGen = "of another storage", gen })
}

func createGiven(c *check) {
	d, other := c.startTwo()
	want := state{}
	give := func(d driver.Driver, key driver.KeyRef, id string, gen int64) {
		row, err := c.given(d, key, id, gen)
		c.noErr("Create with a gen", err)
		want.create(row)
		c.wantState("after Create with a gen", want, d)
	}
	give(d, keyK, "middle", 40)
	give(other, keyK, "newest", 70)
	give(d, keyK, "oldest", 7)
	give(d, keyOther, "elsewhere", 7)
	refuse := func(d driver.Driver) {
		_, err := c.given(d, keyOther, "middle", 9)
		c.wantErr("Create of an ID under another key", err, fs.ErrExist)
		_, err = c.given(d, keyK, "new", 7)
		c.wantErr("Create with the gen of another session", err, fs.ErrExist)
		c.wantErr("SetCurrent with the gen of another session", c.raise(d, "oldest", 70), fs.ErrExist)
	}
	refuse(d)
	refuse(other)
	d = c.everywhere("after Create with a gen that is taken", want, d, other)
	refuse(d)
	row := c.create(d, keyK)
	c.errorIf(row.Gen <= 70, "Create after Create with gen 70: gen %d", row.Gen)
}

// raise raises the gen of a session.
func (c *check) raise(d driver.Driver, id string, gen int64) error {
	c.calling("SetCurrent")
	row, err := d.SetCurrent(c.ctx, driver.Ref{Agent: "main", ID: id}, gen, nil)
	c.errorIf(err == nil && row.ID != id, "SetCurrent of %s returns the row of %q", id, row.ID)
	return err
}

func currentRaise(c *check) {
	d, other := c.startTwo()
	a := c.create(d, keyK, c.triple("text")...)
	b := c.create(d, keyK)
	a.Title, a.Size = "mine", int64(c.end(d, a.Ref()))
	c.put(d, a)
	want := c.state(d)
	for _, gen := range []int64{5, 3} { // a lower one changes nothing
		c.noErr("SetCurrent with a gen", c.raise(other, a.ID, gen))
		want[a.Ref()].row.Gen = 5
		c.wantState("after SetCurrent with a gen", want, d, other)
	}
	d = c.everywhere("after SetCurrent with a gen", want, d, other)
	c.noErr("SetCurrent with a gen", c.raise(d, a.ID, 50))
	row, _ := c.setCurrent(d, b.Ref())
	c.errorIf(row.Gen <= 50, "SetCurrent after one with gen 50: gen %d", row.Gen)
}

func createBase(c *check) {
	d, other := c.startTwo()
	r := c.rewriter(d)
	lines := c.notes(2)
	base := c.create(d, keyK, lines...)
	fork := func(d driver.Driver, rev int) (driver.Row, error) {
		return c.make(d, keyK, c.id(), func(row *driver.Row) {
			row.Base, row.BaseRev = transcript.Link{Agent: "main", Session: base.ID}, new(rev)
		})
	}
	want := state{}
	made, err := fork(other, 0)
	c.noErr("Create with a base", err)
	want.create(made)
	_, err = fork(d, 1)
	c.wantErr("Create with a rev that the base does not have", err, driver.ErrReplaced)
	c.noErr("Rewrite", r.Rewrite(c.ctx, base.Ref(), without(lines[0].ID)))
	for _, d := range []driver.Driver{d, other} {
		_, err = fork(d, 0)
		c.wantErr("Create with the rev from before a Rewrite", err, driver.ErrReplaced)
	}
	again, err := fork(other, 1)
	c.noErr("Create with the rev of the base", err)
	want.create(again)
	c.delete(d, base.Ref())
	_, err = fork(other, 1)
	c.wantErr("Create with a base that is deleted", err, driver.ErrReplaced)
	c.wantState("after Create with a base", want, d)
}

func currentSet(c *check) {
	d, other := c.startTwo()
	a, b := c.create(d, keyK, c.triple("a")...), c.create(d, keyK)
	c.create(d, keyOther)
	c.create(d, ownKey("ada"))
	want, highest := c.state(d), b.Gen
	for _, ref := range []driver.Ref{b.Ref(), a.Ref(), a.Ref(), b.Ref(), a.Ref()} {
		was := want[ref].row.Gen
		row, l := c.setCurrent(d, ref)
		c.errorIf(row.ID != ref.ID, "SetCurrent of %s returns the row of %s", ref.ID, row.ID)
		if was == highest { // the session is the current one
			c.errorIf(row.Gen != was, "SetCurrent of the current session: gen %d, and it had %d", row.Gen, was)
		} else {
			c.errorIf(row.Gen <= highest, "SetCurrent gives gen %d, and the key had %d", row.Gen, highest)
			want.append(ref, l)
		}
		highest = row.Gen
		want[ref].row.Gen = row.Gen
		c.wantState("after SetCurrent", want, d, other)
		d, other = other, d
	}
	d = c.everywhere("after SetCurrent", want, d, other)
	row := c.create(d, keyK)
	c.errorIf(row.Gen <= highest, "Create after SetCurrent: gen %d, and the key had %d", row.Gen, highest)
}
