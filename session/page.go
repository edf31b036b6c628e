package session

import (
	"context"
	"iter"
	"math"
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
func (s *Session) Page(ctx context.Context, entryID string, n int) (page []transcript.Entry, err error) {
	defer func() { err = s.store.wrap("read", s.ref, err) }()
	m, err := readMarks(s.store.sift(ctx, s.ref))
	if err != nil {
		return nil, err
	}
	var at driver.Cursor // of the entry
	switch {
	case entryID == "" && n < 0:
		at = math.MaxInt64
	case entryID != "" && entryID != s.ref.ID:
		rec, err := s.find(ctx, entryID)
		if err != nil {
			return nil, err
		}
		at = driver.Cursor(rec.Offset)
	}
	return s.near(ctx, at, entryID, n, func(rec transcript.Record) bool {
		switch rec.Entry.Body.(type) {
		case transcript.Fragment, transcript.Compaction: // what people want to see
			return !m.rewound(driver.Cursor(rec.Offset))
		}
		return false
	})
}

// near returns the n entries that follow a place, or the -n in front of it if n is
// negative, in their order: those that shows accepts, without the one with the ID and
// without batches that are superseded. The batch with that entry is not asked about:
// the records may begin inside it, so that it looks cut.
func (s *Session) near(ctx context.Context, at driver.Cursor, id string, n int, shows func(transcript.Record) bool) (list []transcript.Entry, err error) {
	if n == 0 {
		return nil, nil
	}
	recs := s.store.drv.Scan(ctx, s.ref, at, driver.Forward)
	if n < 0 {
		recs = s.backward(ctx, at)
		defer func() { slices.Reverse(list) }()
	}
	isEntry := func(rec transcript.Record) bool { return rec.Entry.ID == id }
	for batch, err := range inBatches(recs) {
		var repeated bool
		if err == nil && !slices.ContainsFunc(batch, isEntry) {
			repeated, err = s.superseded(ctx, batch)
		}
		if err != nil {
			return nil, err
		}
		for _, rec := range batch {
			if repeated || isEntry(rec) || !shows(rec) {
				continue
			}
			if list = append(list, rec.Entry); len(list) == max(n, -n) {
				return list, nil
			}
		}
	}
	return list, nil
}

// inBatches groups the records of a scan in either direction by batches. The first
// and the last group may lack lines of theirs.
func inBatches(records iter.Seq2[transcript.Record, error]) iter.Seq2[[]transcript.Record, error] {
	return func(yield func([]transcript.Record, error) bool) {
		var batch []transcript.Record
		for rec, err := range records {
			if err != nil {
				yield(nil, err)
				return
			}
			if n := len(batch); n > 0 && !joined(inOrder(batch[n-1], rec)) {
				if !yield(batch, nil) {
					return
				}
				batch = nil
			}
			batch = append(batch, rec)
		}
		if len(batch) > 0 {
			yield(batch, nil)
		}
	}
}

// joined reports whether a record is of the batch of the one in front of it.
func joined(rec, next transcript.Record) bool {
	return rec.HasEntry() && next.HasEntry() && next.Entry.Part > 1 && next.Entry.Part == max(rec.Entry.Part, 1)+1
}

func inOrder(a, b transcript.Record) (first, last transcript.Record) {
	if a.Offset > b.Offset {
		return b, a
	}
	return a, b
}

// superseded reports whether a batch was cut by a crash and appended again, under
// its idempotency key.
func (s *Session) superseded(ctx context.Context, batch []transcript.Record) (bool, error) {
	first, last := inOrder(batch[0], batch[len(batch)-1])
	key := first.Entry.Idem
	if key == "" || len(batch) == first.Entry.Batch || first.Entry.Batch < 2 {
		return false, nil
	}
	return hasKey(s.store.scan(ctx, s.ref), driver.Cursor(last.End), key)
}
