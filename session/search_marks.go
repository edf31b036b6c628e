package session

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"math"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// marks say where the entries of a session stand in its history. They are read
// backwards in one pass that decodes the few lines that say so.
type marks struct {
	dead    []deadRange     // the last one first
	kept    driver.Cursor   // entries in front of it are compacted
	clipped map[string]bool // IDs of entries
}

// deadRange has lines that a rewind has taken back.
type deadRange struct{ from, to driver.Cursor }

// rewound reports whether a line was taken back.
func (m *marks) rewound(at driver.Cursor) bool {
	return slices.ContainsFunc(m.dead, func(d deadRange) bool { return d.from <= at && at < d.to })
}

// A sifting yields the records of a transcript as [driver.Sift] does, or all of
// them, from the last to the first.
type sifting = func(keep driver.Keep) iter.Seq2[transcript.Record, error]

func siftOf(ctx context.Context, drv driver.Driver, ref Ref) sifting {
	return func(keep driver.Keep) iter.Seq2[transcript.Record, error] { return driver.Sift(ctx, drv, ref, keep) }
}

// readMarks reads the marks of a session. A rewind to an entry that turns out
// not to be there has no effect: then it begins anew.
func readMarks(sift sifting) (*marks, error) {
	ignored := map[driver.Cursor]bool{}
	for {
		o := &outline{
			ignored: ignored, next: math.MaxInt64, marks: marks{clipped: map[string]bool{}},
		}
		if err := o.read(sift); err != nil {
			return nil, err
		}
		if !o.seeking {
			if o.compaction != nil && !o.found {
				o.kept = cmp.Or(o.covered, o.at)
			}
			return &o.marks, nil
		}
		ignored[o.rewind] = true
	}
}

// outline reads marks. Lines come from the last to the first.
type outline struct {
	marks
	liveLines
	ignored map[driver.Cursor]bool // rewinds to entries that are not there
	batch   []outlined             // the lines of the batch at hand, the last one first
	next    driver.Cursor          // the place behind the batch at hand

	rewind driver.Cursor // the place of the rewind that is followed

	compaction *transcript.Compaction // the last live one
	at         driver.Cursor          // its place
	found      bool                   // the first entry that it keeps
	covered    driver.Cursor          // the place behind what it covers, 0 if that was not found
}

// outlined is what the outline needs of a line.
type outlined struct {
	at       driver.Cursor
	kind, id string
	part     int
	callID   string          // of a call
	name     string          // of its tool
	calls    bool            // the content of a line of another type may have calls
	body     transcript.Body // of a line that was decoded
}

func (o *outline) read(sift sifting) error {
	keep := func(at driver.Cursor, lines []byte) bool {
		switch {
		case !o.looks() && !placing.In(lines):
			o.next = at
			return false
		case bytes.IndexByte(lines, '\n') >= 0:
			return true
		}
		l, ok := outlineOf(lines)
		if !ok || l.kind == transcript.TypeRewind || l.kind == transcript.TypeCompaction || l.kind == transcript.TypeClip {
			return true // to be decoded
		}
		l.at = at
		o.line(l)
		return false
	}
	for rec, err := range sift(keep) {
		if err != nil {
			return err
		}
		if e := rec.Entry; rec.HasEntry() {
			o.line(outlined{at: driver.Cursor(rec.Offset), kind: e.Type(), id: e.ID, part: e.Part, body: e.Body})
		}
	}
	o.flush()
	return nil
}

// looks reports whether the outline looks for an entry, so that it needs every
// line.
func (o *outline) looks() bool {
	return o.seeking || o.compaction != nil && !o.found || len(o.batch) > 0
}

// placing are the types of lines that say where others stand.
var placing = words.NewLiterals(`"rewind"`, `"compaction"`, `"clip"`)

// outlineOf reads the members of a line that is one object.
func outlineOf(line []byte) (l outlined, ok bool) {
	line = jsontext.Trim(line)
	if len(line) == 0 || line[0] != '{' || jsontext.Skip(line, 0) != len(line) {
		return l, false
	}
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
		case "content":
			l.calls = calling.In(value)
		}
	}
	return l, true
}

func (o *outline) line(l outlined) {
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
	seeking := o.seeking
	if o.isLive(o.holds) {
		if seeking {
			o.dead = append(o.dead, deadRange{o.next, o.rewind})
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
				o.follow(b)
				o.rewind = l.at
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
