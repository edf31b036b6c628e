package session

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// Compacted is what [Session.Compact] did.
type Compacted struct {
	// Cut is the plan. If Cut.Nothing is set nothing was done.
	Cut compact.Cut
	// Entry is the ID of the compaction entry; empty if nothing was done.
	Entry      string
	Compaction transcript.Compaction
}

// Compact replaces the older part of the history by a summary, whether that is
// due or not. Nil opts are those of the store; the store's counter is used if
// opts has none.
//
// The summary is made while nothing is locked: others append meanwhile, and
// what they append stays in the history. If the error is nil, either the
// compaction is committed, as durable as any append, or there was nothing to
// do. After an error the transcript and the history are what they were: it is a
// [*compact.Error] if the summarizer failed or its summary was refused, and a
// [*CompactConflictError] if there was a compaction or a rewind meanwhile. One
// compaction at a time runs on a session in a process; others wait for it.
func (s *Session) Compact(ctx context.Context, opts *compact.Options) (Compacted, error) {
	return s.compact(ctx, opts, func(h rebuild.History, o *compact.Options) compact.Cut { return compact.Plan(h, o) })
}

// PlanCompact says what [Session.Compact] would do.
func (s *Session) PlanCompact(ctx context.Context, opts *compact.Options) (c compact.Cut, err error) {
	err = s.use(ctx, "plan", func(t *state) error {
		if err := t.sync(ctx); err != nil {
			return err
		}
		o := t.compactOptions(opts)
		c = compact.Plan(t.fold.History(), &o)
		return nil
	})
	return c, err
}

// AfterTurn does what the store's options ask for after each turn, in the
// caller's time: it compacts the history if the trigger of [Options].Compact
// says that it is due. Without a trigger it does nothing. Errors are those of
// Compact.
func (s *Session) AfterTurn(ctx context.Context) (Compacted, error) {
	trigger := s.store.opts.Compact.Trigger
	if trigger.Limit() == 0 {
		return Compacted{Cut: compact.Cut{Nothing: compact.NotDue}}, nil
	}
	return s.compact(ctx, nil, func(h rebuild.History, o *compact.Options) compact.Cut {
		if size := o.Counter.Count(h.System, nil, h.Messages); !trigger.Due(size) {
			return compact.Cut{Nothing: compact.NotDue, Before: size}
		}
		return compact.Plan(h, o)
	})
}

// Relieve implements the Compactor of package guard: it compacts the history to
// at most room tokens if that is possible; room 0 says that it is not known how
// small it must be. It reports whether the history has changed.
func (s *Session) Relieve(ctx context.Context, room int) (changed bool, err error) {
	done, err := s.compact(ctx, nil, func(h rebuild.History, o *compact.Options) compact.Cut {
		if room > 0 {
			o.Room = room
		}
		c := compact.Plan(h, o)
		if room == 0 && c.Nothing == compact.TooShort {
			o.Room = c.Before // all that is known: it is too much
			c = compact.Plan(h, o)
		}
		return c
	})
	return done.Entry != "", err
}

// CompactConflictError says that a compaction was not committed, because
// another compaction or a rewind was while the summary was made. It matches
// [ErrConflict]. Nothing was written.
type CompactConflictError struct {
	Compaction transcript.Compaction // with the summary, which may have cost something
	Err        error
}

// Error says what happened.
func (e *CompactConflictError) Error() string {
	return "the history was compacted or rewound while its summary was made: nothing was written; plan again"
}

// Unwrap returns the cause, which matches [ErrConflict].
func (e *CompactConflictError) Unwrap() error { return e.Err }

// compact plans, has the summary made, and commits it. Nothing is locked while
// the summarizer runs.
func (s *Session) compact(ctx context.Context, opts *compact.Options,
	plan func(rebuild.History, *compact.Options) compact.Cut,
) (done Compacted, err error) {
	const op = "compact"
	t := s.store.table.acquire(s.ref)
	defer s.store.table.release(t)
	defer s.store.tell(ctx, t)
	select {
	case t.compacting <- struct{}{}:
		defer func() { <-t.compacting }()
	case <-ctx.Done():
		return done, s.store.wrap(op, s.ref, ctx.Err())
	}

	var h rebuild.History
	var base driver.Cursor
	var o compact.Options
	err = s.use(ctx, op, func(t *state) error {
		if err := t.sync(ctx); err != nil {
			return err
		}
		h, base, o = t.fold.History(), t.next, t.compactOptions(opts)
		done.Cut = plan(h, &o)
		return nil
	})
	if err != nil || done.Cut.Nothing != "" {
		return done, err
	}
	cut := done.Cut

	began := time.Now()
	t.happened(Event{Kind: EventCompactionStart, Cut: cut})
	s.store.tell(ctx, t)
	defer func() {
		e := Event{Kind: EventCompactionDone, Took: time.Since(began), Cut: cut, Compaction: done.Compaction, Err: err}
		if err != nil {
			e.Kind = EventCompactionFailed
		}
		t.happened(e)
	}()
	c, err := compact.Run(ctx, h, cut, &o)
	if err != nil {
		return done, s.store.wrap(op, s.ref, err)
	}
	err = s.use(ctx, op, func(t *state) error {
		if err := t.sync(ctx); err != nil {
			return err
		}
		if now := t.fold.History().Messages; cut.At > len(now) || !slices.Equal(places(now[:cut.At]), places(h.Messages[:cut.At])) {
			return ErrConflict // a late result came in, or a rewind: the summary does not have it
		}
		return t.measure(&c, cut, o.Counter)
	})
	if err == nil {
		var appended Appended
		appended, err = s.append(ctx, op, driver.Cond{
			Base: base, Conflicts: []string{transcript.TypeCompaction, transcript.TypeRewind},
		}, c)
		if err == nil {
			done.Entry, done.Compaction = appended.IDs[0], c
			return done, nil
		}
	}
	if errors.Is(err, ErrConflict) {
		err = s.store.wrap(op, s.ref, &CompactConflictError{Compaction: c, Err: ErrConflict})
	}
	return done, err
}

// compactOptions returns opts, those of the store if they are nil, for this
// session. The caller holds t.mu, also while a plan is made.
func (s *state) compactOptions(opts *compact.Options) compact.Options {
	o := s.store.opts.Compact
	if opts != nil {
		o = *opts
	}
	if o.Counter == nil {
		o.Counter = s.store.opts.Counter
	}
	if o.Room == 0 {
		o.Room = o.Trigger.Room()
	}
	check := o.Check
	o.Check = func(c compact.Cut) bool {
		after, _ := s.fold.Preview(transcript.Compaction{Summary: "-", FirstKept: c.FirstKept, CoversTo: c.CoversTo})
		return s.keeps(c, after) && (check == nil || check(c))
	}
	return o
}

// keeps reports whether a history has exactly what a cut is to keep of the
// present one.
func (s *state) keeps(c compact.Cut, after rebuild.History) bool {
	now := s.fold.History().Messages
	return c.At <= len(now) && slices.Equal(places(now[c.At:]), places(after.Messages))
}

// measure sets the numbers of a compaction whose summary was made meanwhile.
// The caller holds s.mu.
func (s *state) measure(c *transcript.Compaction, cut compact.Cut, counter tokens.Counter) error {
	after, turns := s.fold.Preview(*c)
	if !s.keeps(cut, after) {
		return ErrConflict
	}
	now := s.fold.History()
	c.TurnsBefore = max(0, s.fold.Turns()-turns)
	c.TokensBefore = counter.Count(now.System, nil, now.Messages)
	c.TokensAfter = counter.Count(after.System, nil, after.Messages)
	return nil
}

// place is where a block came from.
type place struct {
	entry string
	block int
}

// places lists the blocks of messages that entries hold.
func places(msgs []transcript.Message) (all []place) {
	for _, m := range msgs {
		for _, o := range m.Origins {
			if o.Batch > 0 {
				all = append(all, place{o.Entry, o.Block})
			}
		}
	}
	return all
}
