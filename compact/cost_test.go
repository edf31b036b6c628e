package compact_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
)

// The cost of each default in 1,000 turns: how often the provider's cached prefix
// is lost, and how many tokens a summarizer reads. The benefit is the share of the
// window that stays filled after a compaction.
func TestCostOfKeep(t *testing.T) {
	t.Parallel()
	turns := amount(24, 1_000)
	for _, window := range amount([]int{32_000}, []int{32_000, 200_000}) {
		for _, tt := range []struct {
			name string
			opts compact.Options
		}{
			{"default", compact.Options{}},
			{"20,000 tokens", compact.Options{Keep: compact.Keep{Tokens: 20_000}, MaxSummary: 2_048}},
			{"20 turns", compact.Options{Keep: compact.Keep{Turns: 20}, MaxSummary: 2_048, MaxCarried: -1}},
			{"half of the messages", compact.Options{Keep: compact.Keep{Fraction: .5}, MaxSummary: 2_048, MaxCarried: -1}},
			{"nothing but the last turn", compact.Options{Keep: compact.Keep{Turns: 1}, MaxSummary: 2_048, MaxCarried: -1}},
		} {
			t.Run(fmt.Sprintf("%dk/%s", window/1_000, tt.name), func(t *testing.T) {
				t.Parallel()
				opts := tt.opts
				opts.Summarizer = compact.SummarizerFunc(halfOf)
				compactions, read, filled := 0, 0, 0.0
				converse(t, window, opts, newRecallWork(recallSeed, .05).next, func(at talk) bool {
					compactions, read = at.n, read+at.cut.Covered
					filled += float64(at.left) / float64(window)
					return at.turns < turns
				})
				require.Positive(t, compactions)
				t.Logf("%s: %d turns, %d compactions, a summarizer reads %d tokens, %.0f %% of the window is filled afterwards",
					t.Name(), turns, compactions, read, 100*filled/float64(compactions))
			})
		}
	}
}
