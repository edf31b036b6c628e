package session

import (
	"context"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// skip prepares to read from base on, where the entry baseID is: it reads the
// header and nothing that follows it.
func (s *state) skip(ctx context.Context, row driver.Row, base driver.Cursor, baseID string) error {
	for rec, err := range s.store.drv.Scan(ctx, s.ref, 0, driver.Forward) {
		if err != nil {
			return err
		}
		h, ok := rec.Entry.Body.(transcript.Header)
		if rec.Damage != nil || !ok || rec.Entry.ID != s.ref.ID || h.Version > transcript.Version {
			return nil // something is odd: read all of it
		}
		s.version = h.Version
		break
	}
	if s.version == 0 {
		return nil
	}
	s.row, s.next, s.known, s.tail = row, base, driver.Cursor(row.Size), true
	s.base, s.baseID = base, baseID
	if row.Size < int64(base) { // the index is behind
		s.bare, s.known = true, base
		s.recount = true // what is kept is not what was appended
	}
	s.row.Labels = slices.Clone(row.Labels)
	s.fold = rebuild.New(&rebuild.Options{Summary: s.opts.Summary, Tail: true})
	return nil
}

// searchFrom is how large a transcript must be, as cursors go, for a search to
// cost less than reading it.
const searchFrom = 64 << 10

// search looks backwards for the lines that the last compaction keeps, for
// which the index would have said where they begin. It returns 0 if all lines
// are to be read.
func (s *state) search(ctx context.Context) (base driver.Cursor, id string, err error) {
	first, found, part := "", false, 0 // the first entry that is kept
	for rec, err := range s.store.drv.Scan(ctx, s.ref, 0, driver.Backward) {
		if err != nil {
			return 0, "", err
		}
		e := rec.Entry
		switch b := e.Body.(type) {
		case transcript.Rewind:
			return 0, "", nil // the compaction may not be in force
		case transcript.Compaction:
			if first == "" {
				if first = b.FirstKept; first == "" || b.TurnsBefore == 0 {
					return 0, "", nil
				}
			}
		}
		if found && (rec.Damage != nil || e.Part != part-1 && (part != 2 || e.Part != 0)) {
			return 0, "", nil // not a batch that can be relied on
		}
		found = found || rec.Damage == nil && e.ID != "" && e.ID == first
		if part = e.Part; found && part <= 1 {
			return driver.Cursor(rec.Offset), e.ID, nil
		}
	}
	return 0, "", nil
}
