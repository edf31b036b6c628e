package session

import (
	"cmp"
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
// due or not. What opts leave at zero is what the store's options say; nil opts
// are those of the store.
//
// The summary is made while nothing is locked: others append meanwhile, and
// what they append stays in the history. If the error is nil, either the
// compaction is committed, as durable as any append, or there was nothing to
// do. After an error the transcript and the history are what they were: it is a
// [*compact.Error] if the summarizer failed or its summary was refused, and a
// [*CompactConflictError] if what was summarised has changed meanwhile. One
// compaction at a time runs on a session in a process; others wait for it, and
// one that a summarizer or an observer asks for is an error.
func (s *Session) Compact(ctx context.Context, opts *compact.Options) (Compacted, error) {
	o := s.compactOptions(opts)
	return s.compact(ctx, &o, func(h rebuild.History) compact.Cut { return compact.Plan(h, &o) })
}

// PlanCompact says what [Session.Compact] would do.
func (s *Session) PlanCompact(ctx context.Context, opts *compact.Options) (compact.Cut, error) {
	h, err := s.History(ctx)
	if err != nil {
		return compact.Cut{}, err
	}
	o := s.compactOptions(opts)
	return compact.Plan(h, &o), nil
}

// AfterTurn does what the store's options ask for after each turn, in the
// caller's time: it compacts the history if the trigger of [Options].Compact
// says that it is due. Without a trigger it does nothing. Errors are those of
// Compact.
func (s *Session) AfterTurn(ctx context.Context) (Compacted, error) {
	o := s.compactOptions(nil)
	if o.Trigger.Limit() == 0 {
		return Compacted{Cut: compact.Cut{Nothing: compact.NotDue}}, nil
	}
	return s.compact(ctx, &o, func(h rebuild.History) compact.Cut {
		if size := o.Counter.Count(h.System, nil, h.Messages); !o.Trigger.Due(size) {
			return compact.Cut{Nothing: compact.NotDue, Before: size}
		}
		return compact.Plan(h, &o)
	})
}

// CompactTo implements the Compactor of package guard: it compacts the history
// to at most room tokens as c counts them, if that is possible; room 0 says that
// it is not known how small it must be. It reports whether the history has
// changed. Nil c is the store's counter. Errors are those of Compact.
func (s *Session) CompactTo(ctx context.Context, room int, c tokens.Counter) (changed bool, err error) {
	o := s.compactOptions(nil)
	o.Trigger = compact.Trigger{}
	o.Room = max(room, 0)
	if c != nil {
		o.Counter = c
	}
	done, err := s.compact(ctx, &o, func(h rebuild.History) compact.Cut {
		cut := compact.Plan(h, &o)
		if o.Room == 0 && cut.Nothing == compact.TooShort {
			o.Room = cut.Before / 2 // all that is known: it is too much
			cut = compact.Plan(h, &o)
		}
		return cut
	})
	return done.Entry != "", err
}

// compactOptions returns opts with what the store says where they say nothing.
func (s *Session) compactOptions(opts *compact.Options) compact.Options {
	o, d := compact.Options{}, s.store.opts.Compact
	if opts != nil {
		o = *opts
	}
	if o.Keep == (compact.Keep{}) {
		o.Keep = d.Keep
	}
	if o.Trigger == (compact.Trigger{}) {
		o.Trigger = d.Trigger
	}
	if o.Summarizer == nil {
		o.Summarizer = d.Summarizer
	}
	if o.Counter == nil {
		o.Counter = d.Counter
	}
	if o.Counter == nil {
		o.Counter = s.store.opts.Counter
	}
	o.MaxSummary = cmp.Or(o.MaxSummary, d.MaxSummary)
	o.Timeout = cmp.Or(o.Timeout, d.Timeout)
	o.Room = cmp.Or(o.Room, d.Room, o.Trigger.Room())
	check := o.Check
	if check == nil {
		check = d.Check
	}
	o.Check = func(c compact.Cut) bool { return s.keeps(c) && (check == nil || check(c)) }
	return o
}

// CompactConflictError says that a compaction was not committed, because what
// it summarises has changed while the summary was made: there was another
// compaction or a rewind, or a result came in for a call that had none. It
// matches [ErrConflict]. Nothing was written.
type CompactConflictError struct {
	Compaction transcript.Compaction // with the summary, which may have cost something
	Err        error
}

// Error says what happened.
func (e *CompactConflictError) Error() string {
	return "while the summary was made the history was compacted or rewound, or a late result came in: nothing was written; plan again"
}

// Unwrap returns the cause, which matches [ErrConflict].
func (e *CompactConflictError) Unwrap() error { return e.Err }

// compact plans, has the summary made, and commits it. Nothing is locked while
// the plan and the summary are made.
func (s *Session) compact(ctx context.Context, o *compact.Options, plan func(rebuild.History) compact.Cut) (done Compacted, err error) {
	const op = "compact"
	if ctx.Value(working{s.store, s.ref}) != nil {
		return done, s.store.wrap(op, s.ref, errNested)
	}
	ctx = context.WithValue(ctx, working{s.store, s.ref}, true)
	t := s.store.table.acquire(s.ref)
	defer s.store.table.release(t)
	select {
	case t.compacting <- struct{}{}:
		defer func() { <-t.compacting }()
	case <-ctx.Done():
		return done, s.store.wrap(op, s.ref, ctx.Err())
	}

	if s.store.opts.ReadOnly {
		return done, s.store.wrap(op, s.ref, ErrReadOnly)
	}
	var h rebuild.History
	var base driver.Cursor
	err = s.use(ctx, op, func(t *state) error {
		if err := t.sync(ctx); err != nil {
			return err
		}
		h, base = t.fold.History(), t.next
		return nil
	})
	if err != nil {
		return done, err
	}
	if done.Cut = plan(h); done.Cut.Nothing != "" {
		return done, nil
	}

	began := time.Now()
	s.store.tell(ctx, s.ref, Event{Kind: EventCompactionStart, Cut: done.Cut})
	defer func() {
		e := Event{Kind: EventCompactionDone, Took: time.Since(began), Cut: done.Cut, Compaction: done.Compaction, Err: err}
		if done.Entry == "" { // also if the summarizer has panicked
			e.Kind = EventCompactionFailed
		}
		s.store.tell(ctx, s.ref, e)
	}()
	c, err := compact.Run(ctx, h, done.Cut, o)
	if err != nil {
		return done, s.store.wrap(op, s.ref, err)
	}
	id, err := s.commit(ctx, op, &c, done.Cut, h, base)
	if errors.Is(err, ErrConflict) {
		err = s.store.wrap(op, s.ref, &CompactConflictError{Compaction: c, Err: ErrConflict})
	}
	if err == nil {
		done.Entry, done.Compaction = id, c
	}
	return done, err
}

// working is the key of a context of a running compaction.
type working struct {
	store *Store
	ref   Ref
}

var errNested = errors.New("called by a summarizer or an observer while the session is being compacted, for which it would wait: do it afterwards")

// commitTries is how often a result may come in between the check of what was
// summarised and the append.
const commitTries = 100

// commit appends a compaction of h, which was read up to base, if what it
// summarises is still what it was.
func (s *Session) commit(ctx context.Context, op string, c *transcript.Compaction, cut compact.Cut, h rebuild.History, base driver.Cursor) (id string, err error) {
	for range commitTries {
		var checked driver.Cursor
		err := s.use(ctx, op, func(t *state) error {
			if err := t.sync(ctx); err != nil {
				return err
			}
			checked = t.next
			now := t.fold.History()
			if t.moved > base || cut.At > len(now.Messages) ||
				!slices.Equal(places(now.Messages[:cut.At]), places(h.Messages[:cut.At])) {
				return ErrConflict
			}
			return t.measure(c, cut, now)
		})
		if err != nil {
			return "", err
		}
		// A result that comes in now may be one that the summary says is
		// missing: look again.
		done, err := s.append(ctx, op, driver.Cond{
			Base: checked, Conflicts: []string{transcript.TypeCompaction, transcript.TypeRewind, transcript.TypeToolResult},
		}, *c)
		if err == nil {
			return done.IDs[0], nil
		}
		if !errors.Is(err, ErrConflict) {
			return "", err
		}
	}
	return "", s.store.wrap(op, s.ref, ErrConflict)
}

// keeps reports whether the fold would keep exactly what a cut of the present
// history is to keep.
func (s *Session) keeps(c compact.Cut) bool {
	ok := false
	_ = s.use(context.Background(), "plan", func(t *state) error { // reads nothing, so it cannot fail
		after, _ := t.fold.Preview(transcript.Compaction{Summary: "-", FirstKept: c.FirstKept, CoversTo: c.CoversTo})
		now := t.fold.History().Messages
		ok = c.At <= len(now) && slices.Equal(places(now[c.At:]), places(after.Messages))
		return nil
	})
	return ok
}

// measure sets the numbers of a compaction that is to be appended now. The
// caller holds s.mu.
func (s *state) measure(c *transcript.Compaction, cut compact.Cut, now rebuild.History) error {
	after, turns := s.fold.Preview(*c)
	if !slices.Equal(places(now.Messages[cut.At:]), places(after.Messages)) {
		return ErrConflict
	}
	c.TurnsBefore = max(0, s.fold.Turns()-turns)
	c.TokensBefore = s.opts.Counter.Count(now.System, nil, now.Messages)
	c.TokensAfter = s.opts.Counter.Count(after.System, nil, after.Messages)
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
