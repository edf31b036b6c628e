package session

import (
	"context"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// find returns the record of an entry. Few others are decoded.
func find(sift sifting, id string) (transcript.Record, error) {
	holds := holdsID(id)
	for rec, err := range sift(func(_ driver.Cursor, lines []byte) bool { return holds(lines) }) {
		if err != nil || rec.HasEntry() && rec.Entry.ID == id && id != "" {
			return rec, err
		}
	}
	return transcript.Record{}, noEntry(id)
}

// backward yields the records up to a place, the last one first. Others are not
// decoded.
func (s *Session) backward(ctx context.Context, to driver.Cursor) records {
	keep := func(at driver.Cursor, _ []byte) bool { return at <= to }
	return func(yield func(transcript.Record, error) bool) {
		for rec, err := range s.store.sift(ctx, s.ref)(keep) {
			if (err != nil || driver.Cursor(rec.Offset) <= to) && !yield(rec, err) {
				return
			}
		}
	}
}

// A located entry of a transcript.
type located struct {
	start driver.Cursor // of the first line of its batch
	end   driver.Cursor // after the last line of its batch
	at    int64         // its own offset
}

// locate finds an entry, of several with the ID the last one. It reads backwards
// from the end. An ID that is not there gives an error that matches
// [ErrNoEntry].
func locate(scan scan, id string) (p located, err error) {
	found := false
	var first int64 // once found: the offset of the first line of the batch
	for batch, err := range inBatches(scan(0, driver.Backward)) {
		if err != nil {
			return p, err
		}
		for _, rec := range batch {
			switch {
			case found && rec.End <= first:
				p.start = driver.Cursor(rec.End)
				return p, nil
			case !found && rec.HasEntry() && rec.Entry.ID == id && id != "":
				found, first = true, batch[len(batch)-1].Offset
				p.end, p.at = driver.Cursor(batch[0].End), rec.Offset
			}
		}
	}
	if !found {
		return p, noEntry(id)
	}
	return p, nil
}
