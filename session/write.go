package session

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/convolog/convolog/session/internal/live"
	"github.com/convolog/convolog/transcript"
)

// submit writes a job in its turn. It reports the damage and the repairs that were found
// to the observer, and names the session in the error.
func (s *Session) submit(op string, t *live.State, j *live.Job) error {
	tried := t.Submit(j)
	if !tried || j.Done.Err == nil && s.store.opts.Observe == nil {
		return s.store.wrap(op, s.ref, j.Done.Err)
	}
	return s.store.done(j.Ctx, op, s.ref, j.Done.Err, newsOf(t.TakeNews())...)
}

// appended reports the end of an append to the observer: of a job, unless it was never
// submitted.
func (s *Session) appended(ctx context.Context, j *live.Job, err *error) {
	if s.store.observe == nil {
		return
	}
	e := Event{Kind: EventAppend, Took: j.Done.Took, Bytes: j.Done.Bytes, Err: *err}
	if *err == nil && !j.Done.Hit {
		e.Entries = len(j.Entries)
	}
	s.store.tell(ctx, s.ref, e)
}

// build makes the entries of items and passes them to the filters. No lock is held: filters
// may take their time.
func (s *Session) build(ctx context.Context, at time.Time, newID func() string, items []transcript.Item) ([]transcript.Entry, error) {
	for _, item := range items {
		if m, ok := item.(transcript.Meta); ok {
			if err := checkMeta(m); err != nil {
				return nil, err
			}
		}
	}
	entries, err := s.store.entries(at, newID, items)
	if err != nil {
		return nil, err
	}
	return s.prepared(ctx, entries)
}

// entries makes the entries of items.
func (st *Store) entries(at time.Time, newID func() string, items []transcript.Item) ([]transcript.Entry, error) {
	switch {
	case len(items) == 0:
		return nil, nil
	case st.opts.NoChecksum:
		return transcript.NewBatch(at, newID, items...)
	}
	return transcript.NewBatchWithChecksums(at, newID, items...)
}

// prepared returns entries as the filters return them.
func (s *Session) prepared(ctx context.Context, entries []transcript.Entry) ([]transcript.Entry, error) {
	st := s.store
	if st.owner == "" && len(st.opts.Filters) == 0 {
		return entries, nil
	}
	isHeader := func(e transcript.Entry) bool { return e.Type() == "session" }
	if slices.ContainsFunc(entries, isHeader) { // filters would mistake it for the header of a new session
		return nil, errors.New("a header begins a session and is not appended: nothing was written")
	}
	return st.filterWrite(ctx, s.ref, entries)
}

// idsOf returns the IDs of entries.
func idsOf(entries []transcript.Entry) []string {
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	return ids
}
