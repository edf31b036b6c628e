package filedriver

import (
	"slices"

	"github.com/convolog/convolog/transcript"
)

// undecided holds back records of an append that may not have been written to its end,
// since one that fails is taken back, and others write in its place. An append that is
// whole stays. So does what stands in front of it, unless the file was cut while it
// was being read.
type undecided struct {
	backward bool
	all      bool // nothing is held back any more
	trusting bool // a whole append decides on what stands in front of it
	asking   bool // something follows, and only the holder of the append lock knows what stays

	held  []transcript.Record // in the order of the scan
	batch int                 // where in held the last append begins
	line  int64               // the end of the line that was given last
}

// take takes the next record of a scan and yields what will stay. It reports false if
// the scan is to end.
func (u *undecided) take(rec transcript.Record, yield func(transcript.Record) bool) bool {
	begins := rec.HasEntry() && rec.Entry.Part <= 1
	switch {
	case u.all, rec.End == u.line: // the rest of a line goes with its beginning
		return yield(rec)
	case u.backward:
		if u.held = append(u.held, rec); !begins {
			return true
		}
		if n := max(rec.Entry.Batch, 1); u.trusting && n < len(u.held) {
			u.held = u.held[len(u.held)-n:] // what lies behind the append is left out
		}
		if u.all = isWhole(slices.Backward(u.held), len(u.held)); !u.all {
			u.held, u.asking = u.held[:0], !u.trusting
			return u.trusting
		}
	default:
		if begins && len(u.held) > 0 && !u.trusting {
			u.asking = true
			return false
		}
		if begins {
			u.batch = len(u.held)
		}
		if u.held = append(u.held, rec); !isWhole(slices.All(u.held[u.batch:]), len(u.held)-u.batch) {
			return true
		}
	}
	for _, rec := range u.held {
		if u.line = rec.End; !yield(rec) {
			return false
		}
	}
	u.held, u.batch = u.held[:0], 0
	return true
}

// isWhole reports whether n records are all lines of one append, without damage.
func isWhole(records func(func(int, transcript.Record) bool), n int) bool {
	part := 0
	for _, rec := range records {
		part++
		if rec.Damage != nil || max(rec.Entry.Part, 1) != part || part == 1 && max(rec.Entry.Batch, 1) != n {
			return false
		}
	}
	return true
}
