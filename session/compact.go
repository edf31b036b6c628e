package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/internal/live"
	"github.com/convolog/convolog/session/internal/replay"
	"github.com/convolog/convolog/transcript"
)

// Reasons to skip a compaction that is due or that a guard requests.
const (
	// TooSoon: the additions since the last compaction are less than a fifth of
	// the window, so another one would gain little and cost as much.
	//
	// The counter of the store counts them: the present history, less its size
	// after that compaction. The window is the smallest that the trigger, the guard
	// or the calibration of the model in use names. Without any, it is the limit of
	// the trigger.
	//
	// AfterTurn makes no compaction that is too soon. [Session.Compact] does, and so
	// does [Session.CompactFor] if it gains a fifth of the window or the provider has
	// refused the request. A compaction that a rewind has taken back does not count, as
	// the history is as large as before it.
	TooSoon compact.Reason = "too soon after the last compaction: less than a fifth of the window has come in since"
	// CoolingDown: three or more summaries have failed in a row, and less than
	// a fifth of the window has come in since the last of them.
	CoolingDown compact.Reason = "cooling down: the summarizer has failed three times in a row, and less than a fifth of the window has come in since"
)

// Compacted is the result of [Session.Compact].
type Compacted struct {
	// Cut is the plan. If Cut.Nothing is set nothing was done.
	Cut compact.Cut `json:"cut"`
	// Entry is the ID of the compaction entry; empty if nothing was done.
	Entry string `json:"entry,omitempty"`
	// Compaction is the body of the entry. After an error that matches [ErrConflict]
	// it is not stored, but holds the summary, which may have cost something.
	Compaction transcript.Compaction `json:"compaction,omitzero"`
}

// Compact replaces the older part of the history by a summary, whether that is
// due or not. Zero fields of opts default to the store's options, and so do nil
// opts.
//
// The summary is made without a lock: concurrent appends continue, and stay in the
// history. If the error is nil, either the compaction is committed, as durable as any
// append, or there was nothing to do. After an error the transcript and the history are
// unchanged. It is a [*compact.Error] if the summarizer failed or its summary was
// refused. It matches [ErrConflict] if the part that it replaces was changed while the
// summary was made: by another compaction, a rewind, a hide, or the late result of a
// call. In a process, one compaction at a time runs on a session: others wait for it,
// and a request by its summarizer or an observer fails.
//
// A call that waits for a person, or was approved and not started, is not
// summarised: the cut is before it.
func (s *Session) Compact(ctx context.Context, opts *compact.Options) (Compacted, error) {
	return s.compact(ctx, &work{Options: s.compactOptions(opts)})
}

// AfterTurn is to be called after each turn. It compacts the history, before it
// returns, if that is due by the trigger of [Options].Compact, and brings the
// index up to date. If there is nothing to compact its cost depends on the
// additions since the last call, not on the length of the history. It fails as
// Compact does.
//
// AfterTurn takes the calibration of the model into account: a window that is
// smaller than the trigger's, and the error of the estimate. It does nothing
// right after a compaction, see [TooSoon], and after three failures of the
// summarizer, see [CoolingDown].
//
// Before the compaction it calls all functions of [Options].AfterTurn in order. The error
// joins their errors.
func (s *Session) AfterTurn(ctx context.Context) (Compacted, error) {
	defer s.turnEnded(ctx)
	var errs []error
	for _, do := range s.store.opts.AfterTurn {
		errs = append(errs, do(ctx, s))
	}
	done, err := s.compactIfDue(ctx)
	return done, errors.Join(append(errs, err)...)
}

// compactIfDue compacts if it is due, not too soon and not cooling down.
func (s *Session) compactIfDue(ctx context.Context) (Compacted, error) {
	w := &work{Options: s.compactOptions(nil)}
	if w.Trigger.Room() == 0 && w.Trigger.Windows == nil {
		return Compacted{Cut: compact.Cut{Nothing: compact.NotDue}}, nil
	}
	w.see = func(t *live.State, l replay.Learned) (cut compact.Cut, _ error) {
		stored, size := t.Size() // TokensAfter and FailedAt count like stored
		cut.Before = size
		trigger, least := l.Trigger(w.Trigger), l.Fifth(w.Trigger, 0)
		switch {
		case !l.Due(trigger, cut.Before):
			cut.Nothing = compact.NotDue
		case l.TooSoon(stored, least):
			cut.Nothing = TooSoon
		case l.Cooling(stored, least):
			cut.Nothing = CoolingDown
		}
		return cut, nil
	}
	return s.compact(ctx, w)
}

// CompactFor implements the Compactor of package guard: it compacts the history
// to at most n.Room tokens as n.Counter counts them, if that is possible; room 0
// means that the necessary size is unknown. It reports whether the history has
// changed. Nil n.Counter is the store's counter.
//
// If the summarizer fails, [compact.Extractive] writes the summary in its place,
// with a deadline of its own, and the error of the summarizer is returned although
// the history has changed. After three failures in a row the summarizer rests
// until AfterTurn or Compact gets a summary from it; without these calls every
// eighth compaction tries it again.
//
// A call that waits for a person is summarised only if that is the only way to
// make room; then it is no longer pending.
//
// If the provider has refused the request, no compaction is too soon. If only
// an estimate finds it too long, a compaction that is [TooSoon] and would gain
// less than a fifth of the window is skipped without an error: an estimate
// proves nothing, so the request can be sent.
func (s *Session) CompactFor(ctx context.Context, n guard.Need) (changed bool, err error) {
	first, cancel := firstPart(ctx)
	done, err := s.compactFor(first, n, false)
	cancel()
	if err == nil || ctx.Err() != nil {
		return done.Entry != "", err
	}
	done, again := s.compactFor(ctx, n, true)
	if again != nil && again.Error() != err.Error() {
		err = errors.Join(err, again)
	}
	return done.Entry != "", err
}

// firstPart returns a context that leaves a quarter of the time for the later
// steps.
func firstPart(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(deadline)*3/4)
	}
	return ctx, func() {}
}

// compactFor makes the needed room with the summarizer, or with its substitute,
// which costs no call and is never too soon.
func (s *Session) compactFor(ctx context.Context, n guard.Need, standIn bool) (Compacted, error) {
	o := s.compactOptions(nil)
	o.Room = max(n.Room, 0)
	if n.Counter != nil {
		o.Counter = n.Counter
	}
	o.Recall = o.Recall || n.Recall
	w, least := &work{Options: o, model: n.Model}, 0
	w.see = func(_ *live.State, l replay.Learned) (compact.Cut, error) {
		w.Trigger.Threshold = 0 // does not affect the window
		w.Window, least = cmp.Or(w.Window, replay.Smallest(n.Window, l.Trigger(w.Trigger).Window)), l.Fifth(w.Trigger, n.Window)
		w.Trigger = compact.Trigger{}
		return compact.Cut{}, nil
	}
	w.adjust = func(cut compact.Cut, l replay.Learned) compact.Cut {
		little := cut.Nothing == "" && cut.After > cut.Before/4*3
		if w.Room == 0 && (little || cut.Nothing == compact.TooShort) {
			w.Room = cut.Before / 2 // all that is known: it is too much
			cut = compact.Plan(w.history, &w.Options)
		}
		if cut.Nothing != "" || w.Room > 0 && cut.After > w.Room {
			w.Check = o.Check
			cut = compact.Plan(w.history, &w.Options)
		}
		if cut.Nothing != "" {
			return cut
		}
		size := replay.CountHistory(s.store.opts.Counter, w.history)
		if !n.Refused && !standIn && l.TooSoon(size, least) && cut.Before-cut.After < least {
			cut.Nothing = TooSoon
			return cut
		}
		w.unasked = !standIn && l.Broken()
		if w.standIn = standIn || w.unasked; w.standIn {
			w.Summarizer = compact.Extractive{Counter: w.Counter}
		}
		return cut
	}
	return s.compact(ctx, w)
}

// compactOptions returns opts with the store's options for zero fields.
func (s *Session) compactOptions(opts *compact.Options) compact.Options {
	o, d := compact.Options{}, s.store.opts.Compact
	if opts != nil {
		o = *opts
	}
	if o.Keep = cmp.Or(o.Keep, d.Keep); o.Trigger.Room() == 0 && o.Trigger.Windows == nil {
		o.Trigger = d.Trigger
	}
	o.Summarizer = cmp.Or(o.Summarizer, d.Summarizer)
	o.Counter = cmp.Or(o.Counter, d.Counter, s.store.opts.Counter)
	o.MaxSummary = cmp.Or(o.MaxSummary, d.MaxSummary)
	o.MaxCarried = cmp.Or(o.MaxCarried, d.MaxCarried)
	if s.store.opts.Summary != rebuild.SummaryUser { // as programs with that form do
		o.MaxSummary, o.MaxCarried = cmp.Or(o.MaxSummary, 2_048), cmp.Or(o.MaxCarried, -1)
	}
	o.Window = cmp.Or(o.Window, d.Window)
	o.Guidance = cmp.Or(o.Guidance, d.Guidance)
	o.Recall = o.Recall || d.Recall
	if o.Files == nil {
		o.Files = d.Files
	}
	if o.Instructions == nil {
		o.Instructions = d.Instructions
	}
	o.Timeout = cmp.Or(o.Timeout, d.Timeout)
	o.Room = cmp.Or(o.Room, d.Room)
	observe := o.Observe
	if observe == nil {
		observe = d.Observe
	}
	o.Observe = func(ctx context.Context, step compact.Step) {
		s.store.tell(ctx, s.ref, Event{Kind: EventCompactionStep, Step: step})
		if observe != nil {
			observe(ctx, step)
		}
	}
	check := o.Check
	if check == nil {
		check = d.Check
	}
	o.Check = func(c compact.Cut) bool { return s.keeps(c) && (check == nil || check(c)) }
	return o
}

// work is one compaction.
type work struct {
	compact.Options // after look, Check refuses cuts after calls that wait for a person or were approved
	// see, if set, is called with the state to plan for, before a history is made. It
	// may change the options, and set the reason to do nothing in the cut.
	see func(*live.State, replay.Learned) (compact.Cut, error)
	// adjust, if set, returns the plan to follow instead of cut. It may change the
	// options, and report that another summarizer replaces the requested one.
	adjust  func(cut compact.Cut, l replay.Learned) compact.Cut
	model   string // to be called next, if a guard asks
	standIn bool   // compact.Extractive writes the summary: set by adjust
	unasked bool   // the same, because the summarizer rests

	history rebuild.History // of the plan: set by look
	rev     int             // of the session: set by look
}

// compact plans, has the summary made, and commits it. Nothing is locked while
// the plan and the summary are made.
func (s *Session) compact(ctx context.Context, w *work) (done Compacted, err error) {
	const op = "compact"
	ctx, free, err := s.alone(ctx, op)
	if err != nil {
		return done, err
	}
	defer free()
	var l replay.Learned
	if done.Cut, l, err = s.look(ctx, op, w); err != nil {
		return done, err
	}
	if done.Cut.Nothing == "" {
		done.Cut = compact.Plan(w.history, &w.Options)
		if w.adjust != nil {
			done.Cut = w.adjust(done.Cut, l)
		}
	}
	if done.Cut.Nothing != "" {
		if done.Cut.Nothing == TooSoon || done.Cut.Nothing == CoolingDown {
			s.store.tell(ctx, s.ref, Event{Kind: EventCompactionSkipped, Cut: done.Cut})
		}
		return done, nil
	}

	began := time.Now()
	failures := l.Failures
	ctx = s.store.begin(ctx, s.ref, Event{Kind: EventCompactionStart, Cut: done.Cut, Failures: failures, StandIn: w.standIn})
	defer func() {
		e := Event{
			Kind: EventCompactionDone, Took: time.Since(began), Cut: done.Cut, Compaction: done.Compaction,
			Failures: failures, StandIn: w.standIn, Err: err,
		}
		if done.Entry == "" { // even if the summarizer has panicked
			e.Kind = EventCompactionFailed
		}
		s.store.tell(ctx, s.ref, e)
	}()
	c, err := compact.Run(ctx, w.history, done.Cut, &w.Options)
	if err != nil {
		if ctx.Err() == nil && !w.standIn { // else it is not the summarizer's fault
			failures = s.failed(ctx, w.history)
		}
		return done, s.store.wrap(op, s.ref, err)
	}
	if !w.standIn {
		failures = 0
	}
	if c, err = filterBody(ctx, s, c); err != nil {
		return done, s.store.wrap(op, s.ref, err)
	}
	ids, stored, err := s.update(ctx, op, w.rev, func(v *View) ([]transcript.Item, error) {
		if !v.t.Replaces(done.Cut, w.history) {
			return nil, fmt.Errorf("%w: while the summary was made the part that it replaces was compacted, rewound, hidden or shown, or a late result came in: nothing was written; plan again", ErrConflict)
		}
		c.Standing = w.failures(v.t.Learned(""))
		return []transcript.Item{c}, nil
	})
	switch {
	case err == nil:
		done.Entry, done.Compaction = ids[len(ids)-1], *stored
	case errors.Is(err, ErrConflict):
		done.Compaction = c
	}
	return done, err
}

// alone waits until no other compaction of this process runs on the session, and keeps
// others out until free is called. A compaction with that context fails: it would wait
// for this one.
func (s *Session) alone(ctx context.Context, op string) (_ context.Context, free func(), err error) {
	if ctx.Value(working{s.store, s.ref}) != nil {
		return ctx, nil, s.store.wrap(op, s.ref, errors.New("a summarizer or an observer of a compaction starts another one, which would wait for it: do that afterwards"))
	}
	if s.store.opts.ReadOnly {
		return ctx, nil, s.store.wrap(op, s.ref, ErrReadOnly)
	}
	if err := outside(ctx); err != nil {
		return ctx, nil, s.store.wrap(op, s.ref, err)
	}
	t := s.store.table.Acquire(ctx, s.ref)
	end, err := t.Compact(ctx)
	if err != nil {
		s.store.table.Release(t)
		return ctx, nil, s.store.wrap(op, s.ref, err)
	}
	return context.WithValue(ctx, working{s.store, s.ref}, true), func() {
		end()
		s.store.table.Release(t)
	}, nil
}

// look reads the history to plan for, or sets the reason for no compaction in the
// cut.
func (s *Session) look(ctx context.Context, op string, w *work) (cut compact.Cut, l replay.Learned, err error) {
	err = s.view(ctx, op, func(v *View) (err error) {
		t := v.t
		l, w.rev = t.Learned(w.model), t.Rev()
		if w.see != nil {
			cut, err = w.see(t, l)
		}
		if err != nil || cut.Nothing != "" {
			return err
		}
		w.history = t.Fold.History()
		return v.plan(&w.Options, l)
	})
	return cut, l, err
}

// CompactOptions returns the options with which [Session.Compact] compacts the history of
// the View. [Options].Compact replaces zero fields of opts. Pins includes the pins in
// force, and Room is reduced by them. Check also refuses a cut that an Update would
// refuse, or that removes a call that waits for a person or was approved. Call Check when
// the View has ended.
func (v *View) CompactOptions(opts *compact.Options) (compact.Options, error) {
	o := v.s.compactOptions(opts)
	err := v.plan(&o, v.t.Learned(""))
	return o, err
}

// plan adds the trigger, pins and room of the session to options.
func (v *View) plan(o *compact.Options, l replay.Learned) error {
	o.Trigger = l.Trigger(o.Trigger)
	o.Room = cmp.Or(o.Room, o.Trigger.Room())
	pins := slices.Concat(o.Pins, v.Fold().Standing().Pins)
	where, err := v.where(replay.EntriesOf(pins))
	if err != nil {
		return err
	}
	o.Pins = replay.InForce(pins, where)
	for _, p := range o.Pins { // they are carried whole
		if o.Room > 0 {
			o.Room = max(o.Room-o.Counter.Count("", nil, []transcript.Message{transcript.UserText(p.Text)}), 1)
		}
	}
	first, check := replay.FirstWaiting(v.Fold()), o.Check
	o.Check = func(c compact.Cut) bool { return c.At <= first && check(c) }
	return nil
}

// working is the context key that marks a compaction.
type working struct {
	store *Store
	ref   Ref
}

// keeps reports whether the fold would keep exactly the part of the history
// that a cut keeps.
func (s *Session) keeps(c compact.Cut) (ok bool) {
	t := s.store.table.Acquire(context.Background(), s.ref)
	defer s.store.table.Release(t)
	_ = t.Do(func() error { // reads nothing, so it cannot fail
		ok = t.Fold != nil && t.Keeps(c) // nil: it was forgotten, with the planned history
		return nil
	})
	return ok
}

// failures returns the record of failed summaries for a compaction: they still count
// if a substitute has written the summary.
func (w *work) failures(l replay.Learned) []transcript.Entry {
	if !w.standIn {
		return nil
	}
	if w.unasked {
		l.Failures++
	}
	return []transcript.Entry{{Body: transcript.Calibration{Failures: l.Failures}}}
}

// failed records a failed summary, and returns the number of failures in a row.
// If recording fails it is only logged.
func (s *Session) failed(ctx context.Context, h rebuild.History) (n int) {
	size := replay.CountHistory(s.store.opts.Counter, h)
	_, err := s.Update(context.WithoutCancel(ctx), "compact", func(v *View) ([]transcript.Item, error) {
		n = v.t.Learned("").Failures + 1
		return []transcript.Item{transcript.Calibration{Failures: n, FailedAt: size}}, nil
	})
	if err != nil {
		n = max(n, 1)
		s.store.opts.Logger.Warn("the failure of a summary was not noted", "agent", s.ref.Agent, "session", s.ref.ID, "err", err)
	}
	return n
}

// filterBody passes the texts of a body to the filters before it is measured or handed
// to the caller and to observers, and not only when it is written.
func filterBody[T transcript.Body](ctx context.Context, s *Session, body T) (T, error) {
	got, err := s.store.filterWrite(ctx, s.ref, []transcript.Entry{{Body: body}})
	if err != nil {
		return body, err
	}
	if b, ok := got[0].Body.(T); ok {
		body = b
	}
	return body, nil
}
