package sessiontest

import (
	"fmt"
	"strings"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// clock is the time of everything the suite writes.
var clock = time.Date(2026, 11, 20, 8, 0, 0, 123456000, time.UTC)

// The keys of most sessions.
var (
	keyK     = driver.KeyRef{Agent: "main", Key: "k"}
	keyOther = driver.KeyRef{Agent: "main", Key: "other key"}
)

// id returns an ID that is greater than the ones before.
func (c *check) id() string { return fmt.Sprintf("%s%06x", idPrefix, c.lastID.Add(1)) }

const idPrefix = "0198f000-0000-7000-8000-000000"

// line returns an entry as one line.
func line(id string, body transcript.Body) driver.Line {
	e := transcript.Entry{ID: id, Time: clock, Body: body}
	return driver.Line{ID: id, Data: e.Line()}
}

// note returns a line other than a head.
func (c *check) note(text string) driver.Line {
	return line(c.id(), transcript.Custom{Name: "note", Data: fmt.Appendf(nil, "%q", text)})
}

// notes returns n lines other than heads.
func (c *check) notes(n int) []driver.Line {
	lines := make([]driver.Line, n)
	for i := range lines {
		lines[i] = c.note(fmt.Sprint(i))
	}
	return lines
}

// triple returns a batch of three lines.
func (c *check) triple(text string) []driver.Line { return c.users(text+" 1", text+" 2", text+" 3") }

// users returns the lines of one batch of texts.
func (c *check) users(texts ...string) []driver.Line {
	items := make([]transcript.Item, len(texts))
	for i, text := range texts {
		items[i] = transcript.UserText(text)
	}
	entries, err := transcript.NewBatch(clock, c.id, items...)
	c.noErr("sessiontest", err)
	lines := make([]driver.Line, len(entries))
	for i, e := range entries {
		lines[i] = driver.Line{ID: e.ID, Data: e.Line()}
	}
	return lines
}

func newRow(key driver.KeyRef, id string, gen int64) driver.Row {
	return driver.Row{ID: id, Agent: key.Agent, Owner: key.Owner, Key: key.Key, Gen: gen, CreatedAt: clock, UpdatedAt: clock}
}

// headerLine returns the first line of a session.
func headerLine(row driver.Row) driver.Line {
	return line(row.ID, transcript.Header{Version: transcript.Version, Key: row.Key, Owner: row.Owner, Gen: row.Gen, Created: clock})
}

// header returns a function that makes the first line of a session.
func header(key driver.KeyRef, id string) func(gen int64) (driver.Row, driver.Line) {
	return func(gen int64) (driver.Row, driver.Line) {
		row := newRow(key, id, gen)
		return row, headerLine(row)
	}
}

// currentLine returns a function that makes a line of type current.
func currentLine(id string) func(gen int64) driver.Line {
	return func(gen int64) driver.Line { return line(id, transcript.Current{Gen: gen}) }
}

// each returns the results of f for all elements.
func each[T any](list []T, f func(T) string) []string {
	s := make([]string, len(list))
	for i, e := range list {
		s[i] = f(e)
	}
	return s
}

func text(lines []driver.Line) []string {
	return each(lines, func(l driver.Line) string { return string(l.Data) })
}

func lineIDs(lines ...driver.Line) []string {
	return each(lines, func(l driver.Line) string { return l.ID })
}

func idsOf(recs []transcript.Record) []string {
	return each(recs, func(r transcript.Record) string { return r.Entry.ID })
}

// brief prints IDs by the part that tells them apart.
func brief(ids []string) string {
	return fmt.Sprintf("%d: %.200s", len(ids), strings.ReplaceAll(fmt.Sprint(ids), idPrefix, ""))
}
