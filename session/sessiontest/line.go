package sessiontest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// clock is the time of everything the suite writes.
var clock = time.Date(2026, 11, 20, 8, 0, 0, 123456000, time.UTC)

// id returns an ID that is greater than the ones before.
func (c *check) id() string { return fmt.Sprintf("0198f000-0000-7000-8000-%012x", c.lastID.Add(1)) }

// line returns an entry as one line.
func line(e transcript.Entry) driver.Line {
	return driver.Line{ID: e.ID, Data: e.Line()}
}

// entry returns a line on its own.
func (c *check) entry(body transcript.Body) driver.Line {
	return line(transcript.Entry{ID: c.id(), Time: clock, Body: body})
}

// note returns a line other than a head.
func (c *check) note(text string) driver.Line {
	return c.entry(transcript.Custom{Name: "note", Data: fmt.Appendf(nil, "%q", text)})
}

// notes returns n lines other than heads.
func (c *check) notes(n int) []driver.Line {
	lines := make([]driver.Line, n)
	for i := range lines {
		lines[i] = c.note(fmt.Sprint(i))
	}
	return lines
}

// user returns a line that is a head.
func (c *check) user(text string) driver.Line { return c.batch(transcript.UserText(text))[0] }

// triple returns a batch of three lines.
func (c *check) triple(text string) []driver.Line {
	return c.batch(transcript.UserText(text+" 1"), transcript.UserText(text+" 2"), transcript.UserText(text+" 3"))
}

// batch returns the lines of one batch.
func (c *check) batch(items ...transcript.Item) []driver.Line {
	entries, err := transcript.NewBatch(clock, c.id, items...)
	if err != nil {
		c.fatalf("sessiontest: %v", err)
	}
	lines := make([]driver.Line, len(entries))
	for i, e := range entries {
		lines[i] = line(e)
	}
	return lines
}

// header returns a function that makes the first line of a session without an owner.
func header(agent, key, id string) func(gen int64) (driver.Row, driver.Line) {
	return headerOf(driver.KeyRef{Agent: agent, Key: key}, id)
}

// headerOf returns a function that makes the first line of a session.
func headerOf(key driver.KeyRef, id string) func(gen int64) (driver.Row, driver.Line) {
	return func(gen int64) (driver.Row, driver.Line) {
		row := driver.Row{ID: id, Agent: key.Agent, Owner: key.Owner, Key: key.Key, Gen: gen, CreatedAt: clock, UpdatedAt: clock}
		return row, line(transcript.Entry{
			ID: id, Time: clock,
			Body: transcript.Header{Version: transcript.Version, Key: key.Key, Owner: key.Owner, Gen: gen, Created: clock},
		})
	}
}

// current returns a function that makes a line of type current.
func (c *check) current(id string) func(gen int64) driver.Line {
	return func(gen int64) driver.Line {
		return line(transcript.Entry{ID: id, Time: clock, Body: transcript.Current{Gen: gen}})
	}
}

func idsOf(recs []transcript.Record) []string {
	ids := make([]string, len(recs))
	for i, rec := range recs {
		ids[i] = rec.Entry.ID
	}
	return ids
}

func lineIDs(lines ...driver.Line) []string {
	ids := make([]string, len(lines))
	for i, l := range lines {
		ids[i] = l.ID
	}
	return ids
}

// sameRecords reports whether scans yielded the same.
func sameRecords(a, b []transcript.Record) bool {
	return slices.EqualFunc(a, b, func(a, b transcript.Record) bool {
		return a.Offset == b.Offset && a.End == b.End && string(a.Entry.Line()) == string(b.Entry.Line())
	})
}

// brief prints IDs by what tells them apart.
func brief(ids []string) string {
	const most = 8
	short := make([]string, 0, most+1)
	for i, id := range ids {
		if i == most {
			short = append(short, fmt.Sprintf("... %d in all", len(ids)))
			break
		}
		if len(id) == 36 {
			id = strings.TrimLeft(id[24:], "0")
		}
		short = append(short, id)
	}
	return fmt.Sprint(short)
}

// likeUser returns the line that user made with this ID.
func (c *check) likeUser(id, text string) driver.Line {
	entries, err := transcript.NewBatch(clock, func() string { return id }, transcript.UserText(text))
	if err != nil {
		c.fatalf("sessiontest: %v", err)
	}
	return line(entries[0])
}
