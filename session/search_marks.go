package session

import (
	"bytes"
	"context"
	"math"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// marks are the outline of a session: where its entries stand in the history, and
// which tool a result is of. They are read backwards in one pass that decodes the
// few lines that say so and only the leading members of the others.
type marks struct {
	dead    []deadRange     // the last one first
	kept    driver.Cursor   // entries in front of it are compacted
	clipped map[string]bool // IDs of entries
	absent  map[string]bool // IDs of entries that compactions carry items of and that are not there
	calls   map[string][]call
}

// deadRange has lines that a rewind has taken back.
type deadRange struct{ from, to driver.Cursor }

// call is a tool call at its place.
type call struct {
	at   driver.Cursor
	name string
}

// rewound reports whether a line was taken back.
func (m *marks) rewound(at driver.Cursor) bool {
	i, _ := slices.BinarySearchFunc(m.dead, at, func(d deadRange, at driver.Cursor) int {
		switch {
		case at < d.from:
			return -1
		case at >= d.to:
			return 1
		}
		return 0
	})
	return i < len(m.dead) && m.dead[i].from <= at && at < m.dead[i].to
}

// tool returns the tool of the last call with an ID in front of a result, or in
// the same line.
func (m *marks) tool(id string, at driver.Cursor) string {
	for _, c := range m.calls[id] { // the last one first
		if c.at <= at {
			return c.name
		}
	}
	return ""
}

// readMarks reads the outline of a session. A rewind to an entry that turns out
// not to be there has no effect: then it begins anew.
func readMarks(ctx context.Context, drv driver.Driver, ref Ref) (*marks, error) {
	ignored := map[driver.Cursor]bool{}
	for {
		o := &outline{
			ignored: ignored, next: math.MaxInt64,
			marks: marks{clipped: map[string]bool{}, absent: map[string]bool{}, calls: map[string][]call{}},
		}
		if err := o.read(ctx, drv, ref); err != nil {
			return nil, err
		}
		if o.target == "" {
			o.finish()
			return &o.marks, nil
		}
		ignored[o.rewind] = true
	}
}

// outline reads marks. Lines come from the last to the first, and the live ones
// are followed as [walk] does.
type outline struct {
	marks
	ignored map[driver.Cursor]bool // rewinds to entries that are not there
	batch   []outlined             // the lines of the batch at hand, the last one first
	next    driver.Cursor          // the place behind the batch at hand

	target string        // of a rewind: lines behind its batch are not live
	rewind driver.Cursor // the place of that rewind

	compaction *transcript.Compaction // the last live one
	at         driver.Cursor          // its place
	found      bool                   // the first entry that it keeps
	covered    driver.Cursor          // the place behind what it covers, 0 if that was not found
}

// outlined is what the outline needs of a line.
type outlined struct {
	at         driver.Cursor
	kind, id   string
	part       int
	callID     string
	name       string
	body       transcript.Body // of a line that was decoded
	wholeLines bool            // the line is one object
}

func (o *outline) read(ctx context.Context, drv driver.Driver, ref Ref) error {
	keep := func(at driver.Cursor, lines []byte) bool {
		if bytes.IndexByte(lines, '\n') >= 0 {
			return true
		}
		l := outlineOf(lines)
		l.at = at
		switch {
		case !l.wholeLines, l.kind == transcript.TypeRewind, l.kind == transcript.TypeCompaction, l.kind == transcript.TypeClip:
			return true // to be decoded
		case l.kind == transcript.TypeAssistant && bytes.Contains(lines, []byte(`"tool_use"`)):
			return true
		}
		o.line(l)
		return false
	}
	for rec, err := range driver.Sift(ctx, drv, ref, keep) {
		if err != nil {
			return err
		}
		if rec.HasEntry() {
			e := rec.Entry
			l := outlined{at: driver.Cursor(rec.Offset), kind: e.Type(), id: e.ID, part: e.Part, body: e.Body}
			o.line(l)
		}
	}
	o.flush()
	return ctx.Err()
}

// outlineOf reads the members of a line that is one object; of any other line it
// says that it is not.
func outlineOf(line []byte) (l outlined) {
	line = jsontext.Trim(line)
	if len(line) == 0 || line[0] != '{' || jsontext.Skip(line, 0) != len(line) {
		return l
	}
	l.wholeLines = true
	for name, value := range jsontext.Members(line) {
		switch name {
		case "type":
			l.kind, _ = jsontext.Word(value)
		case "id":
			l.id, _ = jsontext.String(value)
		case "part":
			part, _ := jsontext.Int(value)
			l.part = int(part)
		case "tool_use_id":
			l.callID, _ = jsontext.String(value)
		case "name":
			l.name, _ = jsontext.String(value)
		}
	}
	return l
}

func (o *outline) line(l outlined) {
	delete(o.absent, l.id)
	switch b := l.body.(type) {
	case transcript.Fragment:
		for _, block := range b.Content {
			if c, ok := block.(transcript.ToolCallBlock); ok {
				o.calls[c.ID] = append(o.calls[c.ID], call{l.at, c.Name})
			}
		}
	case transcript.Compaction:
		for _, items := range [][]transcript.Carried{b.Said, b.Errors, b.Files, b.IDs} {
			for _, i := range items {
				o.absent[i.Entry] = true
			}
		}
	default:
		if l.kind == transcript.TypeToolUse {
			o.calls[l.callID] = append(o.calls[l.callID], call{l.at, l.name})
		}
	}
	l.callID, l.name = "", ""
	o.batch = append(o.batch, l)
	if l.part <= 1 {
		o.flush()
	}
}

// flush takes the batch at hand.
func (o *outline) flush() {
	if len(o.batch) == 0 {
		return
	}
	start := o.batch[len(o.batch)-1].at
	if o.target == "" || o.holds(o.target) {
		if o.target != "" {
			o.dead = append(o.dead, deadRange{o.next, o.rewind})
			o.target = ""
		}
		o.live(start)
	}
	o.next, o.batch = start, o.batch[:0]
}

func (o *outline) holds(id string) bool {
	return id != "" && slices.ContainsFunc(o.batch, func(l outlined) bool { return l.id == id })
}

// live takes a batch that is in force up to a rewind in it.
func (o *outline) live(start driver.Cursor) {
	if c := o.compaction; c != nil && !o.found {
		if o.found = o.holds(c.FirstKept); o.found {
			o.kept = start
		} else if o.covered == 0 && o.holds(c.CoversTo) {
			o.covered = o.next
		}
	}
	for _, l := range o.batch {
		switch b := l.body.(type) {
		case transcript.Rewind:
			if !o.ignored[l.at] {
				o.target, o.rewind = b.To, l.at
				if b.To == "" {
					o.target = "\x00" // no entry has that ID
				}
				return
			}
		case transcript.Compaction:
			if o.compaction == nil {
				o.compaction, o.at = &b, l.at
			}
		case transcript.Clip:
			for _, c := range b.Clips {
				o.clipped[c.Entry] = true
			}
		}
	}
}

// finish says what the compaction keeps if its first kept entry was not found.
func (o *outline) finish() {
	switch {
	case o.compaction == nil || o.found:
	case o.covered > 0:
		o.kept = o.covered
	default:
		o.kept = o.at
	}
}
