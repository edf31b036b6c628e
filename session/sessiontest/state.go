package sessiontest

import (
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A state is everything that a driver shows. A check reads it, changes it into the
// state that it expects, and compares.
type state map[driver.Ref]*shown

// shown holds the parts of a state that describe one session.
type shown struct {
	row  driver.Row
	text []string // of the lines
	at   []int64  // where lines begin and end; unknown for expected lines
}

// state reads all sessions, each in every way that shows it, and checks that all
// ways agree.
func (c *check) state(d driver.Driver) state {
	s := state{}
	for _, agent := range c.agents(d) {
		rows := c.list(d, agent)
		c.errorIf(len(rows) == 0, "List of agents returns %q, which has no sessions", agent)
		sorted := slices.IsSortedFunc(rows, func(a, b driver.Row) int { return a.Position().Compare(b.Position()) })
		c.errorIf(!sorted, "List of agent %q: the newest is not the first", agent)
		current := map[driver.KeyRef]driver.Row{}
		for _, row := range rows {
			if key := row.KeyRef(); !row.Archived && row.Gen > current[key].Gen {
				current[key] = row
			}
		}
		for _, row := range rows {
			want := current[row.KeyRef()]
			c.errorIf(row.Current != (want.ID == row.ID), "List: session %s of key %q has Current %v, want %s",
				row.ID, row.KeyRef(), row.Current, want.ID)
			c.wantCurrent(d, row.KeyRef(), want)
			got := c.get(d, row.Ref())
			c.wantRow("Get and List", got, row)
			c.errorIf(got.Bytes != row.Bytes, "Get: session %s has %d Bytes, and %d in a List", row.ID, got.Bytes, row.Bytes)
			s[row.Ref()] = c.read(d, row)
		}
	}
	return s
}

func (c *check) wantCurrent(d driver.Driver, key driver.KeyRef, want driver.Row) {
	c.calling("Load")
	got, err := d.Load(c.ctx, key, nil)
	if want.ID == "" && errors.Is(err, fs.ErrNotExist) {
		return
	}
	c.noErr("Load", err)
	c.wantRow("Load of the current session", got, want)
}

// read scans a session in both directions.
func (c *check) read(d driver.Driver, row driver.Row) *shown {
	s := &shown{row: row}
	recs := c.scan(d, row.Ref(), 0, driver.Forward)
	for _, rec := range recs {
		s.text, s.at = append(s.text, string(rec.Entry.Line())), append(s.at, rec.Offset, rec.End)
	}
	backward := c.scan(d, row.Ref(), 0, driver.Backward)
	slices.Reverse(backward)
	size := int64(len(s.text)) // newlines
	for _, text := range s.text {
		size += int64(len(text))
	}
	c.errorIf(row.Bytes != 0 && row.Bytes != size, "List: session %s has %d Bytes, want %d or 0", row.ID, row.Bytes, size)
	if !sameRecords(recs, backward) {
		c.errorf("forward a scan yields %s, backward the reverse of %s", brief(idsOf(recs)), brief(idsOf(backward)))
	}
	return s
}

// create adds a new session.
func (s state) create(row driver.Row, more ...driver.Line) {
	s[row.Ref()] = &shown{row: row}
	s.append(row.Ref(), append([]driver.Line{headerLine(row)}, more...)...)
}

// append adds lines to a session.
func (s state) append(ref driver.Ref, lines ...driver.Line) {
	s[ref].text = append(s[ref].text, text(lines)...)
}

// current makes a session the current one of its key.
func (s state) current(row driver.Row, l driver.Line) {
	s[row.Ref()].row.Gen = row.Gen
	s.append(row.Ref(), l)
}

// wantState compares the state of each driver.
func (c *check) wantState(when string, want state, ds ...driver.Driver) {
	for _, d := range ds {
		got := c.state(d)
		for ref, w := range want {
			g := got[ref]
			if g == nil {
				c.errorf("%s: session %s of agent %q is missing", when, ref.ID, ref.Agent)
				continue
			}
			was, is := w.row, g.row
			if n := len(g.at); is.Size != was.Size && n > 0 && is.Size == g.at[n-1] { // brought up to date
				was, is = identity(was), identity(is)
			}
			c.wantRow(when, is, was)
			if !slices.Equal(g.text, w.text) || !slices.Equal(g.at[:len(w.at)], w.at) {
				c.errorf("%s: session %s of agent %q has %d lines that are not the %d expected, or at other places: %.2000s",
					when, ref.ID, ref.Agent, len(g.text), len(w.text), g.text)
			}
		}
		for ref := range got {
			c.errorIf(want[ref] == nil, "%s: there is a session %s of agent %q", when, ref.ID, ref.Agent)
		}
	}
}

// everywhere is wantState for two drivers and, after a restart, for a new one, which
// it returns.
func (c *check) everywhere(when string, want state, d, other driver.Driver) driver.Driver {
	c.wantState(when, want, d, other)
	d = c.restart()
	c.wantState(when+", opened again", want, d)
	return d
}

// identity returns the part of a row that does not depend on the lines after the first.
func identity(row driver.Row) driver.Row {
	return driver.Row{ID: row.ID, Agent: row.Agent, Owner: row.Owner, Key: row.Key, Gen: row.Gen, Rev: row.Rev, Archived: row.Archived}
}

// agents returns the names of the agents.
func (c *check) agents(d driver.Driver) (names []string) {
	for _, row := range c.list(d, "") {
		names = append(names, row.Agent)
	}
	c.errorIf(!slices.IsSorted(names), "List of agents: %q, which is not sorted", names)
	return names
}

func (c *check) list(d driver.Driver, agent string) []driver.Row {
	c.calling("List")
	rows, err := d.List(c.ctx, agent, driver.Position{}, 0)
	c.noErr("List", err)
	return rows
}

func (c *check) wantRow(call string, got, want driver.Row) {
	if g, w := rowText(got), rowText(want); g != w {
		c.errorf("%s: row %s, want %s", call, g, w)
	}
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

// sameRecords reports whether scans yielded the same.
func sameRecords(a, b []transcript.Record) bool {
	return slices.EqualFunc(a, b, func(a, b transcript.Record) bool {
		return a.Offset == b.Offset && a.End == b.End && string(a.Entry.Line()) == string(b.Entry.Line())
	})
}
