package session

import (
	"iter"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A sifting yields the records of a transcript that keep accepts, from the last to the
// first, as [driver.Driver.Scan] does.
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
	var end driver.Cursor // of the batch
	var next transcript.Record
	for rec, err := range scan(0, driver.Backward) {
		if err != nil {
			return p, err
		}
		if !joined(rec, next) {
			if found {
				p.start = driver.Cursor(rec.End)
				return p, nil
			}
			end = driver.Cursor(rec.End)
		}
		if !found && rec.HasEntry() && rec.Entry.ID == id && id != "" {
			found = true
			p.end, p.at = end, rec.Offset
		}
		next = rec
	}
	if !found {
		return p, noEntry(id)
	}
	return p, nil
}

// joined reports whether a record belongs to the batch of the one before it.
func joined(rec, next transcript.Record) bool {
	return rec.HasEntry() && next.HasEntry() && next.Entry.Part > 1 && next.Entry.Part == max(rec.Entry.Part, 1)+1
}
