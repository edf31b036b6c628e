package session

import (
	"cmp"
	"context"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Calibration implements the Calibrated of package guard: it returns what the
// entries of the session say about a model, the zero value if they say nothing.
// A compaction that is made by this package keeps it in force.
func (s *Session) Calibration(ctx context.Context, model string) (c transcript.Calibration, err error) {
	err = s.use(ctx, "read", func(t *state) error {
		if err := t.sync(ctx); err != nil {
			return err
		}
		for _, known := range t.fold.Calibrations() {
			if known.Model == model {
				c = known
			}
		}
		return nil
	})
	return c, err
}

// Why nothing is done though a compaction is due, or asked for by a guard.
const (
	// TooSoon: what came in since the last compaction is less than a fifth of
	// the window, so that the next one would gain little and cost as much.
	TooSoon compact.Reason = "too soon after the last compaction: less than a fifth of the window has come in since"
	// CoolingDown: three summaries or more have failed in a row, and less than
	// a fifth of the window has come in since the last of them.
	CoolingDown compact.Reason = "cooling down: the summarizer has failed three times in a row, and less than a fifth of the window has come in since"
)

// breaksAt is how many summaries in a row may fail before the summarizer is
// left alone for a while.
const breaksAt = 3

// learned is what the entries say that decides about compactions. All of it is
// in the transcript, so that a restart changes nothing.
type learned struct {
	all       []transcript.Calibration // the last one is of the model in use
	compacted int                      // tokens after the last compaction, 0 if not known
}

func (s *state) learned() learned { return learned{s.fold.Calibrations(), s.fold.Compacted()} }

// model is what is known of the model that was learned about last.
func (l learned) model() (window int, factor float64) {
	for _, c := range l.all {
		window, factor = cmp.Or(c.Window, window), cmp.Or(c.Factor, factor)
	}
	return window, cmp.Or(max(factor, 0), 1)
}

// failures is how many summaries have failed in a row, and the size of the
// history at the last of them.
func (l learned) failures() (n, at int) {
	for _, c := range l.all {
		if c.Failures > n {
			n, at = c.Failures, c.FailedAt
		}
	}
	return n, at
}

// trigger returns a trigger for the window and in the tokens of the estimate.
func (l learned) trigger(t compact.Trigger) compact.Trigger {
	window, factor := l.model()
	if t.Window > 0 && window > 0 {
		t.Window = min(t.Window, window)
	}
	scale := func(n int) int { return int(float64(n) / factor) }
	t.Window, t.Reserve, t.Threshold = scale(t.Window), scale(t.Reserve), scale(t.Threshold)
	return t
}

// fifth is a fifth of the window, as far as that is known: of the trigger, of
// the model, or else of room.
func (l learned) fifth(t compact.Trigger, room int) int {
	window, _ := l.model()
	return cmp.Or(l.trigger(t).Window, window, t.Limit(), room) / 5
}

// tooSoon reports whether a history of that size has grown by less than least
// since the last compaction.
func (l learned) tooSoon(size, least int) bool {
	return l.compacted > 0 && size-l.compacted < least
}

// cooling reports whether the summarizer is to be left alone.
func (l learned) cooling(size, least int) bool {
	n, at := l.failures()
	return n >= breaksAt && max(size-at, at-size) < max(least, 1)
}

// broken reports whether a guard is not to wait for the summarizer.
func (l learned) broken() bool {
	const again = 8
	n, _ := l.failures()
	return n >= breaksAt && n%again != 0
}

// carried is what stays in force after a compaction to so many tokens. The
// failures do if the summary was not the work of the summarizer that failed.
func (l learned) carried(w *work, after int) (items []transcript.Item) {
	for _, c := range l.all {
		if c.Failures > 0 && w.standIn {
			c.FailedAt = after
			if w.unasked {
				c.Failures++
			}
		} else {
			c.Failures, c.FailedAt = 0, 0
		}
		if c != (transcript.Calibration{Model: c.Model}) {
			items = append(items, c)
		}
	}
	return items
}

// failed notes that a summary has failed, and returns how many have in a row.
// That it could not be noted is no failure of its own: the next one will.
func (s *Session) failed(ctx context.Context, h rebuild.History) (n int) {
	ctx = context.WithoutCancel(ctx)
	err := s.use(ctx, "compact", func(t *state) error {
		if err := t.sync(ctx); err != nil {
			return err
		}
		n, _ = t.learned().failures()
		return nil
	})
	n++
	if err == nil {
		size := s.store.opts.Counter.Count(h.System, nil, h.Messages)
		_, err = s.Append(ctx, transcript.Calibration{Failures: n, FailedAt: size})
	}
	if err != nil {
		s.store.opts.Logger.Warn("the failure of a summary was not noted", "agent", s.ref.Agent, "session", s.ref.ID, "err", err)
	}
	return n
}
