package guard

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

const (
	// Clear keeps this many results, and the newest ones of this many tokens.
	keptResults      = 5
	keptResultTokens = 40_000

	// worthClearing is the least gain in tokens for which Clear changes the
	// history, and with it what a provider has cached of it.
	worthClearing = 20_000
)

// Clear is the stage "clear", that replaces old tool results by a note of one
// line with their size and the ID of the entry that has all of it. It keeps the
// last five, and the newest ones that have 40,000 tokens together or a fifth of
// the window, if that is less. It does nothing unless it gains 20,000 tokens, or
// a tenth of the window.
//
// It is not one of the default stages. It costs no call of a model, and what an
// agent can read again it need not remember; but what it has taken away no
// summary will have seen, while a compaction carries identifiers and errors
// over. Where results are most of the history and can be fetched again, put it
// before [Compact].
func Clear() Stage { return editing("clear", nil, clearResults) }

func clearResults(h rebuild.History, n Need) []transcript.Clipping {
	window := cmp.Or(n.Window, usualWindow)
	kept, keep := 0, min(keptResultTokens, window/5)
	gain, least := 0, min(worthClearing, max(window/10, 1))
	var clips []transcript.Clipping
	for _, m := range slices.Backward(h.Messages) {
		for o, r := range results(m) {
			size := n.size(r)
			if kept++; kept <= keptResults || keep >= size {
				keep -= size
				continue
			}
			keep = 0 // what is older goes, whatever its size
			note := fmt.Sprintf("[old result of %d characters left out; %s]", len([]rune(r.Text())), n.whole(o.Entry))
			if saved := size - n.size(r.WithContent(transcript.TextBlock{Text: note})); saved > size/2 {
				gain += saved
				clips = append(clips, clipping(o, note))
			}
		}
	}
	if gain < least {
		return nil
	}
	return clips
}
