package sessiontest

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

const (
	textCreate = "Create makes a session and the current one of its key."
	textGen    = "Header gets a gen above all of the key."
)

var createRules = []Rule{
	{"load/first-line", "Without a current session it creates one, and header returns its first line.", loadFirstLine},
	{"load/existing", "Load returns the current session of a key", loadExisting},
	{"load/same", "Callers that ask for one key at the same time, in any process, get the same session.", loadSame},
	{"create/current", textCreate, createCurrent},
	{"create/more", "The lines in more follow the header: the session exists with all of them, or it does not exist.", createMore},
	{"create/gen", textGen, createGen},
	{"create/gen-race", textGen, createGenRace},
	{"create/exists", "An ID in use gives an error that matches [io/fs.ErrExist].", createExists},
	{"create/exists-race", "An ID in use gives an error that matches [io/fs.ErrExist].", createExistsRace},
}

func createMore(c *check) {
	d := c.start()
	more := c.batch(transcript.UserText("one"), transcript.UserText("two"))
	id := c.id()
	row, err := d.Create(c.ctx, driver.KeyRef{Agent: "main", Key: "k"}, header("main", "k", id), more...)
	c.noErr("Create with lines", err)
	want := []string{id, more[0].ID, more[1].ID}
	for _, d := range []driver.Driver{d, c.second(d)} {
		c.wantIDs("Create with lines", c.ids(d, row.Ref()), want)
		_, err := d.Create(c.ctx, driver.KeyRef{Agent: "main", Key: "k"}, header("main", "k", id), more...)
		c.wantErr("Create with an ID in use", err, fs.ErrExist)
	}
	bad := driver.Line{ID: c.id(), Data: []byte("{\n}")}
	ref := driver.Ref{Agent: "main", ID: c.id()}
	if _, err := d.Create(c.ctx, driver.KeyRef{Agent: "main", Key: "k"}, header("main", "k", ref.ID), bad); err == nil {
		c.errorf("Create with a line that has a line break: no error")
	}
	_, err = d.Get(c.ctx, ref)
	c.wantErr("Get after a Create that failed", err, fs.ErrNotExist)
	c.wantIDs("after a Create that failed", c.ids(c.restart(), row.Ref()), want)
}

func loadFirstLine(c *check) {
	d := c.start()
	id, given := c.id(), int64(0)
	c.calling("Load")
	row, err := d.Load(c.ctx, driver.KeyRef{Agent: "main", Key: "k"}, func(gen int64) (driver.Row, driver.Line) {
		given = gen
		row, l := header("main", "k", id)(gen)
		row.Title, row.Labels = "title", []string{"a"}
		return row, l
	})
	c.noErr("Load", err)
	if given <= 0 || row.Gen != given {
		c.errorf("Load: the row has gen %d, and header was given %d, want the same, above 0", row.Gen, given)
	}
	if row.ID != id || row.Agent != "main" || row.Key != "k" || row.Title != "title" || !slices.Equal(row.Labels, []string{"a"}) {
		c.errorf("Load: row %+v is not the one that header returned", row)
	}
	recs := c.scan(d, row.Ref(), 0, driver.Forward)
	_, want := header("main", "k", id)(given)
	if len(recs) != 1 || string(recs[0].Entry.Line()) != string(want.Data) {
		c.errorf("a new session has %d lines, want only %s", len(recs), want.Data)
	}
}

func loadExisting(c *check) {
	d := c.start()
	c.createID(d, "main", "k", "first")
	c.createID(d, "main", "k", "second")
	c.createID(d, "main", "other key", "third")
	for _, d := range []driver.Driver{d, c.second(d)} {
		row, created := c.load(d, driver.KeyRef{Agent: "main", Key: "k"})
		if created || row.ID != "second" {
			c.errorf("Load returns session %q, created %v; want the current one, %q", row.ID, created, "second")
		}
	}
	rows := c.list(d, "main")
	c.errorIf(len(rows) != 3, "after Load of a key that has a session there are %d sessions, want 3", len(rows))
}

func loadSame(c *check) {
	d, other := c.startTwo()
	ds := []driver.Driver{d, other}
	const rounds = 10
	for round := range rounds {
		key := fmt.Sprint("k", round)
		var (
			mu   sync.Mutex
			got  []string
			made int
		)
		c.calling("Load by several goroutines")
		c.together(writers, ds, func(_ int, d driver.Driver) {
			row, created := c.load(d, driver.KeyRef{Agent: "main", Key: key})
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(got, row.ID) {
				got = append(got, row.ID)
			}
			if created {
				made++
			}
		})
		if len(got) != 1 || made != 1 {
			c.errorf("%d calls for one key got %d sessions, %s; created is true %d times, want once", writers, len(got), brief(got), made)
		}
	}
	rows := c.list(d, "main")
	c.errorIf(len(rows) != rounds, "%d keys have %d sessions", rounds, len(rows))
}

func createCurrent(c *check) {
	d, other := c.startTwo()
	a := c.create(d, "main", "k")
	lines := c.triple("a")
	c.append(d, a.Ref(), lines...)
	old := c.ids(d, a.Ref())
	elsewhere := c.create(d, "main", "other key")
	b := c.create(d, "main", "k")
	for _, d := range []driver.Driver{d, other} {
		c.wantCurrent("after Create", d, "main", "k", b.ID)
		c.wantCurrent("of another key after Create", d, "main", "other key", elsewhere.ID)
		c.wantIDs("a new session", c.ids(d, b.Ref()), []string{b.ID})
		c.wantIDs("the session that was current before", c.ids(d, a.Ref()), old)
		rows := c.list(d, "main")
		c.wantIDs("List", rowIDs(rows), []string{a.ID, elsewhere.ID, b.ID})
	}
	c.append(other, a.Ref(), c.note("the old session is still written to"))
	c.wantCurrent("after an append to another session", d, "main", "k", b.ID)
}

func createGen(c *check) {
	d := c.start()
	highest := int64(0)
	for i := range 5 {
		if i == 3 {
			d = c.restart()
		}
		given := int64(0)
		row, err := d.Create(c.ctx, driver.KeyRef{Agent: "main", Key: "k"}, func(gen int64) (driver.Row, driver.Line) {
			if given = gen; gen <= highest {
				c.errorf("Create: header was given gen %d, and the key had %d", gen, highest)
			}
			return header("main", "k", c.id())(gen)
		})
		c.noErr("Create", err)
		c.errorIf(row.Gen != given, "Create: header was given gen %d and the row has %d", given, row.Gen)
		highest = max(highest, given)
	}
}

func createGenRace(c *check) {
	d, other := c.startTwo()
	ds := []driver.Driver{d, other}
	var old []driver.Ref
	for range writers {
		old = append(old, c.create(d, "main", "k").Ref())
	}
	var mu sync.Mutex
	gens := map[int64]driver.Row{}
	for range 5 {
		c.calling("Create and SetCurrent by several goroutines")
		c.together(writers, ds, func(i int, d driver.Driver) {
			var row driver.Row
			var err error
			if i%2 == 0 {
				row, err = d.Create(c.ctx, driver.KeyRef{Agent: "main", Key: "k"}, header("main", "k", c.id()))
			} else {
				row, err = d.SetCurrent(c.ctx, old[i], 0, c.current(c.id()))
			}
			c.noErr("Create or SetCurrent", err)
			mu.Lock()
			defer mu.Unlock()
			if other, ok := gens[row.Gen]; ok && other.ID != row.ID {
				c.errorf("gen %d was given twice, to %s", row.Gen, brief([]string{other.ID, row.ID}))
			}
			gens[row.Gen] = row
		})
		highest := slices.Max(slices.Collect(maps.Keys(gens)))
		c.wantCurrent("after the race", d, "main", "k", gens[highest].ID)
	}
}

func createExists(c *check) {
	d := c.start()
	row := c.create(d, "main", "k")
	c.append(d, row.Ref(), c.triple("a")...)
	row.Title, row.Size = "title", int64(c.settle(d, row.Ref()))
	c.put(d, row)
	latest := c.create(d, "main", "k")
	lines, rows := c.ids(d, row.Ref()), c.list(d, "main")
	for _, d := range []driver.Driver{d, c.second(d)} {
		for _, key := range []string{"k", "other key"} {
			_, err := d.Create(c.ctx, driver.KeyRef{Agent: "main", Key: key}, header("main", key, row.ID))
			c.wantErr("Create with an ID in use", err, fs.ErrExist)
		}
		_, err := d.Load(c.ctx, driver.KeyRef{Agent: "main", Key: "new key"}, header("main", "new key", row.ID))
		c.wantErr("Load with an ID in use", err, fs.ErrExist)
	}
	c.wantIDs("the session whose ID was asked for again", c.ids(d, row.Ref()), lines)
	c.wantRows("after Create with an ID in use", c.list(d, "main"), rows)
	c.wantCurrent("after Create with an ID in use", d, "main", "k", latest.ID)
	for _, key := range []string{"other key", "new key"} {
		c.wantNoCurrent("of a key for which Create failed", d, "main", key)
	}
}

func createExistsRace(c *check) {
	d, other := c.startTwo()
	ds := []driver.Driver{d, other}
	for range 5 {
		id := c.id()
		made := make([]bool, writers)
		c.calling("Create by several goroutines")
		c.together(writers, ds, func(i int, d driver.Driver) {
			key := fmt.Sprint("k", i)
			_, err := d.Create(c.ctx, driver.KeyRef{Agent: "main", Key: key}, header("main", key, id))
			if made[i] = err == nil; !made[i] {
				c.wantErr("Create with an ID that others take at the same time", err, fs.ErrExist)
			}
		})
		n := 0
		for _, ok := range made {
			if ok {
				n++
			}
		}
		c.errorIf(n != 1, "%d calls of Create with one ID: %d succeed, want one", writers, n)
	}
	if rows := c.list(d, "main"); len(rows) != 5 {
		c.errorf("5 IDs were taken, and List returns %d rows", len(rows))
	}
}
