package replay

import (
	"cmp"
	"slices"
	"strings"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// breaksAt is how many summaries in a row may fail before the summarizer is
// left alone for a while.
const breaksAt = 3

// Learned holds the data that decides about compactions. All of it is in
// entries of the transcript, so a restart changes nothing.
type Learned struct {
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
	Failures, failedAt int
}

// Learned returns these data for a call of a model, or, without a name, for the model of
// the last answer.
func (r *Reader) Learned(model string) Learned {
	l := Learned{Standing: r.Fold.Standing(), factor: 1, model: cmp.Or(model, r.Fold.Answered())}
	rank := 0
	for _, c := range l.Calibrations {
		if c.Failures > l.Failures {
			l.Failures, l.failedAt = c.Failures, c.FailedAt
		}
		if c.Window <= 0 && c.Factor <= 0 {
			continue // of the summarizer
		}
		if fit := fits(c.Model, l.model); fit > 0 && fit >= rank {
			l.window, l.factor, rank = max(c.Window, 0), cmp.Or(max(c.Factor, 0), 1), fit
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
	case dated.Get().MatchString(version):
		return 2
	}
	return 0
}

// dated matches the suffix of a model name in an answer: a date or the number
// of a build.
var dated = lazy.New(`^[-@:](\d{3,8}|\d{4}-\d\d-\d\d)$`)

// Trigger returns a trigger for the window of the model and in the tokens of the
// estimate.
func (l Learned) Trigger(t compact.Trigger) compact.Trigger {
	best := 1 // of a model without a name, which has no window of its own
	for model, window := range t.Windows {
		if fit := fits(model, l.model); fit > best {
			best, t.Window = fit, window
		}
	}
	if l.window > 0 {
		t.Window = min(t.Window, l.window)
	}
	t.Windows, t.Window, t.Threshold = nil, l.estimated(t.Window), l.estimated(t.Threshold)
	return t
}

// Due reports whether a history of that size, without the part that the provider
// clears by itself, is too long for a trigger.
func (l Learned) Due(t compact.Trigger, size int) bool {
	return t.Room() > 0 && size-l.estimated(l.Cleared) > t.Room()
}

// estimated converts tokens of the model to tokens of the estimate, roughly.
func (l Learned) estimated(n int) int { return int(float64(n) / l.factor) }

// Fifth is a fifth of the smallest known window of the trigger, model or caller,
// or else of the trigger's threshold.
func (l Learned) Fifth(t compact.Trigger, asked int) int {
	t = l.Trigger(t)
	return cmp.Or(Smallest(t.Window, l.estimated(l.window), l.estimated(asked)), t.Threshold) / 5
}

// TooSoon reports whether a history of that size has grown by less than least
// since the last compaction.
func (l Learned) TooSoon(size, least int) bool {
	return l.Compacted > 0 && size-l.Compacted < least
}

// Cooling reports whether the summarizer must rest.
func (l Learned) Cooling(size, least int) bool {
	return l.Failures >= breaksAt && max(size-l.failedAt, l.failedAt-size) < max(least, 1)
}

// Broken reports whether a guard must not wait for the summarizer.
func (l Learned) Broken() bool {
	const again = 8
	return l.Failures >= breaksAt && l.Failures%again != 0
}

// carried returns the calibrations that stay in force after a compaction. Failures do if
// the compaction holds their number, and refused parts if keeps accepts their entries.
func (l Learned) carried(done transcript.Compaction, keeps func(entry string) bool) (all []transcript.Entry) {
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

// Smallest is the smallest known window, or 0 if all are unknown. A window that is not
// positive is unknown.
func Smallest(windows ...int) (least int) {
	for _, w := range windows {
		if w > 0 && (least == 0 || w < least) {
			least = w
		}
	}
	return least
}
