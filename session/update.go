package session

import (
	"context"
	"time"

	"github.com/convolog/convolog/session/internal/live"
	"github.com/convolog/convolog/transcript"
)

// Update appends the items that f returns, if the session is still as f has seen it. If
// another process has appended since, Update locks the log and calls f again, with a
// new View, so it succeeds however busy others are. Update returns the IDs of the
// entries. If f returns no items nothing is appended.
//
// f runs as in [Session.View]. As it may run several times, it should only decide. An
// error of f is returned and nothing is written. Errors of the append are returned,
// except [ErrConflict]. If something is erased from the session between the first
// View and the append, the error matches [ErrReplaced].
//
// A compaction among the items is completed: Update puts the system prompt and the tools
// before it, and fills in its token and turn counts and the state that it holds. If f puts a
// [transcript.Calibration] with Failures into its Standing, that many summaries have
// failed in a row; otherwise the summarizer works. The error matches ErrConflict unless
// the compaction keeps the end of the history exactly as it is, from its FirstKept on, and
// has read everything that it replaces, as CoversTo and Read say.
func (s *Session) Update(ctx context.Context, op string, f func(v *View) ([]transcript.Item, error)) (ids []string, err error) {
	began := time.Now()
	ids, c, err := s.update(ctx, op, live.AnyRev, f)
	if err == nil && c != nil {
		s.store.tell(ctx, s.ref, Event{Kind: EventCompactionDone, Took: time.Since(began), Compaction: *c})
	}
	return ids, err
}

// update is Update for an operation that began with a View of a rev. It also returns the
// compaction among the items, as it was stored.
func (s *Session) update(
	ctx context.Context, op string, rev int, f func(v *View) ([]transcript.Item, error),
) (ids []string, c *transcript.Compaction, err error) {
	t := s.store.table.Acquire(ctx, s.ref)
	defer s.store.table.Release(t)
	ctx = s.store.begin(ctx, s.ref, Event{Kind: EventAppendStart})
	made := 0
	newIDs := func() string { // the same in every try
		if made == len(ids) {
			ids = append(ids, newID())
		}
		made++
		return ids[made-1]
	}
	var items []transcript.Item
	j := &live.Job{Ctx: ctx, Owner: s.store.owner, At: s.store.opts.Now(), Rev: rev}
	defer s.appended(ctx, j, &err)
	j.Decide = func(ctx context.Context) error {
		made, j.Entries = 0, nil
		v := &View{s: s, t: t, ctx: ctx}
		items, err = f(v)
		if err == nil {
			items, c, err = t.Complete(items)
		}
		return err
	}
	j.Build = func() (err error) {
		if len(items) > 0 {
			j.Entries, err = s.build(ctx, j.At, newIDs, items)
		}
		return err
	}
	if err := s.submit(op, t, j); err != nil {
		return nil, nil, err
	}
	return ids[:made], c, nil
}
