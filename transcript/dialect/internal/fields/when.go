package fields

import (
	"math"
	"strconv"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
)

// layouts are the forms of ISO 8601 with a zone; fractions of a second are
// read after every one of them.
var layouts = []string{
	time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z0700", "2006-01-02T15:04Z07:00",
}

// zoneless are the forms without a zone.
var zoneless = []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04"}

// noZone is the location of times that a program wrote without a zone. They are
// taken for UTC.
var noZone = time.FixedZone("without a zone", 0)

// InZone returns a time of a record, which its program wrote without a zone, as
// the moment when clocks in zone show it. Any other time stays the same, and ok
// is false.
func InZone(t time.Time, zone *time.Location) (moment time.Time, ok bool) {
	if t.Location() != noZone {
		return t, false
	}
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), zone).UTC(), true
}

// Time reads the JSON of a time: ISO 8601 with a zone, or Unix seconds, beyond 1e11
// milliseconds. The result is zero for other values.
func Time(v []byte) time.Time {
	if s, ok := jsontext.String(v); ok {
		for _, layout := range layouts {
			if t, err := time.Parse(layout, s); err == nil {
				return t.UTC()
			}
		}
		for _, layout := range zoneless {
			if t, err := time.ParseInLocation(layout, s, noZone); err == nil {
				return t
			}
		}
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return time.Time{}
		}
		return fromUnix(f)
	}
	f, ok := jsontext.Float(v)
	if !ok {
		return time.Time{}
	}
	return fromUnix(f)
}

// fromUnix returns the moment of seconds, or of milliseconds if there are very
// many, to the microsecond.
func fromUnix(seconds float64) time.Time {
	const (
		milliseconds = 1e11 // seconds until the year 5138
		last         = 253402300799
	)
	if math.Abs(seconds) > milliseconds {
		seconds /= 1000
	}
	if math.IsNaN(seconds) || math.Abs(seconds) > last {
		return time.Time{}
	}
	whole, frac := math.Modf(seconds)
	return time.Unix(int64(whole), int64(math.Round(frac*1e6))*1e3).UTC()
}
