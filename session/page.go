package session

import (
	"context"
	"iter"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Page returns up to n entries of the conversation that follow an entry, in their
// order, or if n is negative up to -n that come before it. An empty entry ID stands
// for both ends: the first ones, or the last ones. They are what people want to
// see: messages, calls, results and compactions, with their IDs and times. Rewound
// entries are left out; what a compaction stands for is there. The next page begins
// with the ID of the last entry, or of the first.
//
// An ID that is not there gives an error that matches [ErrNoEntry].
func (s *Session) Page(ctx context.Context, entryID string, n int) ([]transcript.Entry, error) {
	page, err := s.page(ctx, entryID, n)
	return page, s.store.wrap("read", s.ref, err)
}

func (s *Session) page(ctx context.Context, entryID string, n int) (page []transcript.Entry, err error) {
	m, err := readMarks(siftOf(ctx, s.store.drv, s.ref))
	if err != nil {
		return nil, err
	}
	var start driver.Cursor // of the entry
	for rec, err := range s.backward(ctx, entryID) {
		if err != nil {
			return nil, err
		}
		start = driver.Cursor(rec.Offset)
		break
	}
	if start == 0 && entryID != "" && entryID != s.ref.ID {
		return nil, noEntry(entryID)
	}
	var records iter.Seq2[transcript.Record, error]
	switch {
	case n >= 0:
		records = s.store.drv.Scan(ctx, s.ref, start, driver.Forward)
	case entryID != "":
		records = s.backward(ctx, entryID)
	default:
		records = s.store.drv.Scan(ctx, s.ref, 0, driver.Backward)
	}
	most := max(n, -n)
	for rec, err := range records {
		if err != nil {
			return nil, err
		}
		if len(page) == most {
			break
		}
		if isShown(rec.Entry) && rec.Entry.ID != entryID && !m.rewound(driver.Cursor(rec.Offset)) {
			page = append(page, rec.Entry)
		}
	}
	if n < 0 {
		slices.Reverse(page)
	}
	return page, nil
}

// isShown reports whether people want to see an entry.
func isShown(e transcript.Entry) bool {
	switch e.Body.(type) {
	case transcript.Fragment, transcript.Compaction:
		return true
	}
	return false
}
