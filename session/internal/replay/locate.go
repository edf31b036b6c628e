package replay

import (
	"errors"
	"fmt"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// ErrNoEntry reports that the ID is unknown in the session.
var ErrNoEntry = errors.New("there is no such entry in the session: use an ID that Entries, Follow or Append gives")

// NoEntry returns an [ErrNoEntry] with the ID.
func NoEntry(id string) error { return fmt.Errorf("entry %q: %w", id, ErrNoEntry) }

// A Place is the place of an entry in a transcript.
type Place struct {
	Start driver.Cursor // of the first line of its batch
	End   driver.Cursor // after the last line of its batch
	At    int64         // its own offset
}

// Locate finds an entry, the last one if several have the ID. It reads backwards
// from the end. An ID that is not there gives an error that matches
// [ErrNoEntry].
func Locate(scan Scan, id string) (p Place, err error) {
	found := false
	var end driver.Cursor // of the batch
	var next transcript.Record
	for rec, err := range scan(0, driver.Backward) {
		if err != nil {
			return p, err
		}
		if !joined(rec, next) {
			if found {
				p.Start = driver.Cursor(rec.End)
				return p, nil
			}
			end = driver.Cursor(rec.End)
		}
		if !found && rec.HasEntry() && rec.Entry.ID == id && id != "" {
			found = true
			p.End, p.At = end, rec.Offset
		}
		next = rec
	}
	if !found {
		return p, NoEntry(id)
	}
	return p, nil
}

// joined reports whether a record belongs to the batch of the one before it.
func joined(rec, next transcript.Record) bool {
	return rec.HasEntry() && next.HasEntry() && next.Entry.Part > 1 && next.Entry.Part == max(rec.Entry.Part, 1)+1
}
