package dialect

import (
	"time"

	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// InZone returns a time of a record, which its program wrote without a zone, as
// the moment when clocks in zone show it. Any other time stays the same, and ok
// is false. A nil zone is UTC.
func InZone(t time.Time, zone *time.Location) (moment time.Time, ok bool) {
	if zone == nil {
		zone = time.UTC
	}
	return fields.InZone(t, zone)
}
