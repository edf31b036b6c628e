package storetest

import (
	"context"
	"iter"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A CountingDriver counts the records that its scans yield.
type CountingDriver struct {
	driver.Driver
	Records int
}

// Scan implements driver.Driver.
func (d *CountingDriver) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		for rec, err := range d.Driver.Scan(ctx, ref, from, dir, keep) {
			d.Records++
			if !yield(rec, err) {
				return
			}
		}
	}
}
