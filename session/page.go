package session

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Page returns up to n entries of the conversation that follow an entry, in their
// order, or if n is negative up to -n that come before it. An empty entry ID stands
// for both ends: the first ones, or the last ones. They are what people want to
// see: messages, calls, results and compactions, with their IDs and times. Rewound
// entries are left out; what a compaction stands for is there. The next page begins with the ID of the last entry, or of
// the first.
//
// Its cost is that of the entries from the page to the end of the transcript. An
// ID that is not there, or that a rewind has taken back, gives an error that
// matches [fs.ErrNotExist].
func (s *Session) Page(ctx context.Context, entryID string, n int) ([]transcript.Entry, error) {
	page, err := s.page(ctx, entryID, n)
	return page, s.store.done(ctx, "read", s.ref, err)
}

func (s *Session) page(ctx context.Context, entryID string, n int) (page []transcript.Entry, err error) {
	back := n < 0
	taking := back && entryID == "" // entries of the page, the last one first
	found := taking
	for e, err := range s.backward(ctx) {
		if err != nil {
			return nil, err
		}
		if e.ID == entryID {
			found = true
			if !back {
				break
			}
			taking = true
			continue
		}
		if !isShown(e) || back && !taking {
			continue
		}
		page = append(page, e)
		if back && len(page) == -n {
			break
		}
		if !back && len(page) > 2*n { // the first ones are the last in it
			page = append(page[:0], page[len(page)-n:]...)
		}
	}
	if !found && entryID != "" {
		return nil, fmt.Errorf("there is no entry %q in the conversation: %w", entryID, fs.ErrNotExist)
	}
	slices.Reverse(page)
	if !back {
		page = slices.Clone(page[:min(n, len(page))])
	}
	return page, nil
}

// isShown reports whether people want to see an entry.
func isShown(e transcript.Entry) bool {
	switch e.Body.(type) {
	case transcript.Fragment, transcript.Compaction:
		return e.Of == ""
	}
	return false
}

// backward yields the live entries of the transcript, the last one first.
func (s *Session) backward(ctx context.Context) func(yield func(transcript.Entry, error) bool) {
	return func(yield func(transcript.Entry, error) bool) {
		target, batch := "", []transcript.Entry(nil) // of a rewind; the batch at hand, the last one first
		for rec, err := range s.store.drv.Scan(ctx, s.ref, 0, driver.Backward) {
			if err != nil {
				yield(transcript.Entry{}, err)
				return
			}
			if rec.Entry.Body == nil {
				continue
			}
			if batch = append(batch, rec.Entry); rec.Entry.Part > 1 {
				continue
			}
			if target != "" && !slices.ContainsFunc(batch, func(e transcript.Entry) bool { return e.ID == target }) {
				batch = batch[:0]
				continue
			}
			target = ""
			for _, e := range batch {
				if r, ok := e.Body.(transcript.Rewind); ok {
					target = r.To
					break
				}
				if !yield(e, nil) {
					return
				}
			}
			batch = batch[:0]
		}
	}
}
