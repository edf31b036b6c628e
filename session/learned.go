package session

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Calibration implements the Calibrated of package guard: it returns the
// calibration of a model at an endpoint in the entries of the session, or the
// zero value. Compactions keep its window and its factor, and the refused parts
// of entries that they keep.
func (s *Session) Calibration(ctx context.Context, model, endpoint string) (c transcript.Calibration, err error) {
	err = s.View(ctx, func(v *View) error {
		for _, known := range v.Fold().Standing().Calibrations {
			if known.Model == model && known.Endpoint == endpoint {
				c = known
			}
		}
		return nil
	})
	return c, err
}

// Why nothing is done though a compaction is due, or asked for by a guard.
const (
	// TooSoon: the additions since the last compaction are less than a fifth of
	// the window, so that the next one would gain little and cost as much.
	//
	// They are counted with the counter of the store: the present history, less its
	// size after that compaction. The window is the smallest window of the trigger,
	// of the calibration of the model in use and of the guard. Without any, it is
	// the limit of the trigger.
	//
	// AfterTurn makes no compaction that is too soon. Other compactions may
	// come sooner: by [Session.Compact]; and by [Session.CompactFor] if they
	// gain a fifth of the window, or if the provider has refused a request. A
	// compaction that a rewind has taken back does not count, as the history is
	// as large as before it.
	TooSoon compact.Reason = "too soon after the last compaction: less than a fifth of the window has come in since"
	// CoolingDown: three summaries or more have failed in a row, and less than
	// a fifth of the window has come in since the last of them.
	CoolingDown compact.Reason = "cooling down: the summarizer has failed three times in a row, and less than a fifth of the window has come in since"
)

// breaksAt is how many summaries in a row may fail before the summarizer is
// left alone for a while.
const breaksAt = 3

// learned holds the data of the entries that decides about compactions. All of
// it is in the transcript, so that a restart changes nothing.
type learned struct {
	rebuild.Standing
	// The model in use: the called one, or else the one that the last answer names.
	model string
	// Its figures; requests that name no model have figures of their own. If the
	// model has no name these are the figures learned last. Figures of two models are
	// never mixed.
	window int // 0 if not known
	factor float64
	// How many summaries have failed in a row, and the size of the history at the
	// last of them.
	failures, failedAt int
}

// learned returns these data for a call of a model, or, without a name, for the model of
// the last answer.
func (s *state) learned(model string) learned {
	l := learned{Standing: s.fold.Standing(), factor: 1, model: cmp.Or(model, s.fold.Answered())}
	rank := 0
	for _, c := range l.Calibrations {
		if c.Failures > l.failures {
			l.failures, l.failedAt = c.Failures, c.FailedAt
		}
		if c.Window <= 0 && c.Factor <= 0 {
			continue // of the summarizer
		}
		if r := fits(c.Model, l.model); r > 0 && r >= rank {
			l.window, l.factor, rank = max(c.Window, 0), cmp.Or(max(c.Factor, 0), 1), r
		}
	}
	return l
}

// fits is how well the name of a request fits the name in the last answer: 0
// for another model.
func fits(model, answered string) int {
	version, ok := strings.CutPrefix(answered, model)
	switch {
	case answered == "" || model == "":
		return 1
	case !ok:
		return 0
	case version == "":
		return 3
	case dated.MatchString(version):
		return 2
	}
	return 0
}

// dated is what providers add to the name of a model in an answer: a date or
// the number of a build.
var dated = regexp.MustCompile(`^[-@:](\d{3,8}|\d{4}-\d\d-\d\d)$`)

// trigger returns a trigger for the window of the model and in the tokens of the
// estimate.
func (l learned) trigger(t compact.Trigger) compact.Trigger {
	best := 1 // of a model without a name, which has no window of its own
	for model, window := range t.Windows {
		if r := fits(model, l.model); r > best {
			best, t.Window = r, window
		}
	}
	if l.window > 0 {
		t.Window = min(t.Window, l.window)
	}
	t.Windows, t.Window, t.Threshold = nil, l.estimated(t.Window), l.estimated(t.Threshold)
	return t
}

// due reports whether a history of that size, without the part that the provider
// clears by itself, is too long for a trigger.
func (l learned) due(t compact.Trigger, size int) bool {
	return t.Room() > 0 && size-l.estimated(l.Cleared) > t.Room()
}

// estimated converts tokens of the model to tokens of the estimate, roughly.
func (l learned) estimated(n int) int { return int(float64(n) / l.factor) }

// fifth is a fifth of the smallest known window, of the trigger, the model or the
// caller, or else of the limit of the trigger.
func (l learned) fifth(t compact.Trigger, asked int) int {
	t = l.trigger(t)
	return cmp.Or(smallest(t.Window, l.estimated(l.window), l.estimated(asked)), t.Limit()) / 5
}

// tooSoon reports whether a history of that size has grown by less than least
// since the last compaction.
func (l learned) tooSoon(size, least int) bool {
	return l.Compacted > 0 && size-l.Compacted < least
}

// cooling reports whether the summarizer is to be left alone.
func (l learned) cooling(size, least int) bool {
	return l.failures >= breaksAt && max(size-l.failedAt, l.failedAt-size) < max(least, 1)
}

// broken reports whether a guard is not to wait for the summarizer.
func (l learned) broken() bool {
	const again = 8
	return l.failures >= breaksAt && l.failures%again != 0
}

// failures returns the record of failed summaries for a compaction: they still count
// if the summary is not the work of the summarizer.
func (w *work) failures(l learned) []transcript.Entry {
	if !w.standIn {
		return nil
	}
	if w.unasked {
		l.failures++
	}
	return []transcript.Entry{{Body: transcript.Calibration{Failures: l.failures}}}
}

// carried returns the calibrations that stay in force after a compaction. Failures do if
// the compaction holds how many there were, and refused parts if keeps holds for
// their entries.
func (l learned) carried(done transcript.Compaction, keeps func(entry string) bool) (all []transcript.Entry) {
	failures := 0
	for _, e := range done.Standing {
		if c, ok := e.Body.(transcript.Calibration); ok {
			failures = max(failures, c.Failures)
		}
	}
	for _, c := range l.Calibrations {
		if c.Failures > 0 && failures > 0 {
			c.Failures, c.FailedAt = failures, done.TokensAfter
		} else {
			c.Failures, c.FailedAt = 0, 0
		}
		c.Without, c.Images, c.Side, c.Messages = nil, 0, 0, 0
		if c.Left = slices.DeleteFunc(slices.Clone(c.Left), func(b transcript.BlockRef) bool { return !keeps(b.Entry) }); len(c.Left) == 0 {
			c.Left = nil
		}
		if c.Unread != "" && !keeps(c.Unread) {
			c.Unread = ""
		}
		if !c.IsZero() {
			all = append(all, transcript.Entry{Body: c})
		}
	}
	return all
}

// failed records a failed summary, and returns the number of failures in a row.
// If recording fails it is only logged.
func (s *Session) failed(ctx context.Context, h rebuild.History) (n int) {
	size := countHistory(s.store.opts.Counter, h)
	_, err := s.Update(context.WithoutCancel(ctx), "compact", func(v *View) ([]transcript.Item, error) {
		n = v.t.learned("").failures + 1
		return []transcript.Item{transcript.Calibration{Failures: n, FailedAt: size}}, nil
	})
	if err != nil {
		n = max(n, 1)
		s.store.opts.Logger.Warn("the failure of a summary was not noted", "agent", s.ref.Agent, "session", s.ref.ID, "err", err)
	}
	return n
}
