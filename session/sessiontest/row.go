package sessiontest

import (
	"cmp"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/convolog/convolog/session/driver"
)

var rowRules = []Rule{
	{"row/get", "Get returns the row of a session.", rowGet},
	{"row/put", "Put replaces the row of a session.", rowPut},
	{"row/kept", "Gen, Owner and Key are kept as they are.", rowKept},
	{"row/list", "List returns the next n rows of an agent's sessions after a place, the newest first, with Current set; n 0 means all.", rowList},
	{"row/page", "A row that stays unchanged between two calls is on exactly one of two pages, even if others change.", rowPage},
	{"row/agents", "Without an agent List returns a row for each agent that has sessions, sorted, with Agent alone.", rowAgents},
}

// list returns the rows of an agent's sessions, sorted by ID.
func (c *check) list(d driver.Driver, agent string) []driver.Row {
	c.calling("List")
	rows, err := d.List(c.ctx, agent, driver.Position{}, 0)
	c.noErr("List", err)
	slices.SortFunc(rows, func(a, b driver.Row) int { return cmp.Compare(a.ID, b.ID) })
	return rows
}

func rowIDs(rows []driver.Row) []string {
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	slices.Sort(ids)
	return ids
}

// rowText prints a row, in the same way for equal rows.
func rowText(row driver.Row) string {
	if len(row.Labels) == 0 {
		row.Labels = nil
	}
	for _, t := range []*time.Time{&row.CreatedAt, &row.UpdatedAt, &row.LastUserAt} {
		*t = t.UTC()
	}
	data, err := json.Marshal(row)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (c *check) wantRow(call string, got, want driver.Row) {
	if g, w := rowText(got), rowText(want); g != w {
		c.errorf("%s: row %s, want %s", call, g, w)
	}
}

func (c *check) wantRows(when string, got, want []driver.Row) {
	if len(got) != len(want) {
		c.errorf("List %s: %d rows, want %d", when, len(got), len(want))
		return
	}
	for i := range got {
		c.wantRow("List "+when, got[i], want[i])
	}
}

func (c *check) wantAgents(when string, d driver.Driver, want []string) {
	c.calling("List of agents")
	rows, err := d.List(c.ctx, "", driver.Position{}, 0)
	var got []string
	for _, row := range rows {
		got = append(got, row.Agent)
	}
	if err != nil {
		c.errorf("List of agents %s: unexpected error %v", when, err)
	} else if !slices.Equal(got, want) {
		c.errorf("List of agents %s: %q, want %q", when, got, want)
	}
}

func rowGet(c *check) {
	d, other := c.startTwo()
	a := c.create(d, "main", "k")
	c.create(d, "main", "k")
	b, err := d.Load(c.ctx, driver.KeyRef{Agent: "main", Key: "other key"}, header("main", "other key", c.id()))
	c.noErr("Load", err)
	s := c.setCurrent(d, a.Ref())
	for _, want := range []driver.Row{s, b} {
		for _, d := range []driver.Driver{d, other} {
			got := c.get(d, want.Ref())
			c.wantRow("Get", got, want)
		}
	}
}

// fullRow returns row with every field changed that Put replaces. File belongs
// to the driver, and a row with another size than the lines is stale.
func fullRow(row driver.Row, i int) driver.Row {
	at := clock.Add(time.Duration(i) * time.Microsecond)
	row.Title, row.TitleByHand = "a \"title\"\n\\ \u2028 <b> 😀", true
	row.TitledAt = 4
	row.Labels = []string{"b", "a", "", "汉字"}
	row.CreatedAt, row.UpdatedAt, row.LastUserAt = at, at.Add(time.Hour), at.Add(time.Minute)
	row.Messages, row.Turns, row.TokenEstimate = 1+i, 2+i, 1<<30+i
	row.LastID = "0198f000-0000-7000-8000-ffffffffffff"
	row.TTL, row.Keep = 1<<33, true
	row.Usage = map[string]driver.Usage{"m": {Answers: 1, Input: 2, Output: 3, CacheRead: 4, CacheWrite: 5}, "": {Output: 1}}
	return row
}

func rowPut(c *check) {
	d, other := c.startTwo()
	created := c.create(d, "main", "k")
	bystander := c.create(d, "main", "other key")
	empty := driver.Row{ID: created.ID, Agent: "main", Key: "k", Size: created.Size, Gen: created.Gen}
	for i, want := range []driver.Row{fullRow(created, 1), fullRow(created, 2), empty, fullRow(created, 3)} {
		put, get := d, other
		if i%2 == 1 {
			put, get = other, d
		}
		c.put(put, want)
		got := c.get(get, want.Ref())
		c.wantRow("Get after Put", got, want)
		current, err := get.Load(c.ctx, driver.KeyRef{Agent: "main", Key: "k"}, nil)
		c.noErr("Current", err)
		c.wantRow("Current after Put", current, want)
		c.wantRows("after Put", c.list(get, "main"), []driver.Row{want, bystander})
	}
	c.wantIDs("the session after Put", c.ids(d, created.Ref()), []string{created.ID})
}

func rowKept(c *check) {
	d := c.start()
	a := c.create(d, "main", "k")
	b := c.create(d, "main", "k")
	for _, change := range []func(*driver.Row){
		func(r *driver.Row) { r.Gen = 1000 },
		func(r *driver.Row) { r.Gen = 0 },
		func(r *driver.Row) { r.Key = "other key" },
		func(r *driver.Row) { r.Key = "" },
		func(r *driver.Row) { r.Owner = "bert" },
	} {
		for _, row := range []driver.Row{a, b} {
			changed := row
			change(&changed)
			c.put(d, changed)
			got := c.get(d, row.Ref())
			if got.Gen != row.Gen || got.KeyRef() != row.KeyRef() {
				c.errorf("Put with gen %d and key %q: the row has gen %d and key %q, want %d and %q",
					changed.Gen, changed.KeyRef(), got.Gen, got.KeyRef(), row.Gen, row.KeyRef())
			}
		}
		c.wantCurrent("after Put", d, "main", "k", b.ID)
	}
	// A row that was read before SetCurrent must not undo it.
	ds := []driver.Driver{d, c.second(d)}
	c.together(writers, ds, func(i int, d driver.Driver) {
		if i > 0 {
			c.put(d, a)
			return
		}
		c.setCurrent(d, a.Ref())
	})
	c.put(d, a)
	c.wantCurrent("after SetCurrent and Put of an older row", d, "main", "k", a.ID)
}

func rowList(c *check) {
	d, other := c.startTwo()
	ds := []driver.Driver{d, other}
	if rows := c.list(d, "main"); len(rows) > 0 {
		c.errorf("List of an empty storage returns %d rows", len(rows))
	}
	c.create(d, "other", "k")
	var mu sync.Mutex
	var want []driver.Row
	c.together(writers, ds, func(i int, d driver.Driver) {
		for range 4 {
			row := c.create(d, "main", []string{"k", "other key"}[i%2])
			mu.Lock()
			want = append(want, row)
			mu.Unlock()
		}
	})
	slices.SortFunc(want, func(a, b driver.Row) int { return cmp.Compare(a.ID, b.ID) })
	for _, d := range ds {
		c.wantRows("after 64 calls of Create", c.list(d, "main"), want)
	}
	if rows := c.list(d, "nobody"); len(rows) > 0 {
		c.errorf("List of an agent that has no sessions returns %d rows", len(rows))
	}
}

// rowPage reads a list page by page while other rows are put, made and deleted.
func rowPage(c *check) {
	d, other := c.startTwo()
	var rows []driver.Row
	for i := range 12 {
		row := c.create(d, "main", []string{"k", "other key"}[i%2])
		row.UpdatedAt = clock.Add(time.Duration(i/3) * time.Minute) // some are equal
		c.put(d, row)
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b driver.Row) int { return a.Position().Compare(b.Position()) })
	var got []string
	after := driver.Position{}
	for page := 0; ; page++ {
		c.calling("List")
		list, err := other.List(c.ctx, "main", after, 5)
		c.noErr("List", err)
		if len(list) == 0 {
			break
		}
		c.errorIf(len(list) > 5, "List of 5 rows returns %d", len(list))
		for _, row := range list {
			if cur, err := d.Load(c.ctx, driver.KeyRef{Agent: "main", Key: row.Key}, nil); err == nil && row.Current != (cur.ID == row.ID) {
				c.errorf("List: row %s of key %q has Current %v, and the current session is %s", row.ID, row.Key, row.Current, cur.ID)
			}
			got = append(got, row.ID)
		}
		after = list[len(list)-1].Position()
		switch page {
		case 0: // one that was shown and one that was not come first
			for _, row := range []driver.Row{rows[1], rows[10]} {
				row.UpdatedAt = clock.Add(time.Hour)
				c.put(d, row)
			}
		case 1:
			c.delete(d, rows[4].Ref())
			c.create(d, "main", "k")
		}
	}
	var want []string
	for i, row := range rows {
		if i != 10 { // it went where the list had been read
			want = append(want, row.ID)
		}
	}
	c.wantIDs("the pages of a list that changes", got, want)
	all := c.list(other, "main")
	c.calling("List")
	list, err := d.List(c.ctx, "main", driver.Position{}, 0)
	c.noErr("List", err)
	if len(list) != len(all) || !slices.IsSortedFunc(list, func(a, b driver.Row) int { return a.Position().Compare(b.Position()) }) {
		c.errorf("List returns %d of %d rows, or not the newest first: %v", len(list), len(all), rowIDs(list))
	}
}

func rowAgents(c *check) {
	d, other := c.startTwo()
	c.wantAgents("of an empty storage", d, nil)
	b := c.create(d, "b", "k")
	c.create(other, "a", "k")
	c.create(d, "b", "k2")
	c.create(d, "a-b", "k")
	c.create(d, "Z", "k")
	for _, d := range []driver.Driver{d, other} {
		c.wantAgents("after Create", d, []string{"Z", "a", "a-b", "b"})
	}
	c.delete(d, b.Ref())
	c.wantAgents("after one of an agent's two sessions was deleted", d, []string{"Z", "a", "a-b", "b"})
	rows := c.list(d, "b")
	for _, row := range rows {
		c.delete(d, row.Ref())
	}
	for _, d := range []driver.Driver{d, other} {
		c.wantAgents("after an agent's last session was deleted", d, []string{"Z", "a", "a-b"})
	}
}
