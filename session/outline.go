package session

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Where returns where entries stand in the history. Entries that are not in the
// transcript are not in the map.
//
// If the session is in memory with all of the entries, that is enough. Otherwise Where
// reads the transcript, but decodes little more than IDs and types, and keeps the result
// for the next call. So it is no method of [View]: reading a long transcript takes longer
// than the lock of the session may be held.
func (s *Session) Where(ctx context.Context, entryIDs ...string) (where map[string]rebuild.Where, err error) {
	if s.store.table.has(s.ref) {
		known := false
		err := s.view(ctx, "read", func(v *View) error {
			where, known = placesIn(v.t.fold, entryIDs)
			known = known || v.t.from == 0
			return nil
		})
		if known || err != nil && !isGone(err) { // else it may have been made again
			return where, err
		}
	}
	where, err = s.store.places(ctx, s.ref, entryIDs)
	return where, s.store.wrap("read", s.ref, err)
}

// where is Session.Where for the owner of the lock.
func (v *View) where(entryIDs []string) (map[string]rebuild.Where, error) {
	if where, all := placesIn(v.t.fold, entryIDs); all || v.t.from == 0 {
		return where, nil
	}
	return v.s.store.places(v.ctx, v.s.ref, entryIDs)
}

// entriesOf returns the entries that pins come from.
func entriesOf(pins []transcript.Carried) (entryIDs []string) {
	for _, p := range pins {
		entryIDs = append(entryIDs, p.Entry)
	}
	return entryIDs
}

// unrewound returns the pins without those of entries that a rewind has taken back.
func unrewound(pins []transcript.Carried, where map[string]rebuild.Where) []transcript.Carried {
	return slices.DeleteFunc(pins, func(p transcript.Carried) bool { return where[p.Entry].Rewound })
}

// placesIn asks a fold where entries stand, and reports whether it has all of them.
func placesIn(fold *rebuild.Fold, entryIDs []string) (where map[string]rebuild.Where, all bool) {
	where = make(map[string]rebuild.Where, len(entryIDs))
	for _, id := range entryIDs {
		if w, ok := fold.Where(id); ok {
			where[id] = w
		}
	}
	return where, !slices.ContainsFunc(entryIDs, func(id string) bool { _, ok := where[id]; return !ok })
}

// places asks the outline of a session where entries stand.
func (st *Store) places(ctx context.Context, ref Ref, entryIDs []string) (map[string]rebuild.Where, error) {
	o := st.outlines.of(ref)
	select {
	case o.lock <- struct{}{}:
		defer func() { <-o.lock }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := o.sync(ctx, st.drv); err != nil {
		o.fold = nil
		return nil, err
	}
	where, _ := placesIn(o.fold, entryIDs)
	return where, nil
}

// An outline is the fold of a whole transcript without the words of its lines.
type outline struct {
	ref  Ref
	lock chan struct{}     // holds a value while the fields below are in use
	fold *rebuild.Fold     // nil until sync
	last transcript.Record // of the fold
}

// mostOutlines is how many outlines are kept.
const mostOutlines = 8

// outlines keeps the outlines that were used last.
type outlines struct {
	mu   sync.Mutex // guards the field below
	list []*outline // the one used last comes first
}

// of returns the outline of a session.
func (all *outlines) of(ref Ref) *outline {
	all.mu.Lock()
	defer all.mu.Unlock()
	i := slices.IndexFunc(all.list, func(o *outline) bool { return o.ref == ref })
	if i < 0 {
		i = min(len(all.list), mostOutlines-1)
		all.list = append(all.list[:i], &outline{ref: ref, lock: make(chan struct{}, 1)})
	}
	o := all.list[i]
	copy(all.list[1:], all.list[:i])
	all.list[0] = o
	return o
}

// sync makes sure that the fold has every line.
func (o *outline) sync(ctx context.Context, drv driver.Driver) error {
	sift := func(keep driver.Keep) iter.Seq2[transcript.Record, error] { return driver.Sift(ctx, drv, o.ref, keep) }
	var last transcript.Record
	for rec, err := range sift(func(driver.Cursor, []byte) bool { return true }) {
		if err != nil {
			return err
		}
		last = rec
		break
	}
	return o.readTo(last, sift)
}

// readTo reads the lines up to a record, or only those that the fold lacks if its own
// last record is still there.
func (o *outline) readTo(last transcript.Record, sift sifting) error {
	if o.fold != nil && isSame(o.last, last) {
		return nil
	}
	if o.fold != nil && o.last.End <= last.Offset {
		recs, err := readOutline(sift, o.last.Offset, last.End)
		if err != nil {
			return err
		}
		if len(recs) > 0 && isSame(recs[0], o.last) {
			o.last = last
			return o.add(recs[1:])
		}
	}
	recs, err := readOutline(sift, 0, last.End)
	if err != nil {
		return err
	}
	o.fold, o.last = rebuild.New(nil), last
	return o.add(recs)
}

// isSame reports whether records of two readings are of the same line.
func isSame(a, b transcript.Record) bool { return a.Offset == b.Offset && a.Entry.ID == b.Entry.ID }

// add gives records to the fold.
func (o *outline) add(recs []transcript.Record) (err error) {
	var batcher transcript.Batcher
	give := func(batches []transcript.Batch) {
		for _, b := range batches {
			err = cmp.Or(err, o.fold.Add(b))
		}
	}
	for _, rec := range recs {
		give(batcher.Take(rec))
	}
	give(batcher.Break())
	return err
}

// readOutline returns the records of lines between two places, without their words and
// in order.
func readOutline(sift sifting, from, to int64) (recs []transcript.Record, err error) {
	low := to                   // of the lines that were looked at
	damaged := map[int64]bool{} // lines that the scan must look at
	keep := func(at driver.Cursor, lines []byte) (wanted bool) {
		for end := len(lines); end >= 0; {
			start := bytes.LastIndexByte(lines[:end], '\n') + 1
			line, offset := lines[start:end], int64(at)+int64(start)
			end = start - 1
			switch {
			case offset < from:
				return true // the scan ends there
			case offset < low:
				low = offset
				e, ok := outlineOf(line)
				if ok {
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
		if rec.Offset < to {
			if rec.HasEntry() {
				rec.Entry = bare(rec.Entry)
			}
			recs = append(recs, rec)
		}
	}
	slices.SortFunc(recs, func(a, b transcript.Record) int { return cmp.Compare(a.Offset, b.Offset) })
	return recs, nil
}

// outlineOf decodes of a line what says where its entry and others stand. It leaves
// lines that may be damaged to a scan.
func outlineOf(line []byte) (e transcript.Entry, ok bool) {
	sealed := false
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
		case "crc":
			sealed = true
		}
	}
	if sealed && e.Body != nil && transcript.Intact(line) {
		return e, true
	}
	e, err := transcript.ParseEntry(bytes.Clone(line))
	return bare(e), err == nil && transcript.Intact(line)
}

func number(value []byte) int {
	n, _ := jsontext.Int(value)
	return int(n)
}

// bare returns an entry without its words.
func bare(e transcript.Entry) transcript.Entry {
	if body := bareBodies[e.Type()]; body != nil {
		return transcript.Entry{ID: e.ID, Batch: e.Batch, Part: e.Part, Idem: e.Idem, Body: body}
	}
	return e.Erase()
}

// bareBodies are bodies without words, by the types of lines that are frequent and place
// no other line. No history is made of a draft.
var bareBodies = map[string]transcript.Body{
	transcript.TypeUser:       transcript.Fragment{Kind: transcript.TypeUser, Role: transcript.RoleUser},
	transcript.TypeAssistant:  transcript.Fragment{Kind: transcript.TypeAssistant, Role: transcript.RoleAssistant},
	transcript.TypeToolUse:    transcript.Fragment{Kind: transcript.TypeToolUse, Role: transcript.RoleAssistant},
	transcript.TypeToolResult: transcript.Fragment{Kind: transcript.TypeToolResult, Role: transcript.RoleUser},
	transcript.TypeSystem:     transcript.System{},
	transcript.TypeTools:      transcript.Tools{},
	transcript.TypeDispatch:   transcript.Dispatch{},
	transcript.TypeDecision:   transcript.Decision{},
	transcript.TypeDraft:      transcript.Interrupt{},
}
