package memdriver

import (
	"context"
	"iter"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Scan implements [driver.Driver]. A loop sees the session as it was when the
// loop began, even if the session is deleted during the loop. The sequence may
// be ranged over several times; each time it looks again.
func (d *memory) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	const op = "Scan"
	return func(yield func(transcript.Record, error) bool) {
		records, err := d.records(ctx, op, ref, from)
		if err != nil {
			yield(transcript.Record{}, err)
			return
		}
		for i := range records {
			if err := d.ready(ctx); err != nil {
				yield(transcript.Record{}, fail(op, ref, err))
				return
			}
			if dir == driver.Backward {
				i = len(records) - 1 - i
			}
			if driver.Keeps(keep, records[i]) && !yield(records[i], nil) {
				return
			}
		}
	}
}

// records returns the records after a cursor. It needs no lock: elements are
// never changed, and later ones are past its end.
func (d *memory) records(ctx context.Context, op string, ref driver.Ref, from driver.Cursor) ([]transcript.Record, error) {
	s, err := d.findLines(ctx, op, ref, from)
	if err != nil {
		return nil, err
	}
	defer d.storage.mu.Unlock()
	return s.records[min(max(from, 0)&maxLines, driver.Cursor(len(s.records))):], nil
}
