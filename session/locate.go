package session

import (
	"github.com/convolog/convolog/session/driver"
)

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
	var (
		found = false
		first int64         // once found: the offset of the first line of the batch so far
		part  = 0           // of the record behind, and the end of its batch
		end   driver.Cursor // after the batch of the record behind
	)
	for rec, err := range scan(0, driver.Backward) {
		if err != nil {
			return p, err
		}
		own := max(rec.Entry.Part, 1)
		joined := rec.HasEntry() && part > 1 && own == part-1
		switch {
		case found && joined:
			first = rec.Offset
		case found && rec.End <= first:
			p.start = driver.Cursor(rec.End)
			return p, nil
		}
		if part = own; !joined {
			end = driver.Cursor(rec.End)
		}
		if !rec.HasEntry() {
			part = 0
		}
		if !found && rec.HasEntry() && rec.Entry.ID == id && id != "" {
			found, first = true, rec.Offset
			p.end, p.at = end, rec.Offset
		}
	}
	if !found {
		return p, noEntry(id)
	}
	return p, nil
}
