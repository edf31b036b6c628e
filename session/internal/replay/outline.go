package replay

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"github.com/convolog/convolog/internal/checksum"
	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// EntriesOf returns the entries that pins come from.
func EntriesOf(pins []transcript.Carried) (entryIDs []string) {
	for _, p := range pins {
		entryIDs = append(entryIDs, p.Entry)
	}
	return entryIDs
}

// InForce leaves out the pins of entries that were taken back by a rewind or are
// hidden.
func InForce(pins []transcript.Carried, where map[string]rebuild.Where) []transcript.Carried {
	return slices.DeleteFunc(pins, func(p transcript.Carried) bool { w := where[p.Entry]; return w.Rewound || w.Hidden })
}

// PlacesIn asks a fold for the places of entries, and reports whether it holds all
// of them.
func PlacesIn(fold *rebuild.Fold, entryIDs []string) (where map[string]rebuild.Where, all bool) {
	where = make(map[string]rebuild.Where, len(entryIDs))
	for _, id := range entryIDs {
		if w, ok := fold.Where(id); ok {
			where[id] = w
		}
	}
	return where, !slices.ContainsFunc(entryIDs, func(id string) bool { _, ok := where[id]; return !ok })
}

// An Outline is the fold of a whole transcript without the words of its lines. The zero
// value has read nothing.
type Outline struct {
	fold *rebuild.Fold     // set by sync; nil before, and after an error
	last transcript.Record // of the fold: set by add
}

// linesBackward yields the lines of a text at a place, the last first, each
// with its place.
func linesBackward(at driver.Cursor, text []byte) iter.Seq2[int64, []byte] {
	return func(yield func(int64, []byte) bool) {
		starts := []int{0} // a search from the end is many times slower
		for i := 0; ; {
			n := bytes.IndexByte(text[i:], '\n')
			if n < 0 {
				break
			}
			i += n + 1
			starts = append(starts, i)
		}
		end := len(text)
		for _, start := range slices.Backward(starts) {
			if !yield(int64(at)+int64(start), text[start:end]) {
				return
			}
			end = start - 1
		}
	}
}

// isIntact reports whether a line is as it was written.
func isIntact(line []byte) bool {
	return checksum.Ends(line) && checksum.Intact(line)
}

// Places returns the places of entries, once the fold has every line. It reads only the
// lines that the fold lacks if its last record is still there.
func (o *Outline) Places(sift Sift, entryIDs []string) (map[string]rebuild.Where, error) {
	if err := o.sync(sift); err != nil {
		o.fold = nil
		return nil, err
	}
	where, _ := PlacesIn(o.fold, entryIDs)
	return where, nil
}

func (o *Outline) sync(sift Sift) error {
	if o.fold != nil {
		recs, err := readOutline(sift, o.last.Offset)
		if err != nil {
			return err
		}
		if len(recs) > 0 && recs[0].Offset == o.last.Offset && recs[0].Entry.ID == o.last.Entry.ID {
			return o.add(recs[1:])
		}
	}
	recs, err := readOutline(sift, 0)
	if err != nil {
		return err
	}
	o.fold = rebuild.New(nil)
	return o.add(recs)
}

// add gives records to the fold.
func (o *Outline) add(recs []transcript.Record) (err error) {
	var batcher transcript.Batcher
	give := func(batches []transcript.Batch) {
		for _, b := range batches {
			err = cmp.Or(err, o.fold.Add(b))
		}
	}
	for _, rec := range recs {
		give(batcher.Take(rec))
		o.last = rec
	}
	give(batcher.Break())
	return err
}

// readOutline returns the records of the lines from a place on, without their words and
// in order.
func readOutline(sift Sift, from int64) (recs []transcript.Record, err error) {
	low := int64(-1)            // of the examined lines
	damaged := map[int64]bool{} // lines that the scan must look at
	keep := func(at driver.Cursor, lines []byte) (wanted bool) {
		if low < 0 {
			return true // until the last line that will stay
		}
		for offset, line := range linesBackward(at, lines) {
			if offset < from {
				return true // the scan ends there
			}
			if offset < low {
				low = offset
				if e, ok := outlineOf(line); ok {
					recs = append(recs, transcript.Record{Offset: offset, Entry: e})
				} else {
					damaged[offset] = true
				}
			}
			wanted = wanted || damaged[offset]
		}
		return wanted
	}
	for rec, err := range sift(keep) {
		if err != nil {
			return nil, err
		}
		if rec.Offset < from {
			break
		}
		if low < 0 {
			low = rec.Offset
		}
		if rec.HasEntry() {
			rec.Entry = bare(rec.Entry)
		}
		recs = append(recs, rec)
	}
	slices.SortFunc(recs, func(a, b transcript.Record) int { return cmp.Compare(a.Offset, b.Offset) })
	return recs, nil
}

// outlineOf decodes the members of a line that place its entry and others. It
// leaves lines that may be damaged to a scan.
func outlineOf(line []byte) (e transcript.Entry, ok bool) {
	for name, value := range jsontext.Members(line) {
		switch name {
		case "type":
			kind, _ := jsontext.Word(value)
			e.Body = bareBodies[kind]
		case "id":
			e.ID, _ = jsontext.String(value)
		case "batch":
			e.Batch = number(value)
		case "part":
			e.Part = number(value)
		case "idem":
			e.Idem, _ = jsontext.String(value)
		case "ts":
			_ = e.Time.UnmarshalJSON(value)
		}
	}
	if e.Body != nil && isIntact(line) {
		return e, true
	}
	e, err := transcript.ParseEntry(bytes.Clone(line))
	return bare(e), err == nil && checksum.Intact(line)
}

func number(value []byte) int {
	n, _ := jsontext.Int(value)
	return int(n)
}

// bare returns an entry without its words.
func bare(e transcript.Entry) transcript.Entry {
	if _, ok := e.Body.(transcript.Unknown); ok { // nothing is written on its account
		e.Body = transcript.Interrupt{}
	}
	if body := bareBodies[e.Type()]; body != nil {
		return transcript.Entry{ID: e.ID, Time: e.Time, Batch: e.Batch, Part: e.Part, Idem: e.Idem, Body: body}
	}
	return e.Erase()
}

// bareBodies are bodies without words, by the types of lines that are frequent and place
// no other line. No history is made of a draft.
var bareBodies = map[string]transcript.Body{
	"user":        transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser},
	"assistant":   transcript.MessageLine{Kind: transcript.TypeAssistant, Role: transcript.RoleAssistant},
	"tool_use":    transcript.MessageLine{Kind: transcript.TypeToolUse, Role: transcript.RoleAssistant},
	"tool_result": transcript.MessageLine{Kind: transcript.TypeToolResult, Role: transcript.RoleUser},
	"system":      transcript.System{},
	"tools":       transcript.Tools{},
	"dispatch":    transcript.Dispatch{},
	"decision":    transcript.Decision{},
	"draft":       transcript.Interrupt{},
}
