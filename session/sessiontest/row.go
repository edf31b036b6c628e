package sessiontest

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/convolog/convolog/session/driver"
)

var rowRules = []rule{
	{"row/put", "Get returns the row of a session. ... Put replaces the row of a session.", rowPut},
	{"row/kept", "Gen, Owner and Key are kept as they are.", rowKept},
	{"row/page", "List returns the next n rows of an agent's sessions after a place, the newest first, with Current set; n 0 means all. ... A row that stays unchanged between two calls is on exactly one of two pages, even if others change.", rowPage},
	{"row/stale", "A row that lacks lines is Stale, unless List has brought it up to date.", rowStale},
	{"row/agents", "Without an agent List returns a row for each agent that has sessions, sorted, with Agent alone.", rowAgents},
}

// fullRow returns row with every field that Put replaces changed. It keeps
// Size: a row of another size is stale.
func fullRow(row driver.Row, i int) driver.Row {
	at := clock.Add(time.Duration(i) * time.Microsecond)
	row.Title, row.TitleByHand = "a \"title\"\n\\ \u2028 <b> 😀", true
	row.TitledAt = 4
	row.Labels = []string{"b", "a", "", "汉字"}
	row.CreatedAt, row.UpdatedAt, row.LastUserAt = at, at.Add(time.Hour), at.Add(time.Minute)
	row.Messages, row.Turns, row.TokenEstimate = 1+i, 2+i, 1<<30+i
	row.LastID = "0198f000-0000-7000-8000-ffffffffffff"
	row.TTL, row.Keep, row.Waits = 1<<33, true, "approval"
	row.Usage = map[string]driver.Usage{"m": {Answers: 1, Input: 2, Output: 3, CacheRead: 4, CacheWrite: 5}, "": {Output: 1}}
	row.Values, row.Unlisted = map[string]json.RawMessage{"": json.RawMessage(`{"a":["\u003c","汉"]}`), "b": json.RawMessage(`null`)}, i
	return row
}

func rowPut(c *check) {
	d, other := c.startTwo()
	first, created, want := c.create(d, keyK), c.create(d, keyK), state{}
	want.create(first)
	want.create(created)
	want.create(c.create(d, keyOther))
	empty := driver.Row{ID: created.ID, Agent: "main", Key: "k", Size: created.Size, Gen: created.Gen}
	for i, row := range []driver.Row{fullRow(created, 1), fullRow(created, 2), empty, fullRow(created, 3)} {
		c.put([]driver.Driver{d, other}[i%2], row)
		want[row.Ref()].row = row
		c.wantState("after Put", want, d, other)
	}
	c.everywhere("after Put", want, d, other)
}

func rowKept(c *check) {
	d, other := c.startTwo()
	a, b, want := c.create(d, keyK), c.create(d, keyK), state{}
	want.create(a)
	want.create(b)
	for _, change := range []func(*driver.Row){
		func(r *driver.Row) { r.Gen = 1000 },
		func(r *driver.Row) { r.Gen = 0 },
		func(r *driver.Row) { r.Key = "other key" },
		func(r *driver.Row) { r.Key = "" },
		func(r *driver.Row) { r.Owner = "bert" },
	} {
		for _, row := range []driver.Row{a, b} {
			change(&row)
			c.put(d, row)
		}
		c.wantState("after Put", want, d, other)
	}
	// A row that was read before SetCurrent must not undo it.
	c.together(writers, d, other, func(i int, d driver.Driver) {
		if i > 0 {
			c.put(d, a)
			return
		}
		row, l := c.setCurrent(d, a.Ref())
		want.current(row, l)
	})
	c.put(d, a)
	c.everywhere("after SetCurrent and Put of an older row", want, d, other)
}

// rowPage reads a list page by page while other rows are put, made and deleted.
func rowPage(c *check) {
	d, other := c.startTwo()
	var rows []driver.Row
	for i := range 12 {
		row := c.create(d, []driver.KeyRef{keyK, keyOther}[i%2])
		row.UpdatedAt = clock.Add(time.Duration(i/3) * time.Minute) // some are equal
		c.put(d, row)
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b driver.Row) int { return a.Position().Compare(b.Position()) })
	var got, want []string
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
			cur, err := d.Load(c.ctx, row.KeyRef(), nil)
			c.errorIf(err != nil || row.Current != (cur.ID == row.ID), "List: row %s has Current %v, and the current session is %s", row.ID, row.Current, cur.ID)
			got = append(got, row.ID)
		}
		after = list[len(list)-1].Position()
		switch page {
		case 0: // a shown and an unshown one come first
			for _, row := range []driver.Row{rows[1], rows[10]} {
				row.UpdatedAt = clock.Add(time.Hour)
				c.put(d, row)
			}
		case 1:
			c.delete(d, rows[4].Ref())
			c.create(d, keyK)
		}
	}
	for i, row := range rows {
		if i != 10 { // it moved to rows already read
			want = append(want, row.ID)
		}
	}
	c.wantIDs("the pages of a list that changes", got, want)
	c.everywhere("opened again", c.state(d), d, other)
}

// rowStale lists a session whose row lacks lines that another process has appended.
func rowStale(c *check) {
	d, other := c.startTwo()
	row := c.create(d, keyK)
	c.put(d, row)
	end := c.append(other, row.Ref(), c.notes(3)...).End
	want := func(d driver.Driver) {
		row = c.list(d, "main")[0]
		c.errorIf(!row.Stale && row.Size != int64(end), "List: a row up to %d of a session that ends at %d is not Stale", row.Size, end)
	}
	want(d)
	want(other)
	d = c.restart()
	want(d)
	row.Size = int64(end)
	c.put(d, row)
	c.errorIf(c.list(d, "main")[0].Stale, "List: a row with all lines is Stale")
}

func rowAgents(c *check) {
	d, other := c.startTwo()
	c.wantState("an empty storage", state{}, d, other)
	want := state{}
	for _, agent := range []string{"b", "a", "b", "a-b", "Z"} {
		want.create(c.create(d, driver.KeyRef{Agent: agent, Key: "k"}))
		c.wantState("after Create", want, d, other)
	}
	for ref := range want {
		if ref.Agent == "b" {
			c.delete(d, ref)
			delete(want, ref)
			c.wantState("after Delete", want, d, other)
		}
	}
	c.errorIf(len(c.list(other, "b")) > 0, "List of an agent that has no sessions returns rows")
}
