package compact

import (
	"context"
	"fmt"
	"strings"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// leastOverview is how many tokens every overview may have.
const leastOverview = 256

// Overview returns the compaction that puts a summary of the messages before to in
// the place of those before at, which is at most to: the messages between them are
// both summarised and kept. Both may be the number of messages. With an at of 0 it
// is no compaction, and only its Summary counts.
//
// Unlike [Run], Overview does not require the history to become smaller, and it allows
// every summary 256 tokens. All else is as for Run: what is carried, why a summary is
// refused, and the error, which is an [*Error]. The cut must be legal, as those of
// [Plan] are.
func Overview(ctx context.Context, h rebuild.History, to, at int, opts *Options) (transcript.Compaction, error) {
	n := len(h.Messages)
	if to <= 0 || to > n || at < 0 || at > to {
		return Cut{}.failed(fmt.Errorf("%d and %d are no parts of a history of %d messages", to, at, n))
	}
	o := opts.filled()
	p := newPlanner(h, o)
	c := p.cut(at)
	c.MaxSummary = min(o.MaxSummary, max((c.Before-p.size(to, n))/2, leastOverview))
	return o.run(ctx, h, c, to, true)
}

// CutAt returns the cut before a message, or after the last one, whether it is
// legal or not.
func CutAt(h rebuild.History, at int, opts *Options) Cut {
	return newPlanner(h, opts.filled()).cut(at)
}

// MadeBy reports whether Extractive has written a summary, or a part of it.
func (Extractive) MadeBy(summary string) bool {
	for line := range strings.Lines(summary) {
		if strings.HasPrefix(line, "Extract of ") && strings.HasSuffix(strings.TrimSpace(line), madeWithout) {
			return true
		}
	}
	return false
}

const madeWithout = "made without a model."
