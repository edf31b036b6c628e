package session

import (
	"context"
	"iter"
	"math"
	"slices"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// marks say where the entries of a session stand in its history. They are read
// backwards in one pass that decodes the few lines that say so, and from those on
// the lines up to the entry that they name.
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

func (st *Store) sift(ctx context.Context, ref Ref) sifting {
	return func(keep driver.Keep) iter.Seq2[transcript.Record, error] { return driver.Sift(ctx, st.drv, ref, keep) }
}

// readMarks reads the marks of a session. A rewind to an entry that turns out
// not to be there has no effect: then it begins anew.
func readMarks(sift sifting) (*marks, error) {
	ignored := map[driver.Cursor]bool{}
	for {
		o := &outline{ignored: ignored, next: math.MaxInt64, marks: marks{clipped: map[string]bool{}}}
		if err := o.read(sift); err != nil {
			return nil, err
		}
		if !o.seeking {
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
	batch   []transcript.Record    // the lines of the batch at hand, the last one first
	next    driver.Cursor          // the place behind the batch at hand

	rewind driver.Cursor // the place of the rewind that is followed

	compaction *transcript.Compaction // the last live one
	at         driver.Cursor          // its place, where kept is until one of its entries is found
	found      bool                   // the first entry that it keeps, or if it names none the last that it covers
}

func (o *outline) read(sift sifting) error {
	keep := func(at driver.Cursor, lines []byte) bool {
		if o.looks() || placing.In(lines) {
			return true
		}
		o.next = at
		return false
	}
	for rec, err := range sift(keep) {
		if err != nil {
			return err
		}
		if n := len(o.batch); n > 0 && !joined(inOrder(o.batch[n-1], rec)) {
			o.flush() // it lacks its first lines
		}
		if !rec.HasEntry() {
			continue
		}
		if o.batch = append(o.batch, rec); rec.Entry.Part <= 1 {
			o.flush()
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

// flush takes the batch at hand.
func (o *outline) flush() {
	if len(o.batch) == 0 {
		return
	}
	start := driver.Cursor(o.batch[len(o.batch)-1].Offset)
	holds, seeking := holding(o.batch), o.seeking
	if o.isLive(holds) {
		if seeking {
			o.dead = append(o.dead, deadRange{o.next, o.rewind})
		}
		o.live(start, holds)
	}
	o.next, o.batch = start, o.batch[:0]
}

// live takes a batch that is in force up to a rewind in it.
func (o *outline) live(start driver.Cursor, holds func(id string) bool) {
	if c := o.compaction; c != nil && !o.found {
		switch {
		case holds(c.FirstKept):
			o.kept, o.found = start, true
		case o.kept == o.at && holds(c.CoversTo):
			o.kept, o.found = o.next, c.FirstKept == ""
		}
	}
	for _, rec := range o.batch {
		at := driver.Cursor(rec.Offset)
		switch b := rec.Entry.Body.(type) {
		case transcript.Rewind:
			if !o.ignored[at] {
				o.follow(b)
				o.rewind = at
				return
			}
		case transcript.Compaction:
			if o.compaction == nil {
				o.compaction, o.at, o.kept = &b, at, at
			}
		case transcript.Clip:
			for _, c := range b.Clips {
				o.clipped[c.Entry] = true
			}
		}
	}
}
