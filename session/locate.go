package session

import (
	"iter"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A sifting yields the records of a transcript as [driver.Sift] does, from the last to
// the first.
type sifting = func(keep driver.Keep) iter.Seq2[transcript.Record, error]

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

// inBatches groups the records of a scan in either direction by batches. The first
// and the last group may lack lines of theirs.
func inBatches(records iter.Seq2[transcript.Record, error]) iter.Seq2[[]transcript.Record, error] {
	return func(yield func([]transcript.Record, error) bool) {
		var batch []transcript.Record
		for rec, err := range records {
			if err != nil {
				yield(nil, err)
				return
			}
			if n := len(batch); n > 0 && !joined(inOrder(batch[n-1], rec)) {
				if !yield(batch, nil) {
					return
				}
				batch = nil
			}
			batch = append(batch, rec)
		}
		if len(batch) > 0 {
			yield(batch, nil)
		}
	}
}

// joined reports whether a record is of the batch of the one in front of it.
func joined(rec, next transcript.Record) bool {
	return rec.HasEntry() && next.HasEntry() && next.Entry.Part > 1 && next.Entry.Part == max(rec.Entry.Part, 1)+1
}

func inOrder(a, b transcript.Record) (first, last transcript.Record) {
	if a.Offset > b.Offset {
		return b, a
	}
	return a, b
}
