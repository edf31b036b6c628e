package search

import (
	"context"
	"fmt"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Page returns up to n entries of the conversation after an entry, in order, or if n is
// negative up to -n entries before it. An empty entry ID means either end: the first entries,
// or the last ones. A page holds the entries that people want to see: messages, calls, results
// and compactions, with their IDs and times. It omits rewound and hidden entries and includes
// compacted ones. For the next page, pass the ID of the last entry, or of the first.
//
// An unknown ID gives an error that matches [session.ErrNoEntry].
func Page(ctx context.Context, s *session.Session, entryID string, n int) ([]transcript.Entry, error) {
	var from transcript.Record
	if entryID != "" && entryID != s.Ref().ID {
		var err error
		if from, err = find(ctx, s, entryID); err != nil {
			return nil, err
		}
	} else if entryID != "" && n < 0 {
		return nil, nil // nothing comes before the header
	}
	return near(ctx, s, from, n, func(e transcript.Entry, w rebuild.Where) bool {
		switch e.Body.(type) {
		case transcript.MessageLine, transcript.Compaction: // what people want to see
			return !w.Rewound && !w.Superseded && !w.Hidden
		}
		return false
	})
}

// Window returns an entry and the messages around it in the transcript, in order: at most before
// earlier and after later ones, each an entry of one message line. Compacted entries are included,
// and clipped texts are whole; rewound and hidden entries are left out unless the entry itself is
// one. An unknown ID gives an error that matches [session.ErrNoEntry].
func Window(ctx context.Context, s *session.Session, entryID string, before, after int) ([]transcript.Entry, error) {
	rec, err := find(ctx, s, entryID)
	if err != nil {
		return nil, err
	}
	where, err := s.Where(ctx, entryID)
	if err != nil {
		return nil, err
	}
	own := where[entryID]
	shows := func(e transcript.Entry, w rebuild.Where) bool {
		f, ok := e.Body.(transcript.MessageLine)
		return ok && len(f.Content) > 0 && (own.Rewound || !w.Rewound) && (own.Superseded || !w.Superseded) && (own.Hidden || !w.Hidden)
	}
	list, err := near(ctx, s, rec, -max(before, 0), shows)
	if err != nil {
		return nil, err
	}
	behind, err := near(ctx, s, rec, max(after, 0), shows)
	if err != nil {
		return nil, err
	}
	return slices.Concat(list, []transcript.Entry{rec.Entry}, behind), nil
}

// near returns the n entries after a record, or the -n before it if n is negative, in
// order, but only entries that shows accepts by content and place. The zero record means
// either end.
func near(ctx context.Context, s *session.Session, rec transcript.Record, n int, shows func(transcript.Entry, rebuild.Where) bool) (list []transcript.Entry, err error) {
	opts := session.ScanOptions{From: rec.Offset}
	if n < 0 {
		opts, n = session.ScanOptions{Backward: true, To: rec.Offset}, -n
		defer func() { slices.Reverse(list) }()
	}
	if n == 0 {
		return nil, nil
	}
	var found []transcript.Entry // candidates to show
	take := func() error {
		ids := make([]string, len(found))
		for i, e := range found {
			ids[i] = e.ID
		}
		where, err := s.Where(ctx, ids...)
		for _, e := range found {
			if len(list) < n && shows(e, where[e.ID]) {
				list = append(list, e)
			}
		}
		found = found[:0]
		return err
	}
	for next, err := range s.Scan(ctx, opts) {
		if err == nil && next.HasEntry() && next.Entry.ID != rec.Entry.ID && shows(next.Entry, rebuild.Where{}) {
			if found = append(found, next.Entry); len(found) == n {
				err = take()
			}
		}
		if err != nil || len(list) == n {
			return list, err
		}
	}
	return list, take()
}

// find returns the record of an entry, the last one with the ID.
func find(ctx context.Context, s *session.Session, id string) (transcript.Record, error) {
	if id != "" {
		for rec, err := range s.Scan(ctx, session.ScanOptions{Backward: true, ID: id}) {
			return rec, err
		}
	}
	return transcript.Record{}, noEntry(s, id)
}

func noEntry(s *session.Session, id string) error {
	return &session.Error{Op: "read", Session: s.Ref(), Err: fmt.Errorf("entry %q: %w", id, session.ErrNoEntry)}
}
