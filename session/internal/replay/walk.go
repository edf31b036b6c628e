package replay

import (
	"cmp"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// walk looks for the oldest line that the history needs, backwards from the end
// of a transcript, and keeps the records on its way, so that they need not be
// read again. It follows the live lines: from a rewind it goes to the entry that
// the rewind names. The last live compaction names the first entry it keeps, and
// there the walk ends. If a rewind has taken that entry back, the walk ends at the last
// entry that the compaction covers. If the walk does not find the entry, or cannot rely
// on its batch, it reaches the first line of the transcript: the records are then
// complete, and from is 0.
type walk struct {
	id      string              // of the session, which names the beginning
	records []transcript.Record // the last one first
	from    driver.Cursor       // where the history begins: set when the walk ends

	liveLines
	// Set by the last live compaction. If a rewind has left first, covers replaces it.
	first, covers string
	bare          bool // the compaction holds no state: a fork has copied it
	lost          bool // all lines are needed; set for good
}

func (w *walk) run(scan Scan) error {
	batch := 0 // where in records the batch begins, with its last line
	for rec, err := range scan(0, driver.Backward) {
		if err != nil {
			return err
		}
		rec.Entry = rec.Entry.WithLine(nil) // the fold does not need it
		w.records = append(w.records, rec)
		if w.lost || rec.Entry.Body == nil || rec.Entry.Part > 1 {
			continue
		}
		if w.passes(batch) {
			return nil
		}
		batch = len(w.records)
	}
	w.from = 0
	return nil
}

// passes takes the batch that begins with the last of the records, and the lines
// after the batch. It reports whether the walk has ended.
func (w *walk) passes(start int) bool {
	batch := w.records[start:]
	holds := holding(batch)
	live := w.isLive(holds)
	switch ends := holds(w.first); {
	case ends && live:
		w.lost = !isComplete(batch) || !keeps(batch, w.first)
		w.from = driver.Cursor(batch[len(batch)-1].Offset)
		return !w.lost
	case ends:
		w.lost = w.covers == "" || !keeps(batch, w.first)
		w.first, w.covers = w.covers, ""
	}
	if !live {
		return false
	}
	for _, rec := range batch { // the last one first
		switch b := rec.Entry.Body.(type) {
		case transcript.Rewind:
			w.follow(b)
			w.lost = w.lost || !isComplete(batch) || b.To == w.id
			return false
		case transcript.Compaction:
			if w.first == "" && !w.lost {
				w.first, w.covers, w.bare = cmp.Or(b.FirstKept, b.CoversTo), b.CoversTo, b.Standing == nil
				w.lost = w.first == "" || b.TurnsBefore == 0 || !isComplete(batch)
			}
		}
	}
	return false
}

// liveLines follows rewinds through a transcript, from the last batch to the first.
// The zero value begins after the last one.
type liveLines struct {
	seeking bool   // the batches that come are not live: set by follow, cleared by isLive
	target  string // up to the one that holds this entry: set by follow
}

// isLive reports whether the next batch is in force, up to a rewind in it. The
// caller must pass every batch.
func (l *liveLines) isLive(holds func(id string) bool) bool {
	if l.seeking && l.target != "" && holds(l.target) {
		l.seeking = false
	}
	return !l.seeking
}

// follow continues from a live rewind: the lines before it, also in its own
// batch, are not live up to the batch of its target.
func (l *liveLines) follow(r transcript.Rewind) { l.seeking, l.target = true, r.To }

// holding returns the function that reports whether records have an entry.
func holding(records []transcript.Record) func(id string) bool {
	return func(id string) bool {
		return id != "" && slices.ContainsFunc(records, func(r transcript.Record) bool { return r.HasEntry() && r.Entry.ID == id })
	}
}

// keeps reports whether a history can continue with a batch that holds the first entry
// a compaction keeps: the entry must be a line of a message, and no line of the batch
// may take it back.
func keeps(batch []transcript.Record, id string) (ok bool) {
	for _, rec := range batch {
		switch rec.Entry.Body.(type) {
		case transcript.MessageLine:
			ok = ok || rec.Entry.ID == id
		case transcript.Rewind:
			return false
		}
	}
	return ok
}

// isComplete reports whether records, the last one first, are one whole batch
// and nothing else.
func isComplete(records []transcript.Record) bool {
	for i, rec := range slices.Backward(records) {
		part := len(records) - i
		if rec.Entry.Body == nil || part > 1 && rec.Entry.Part != part {
			return false
		}
	}
	return max(records[len(records)-1].Entry.Batch, 1) == len(records)
}
