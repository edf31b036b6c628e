// Package replay reads the lines of one session, from any driver, and derives its state:
// the fold of its history, its row in the index, its idempotency keys, the measures of a
// compaction, and the places of entries. It keeps no file open, takes no lock and writes
// nothing.
package replay

import (
	"iter"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// Options of a store that affect the state of its sessions.
type Options struct {
	Summary    rebuild.SummaryForm // of the fold
	Counter    tokens.Counter      // of histories
	Trigger    tokens.Counter      // of histories that may be too long; nil means Counter
	NoChecksum bool                // as in the options of the store
}

// WithChecksum returns an entry whose line has a checksum, unless NoChecksum is set or the
// line would become too long.
func (o *Options) WithChecksum(e transcript.Entry) transcript.Entry {
	if o.NoChecksum || len(e.Line()) > transcript.DefaultMaxLine {
		return e.WithLine(e.Line())
	}
	if with := e.WithChecksum(); len(with.Line()) <= transcript.DefaultMaxLine {
		return with
	}
	return e.WithLine(e.Line())
}

// Scan yields the records of one transcript, as [driver.Driver.Scan] does.
type Scan = func(from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error]

// Sift yields the records of one transcript that keep accepts, from the last to the first,
// as [driver.Driver.Scan] does.
type Sift = func(keep driver.Keep) iter.Seq2[transcript.Record, error]
