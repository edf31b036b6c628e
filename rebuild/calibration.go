package rebuild

import (
	"cmp"
	"slices"

	"github.com/convolog/convolog/transcript"
)

// learned is what the lines since the last compaction say about models. A
// rewind changes nothing about it.
type learned struct {
	all       []transcript.Calibration // one a model, the last one changed at the end
	compacted int                      // TokensAfter of the last compaction
	cleared   int                      // by the provider, in the prompt of the last answer
}

func (l *learned) add(b transcript.Batch) {
	for _, e := range b.Entries {
		if c, ok := e.Body.(transcript.Compaction); ok {
			*l = learned{compacted: c.TokensAfter}
		}
	}
	for _, e := range b.Entries {
		switch body := e.Body.(type) {
		case transcript.Calibration:
			l.merge(body)
		case transcript.Fragment:
			if body.Role == transcript.RoleAssistant && body.Of == "" && (body.Usage.Prompt() > 0 || len(body.Usage.Extra) > 0) {
				l.cleared = body.Usage.Cleared()
			}
		}
	}
}

func (l *learned) merge(c transcript.Calibration) {
	if i := slices.IndexFunc(l.all, func(k transcript.Calibration) bool { return k.Model == c.Model }); i >= 0 {
		k := l.all[i]
		c.Window = cmp.Or(c.Window, k.Window)
		if c.Factor == 0 {
			c.Factor, c.Prompt = k.Factor, k.Prompt
		}
		if c.Failures == 0 {
			c.Failures, c.FailedAt = k.Failures, k.FailedAt
		}
		l.all = slices.Delete(slices.Clone(l.all), i, i+1)
	}
	l.all = append(slices.Clip(l.all), c)
}

// Calibrations returns what is known about models, one entry a model; the last
// one is that of the entry that was added last. Those that were added before
// the append of the last compaction are not in force, so a fold that begins
// with what that compaction keeps has the same. They must not be modified.
func (f *Fold) Calibrations() []transcript.Calibration { return f.learned.all }

// Compacted is what the last compaction says of the size of the history after
// it, in tokens; 0 if there was none, or if it does not say.
func (f *Fold) Compacted() int { return f.learned.compacted }

// Cleared is what [History] has under that name.
func (f *Fold) Cleared() int { return f.learned.cleared }
