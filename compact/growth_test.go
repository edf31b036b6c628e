package compact_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// After a hundred compactions a summary is within the limit of the first, even
// if the model only adds to it.
func TestGrowth(t *testing.T) {
	grows := &scripted{answer: func(call int, text string) (*transcript.Response, error) {
		return answered(between(text, "summary_so_far") + fmt.Sprintf("\nFact %d: the town has paid for bridge number %d, as it had said it would.", call, call)), nil
	}}
	for name, s := range map[string]compact.Summarizer{
		"model":      compact.Model{Complete: grows.Complete, Window: 16_000},
		"extractive": compact.Extractive{},
		"either":     compact.Either(says("", nil), compact.Extractive{}),
	} {
		t.Run(name, func(t *testing.T) {
			opts := &compact.Options{Keep: compact.Keep{Turns: 2}, Summarizer: s, MaxSummary: 600, MaxCarried: 300}
			const heading = 30 // tokens
			bound := opts.MaxSummary + opts.MaxCarried + heading
			f := rebuild.New(nil)
			next, first, most := 0, 0, 0
			for round := range amount(24, 100) {
				for range 6 {
					next++
					add(t, f, fmt.Sprint("t", next),
						transcript.UserText(fmt.Sprintf("Wish %d: look at src/part%d/file%d.go and at ticket OPS-%d, and say who paid.", next, next%9, next, 1000+next)),
						called(fmt.Sprint("c", next), "read", fmt.Sprintf(`{"path":"src/part%d/file%d.go"}`, next%9, next)),
						transcript.ToolResult(fmt.Sprint("c", next), strings.Repeat("the merchants of the old quarter have paid\n", 20)),
						transcript.AssistantText("It was the merchants."))
				}
				h := f.History()
				cut := compact.Plan(h, opts)
				c, err := compact.Run(t.Context(), h, cut, opts)
				require.NoError(t, err, "round %d", round)
				add(t, f, fmt.Sprint("k", next), c)
				size := sizeOf(neutral.SummaryHeading + "\n" + c.Summary)
				if size > bound {
					t.Fatalf("round %d: a summary of ~%d tokens, want %d", round, size, bound)
				}
				if need := min(c.TokensBefore/10, 2_000); c.TokensBefore-c.TokensAfter < need {
					t.Fatalf("round %d: %d -> %d tokens, want %d fewer", round, c.TokensBefore, c.TokensAfter, need)
				}
				if c.TokensAfter > cut.After+heading {
					t.Fatalf("round %d: %d tokens, the plan was %s", round, c.TokensAfter, cut)
				}
				if round == 9 {
					first = size
				}
				most = max(most, size)
			}
			t.Logf("~%d tokens after 10 compactions, ~%d at most", first, most)
		})
	}
}

// A summary that saves next to nothing is refused, measured by one counter.
func TestMargin(t *testing.T) {
	h := conversation(t, 40)
	opts := &compact.Options{Keep: compact.Keep{Turns: 20}, MaxSummary: 4_000, MaxCarried: -1}
	cut := compact.Plan(h, opts)
	before, least := estimate.Count("", nil, h.Messages), 0
	for n := 8; n < cut.Covered/4; n++ {
		opts.Summarizer = says(facts(n), nil)
		c, err := compact.Run(t.Context(), h, cut, opts)
		if err != nil {
			if !strings.Contains(err.Error(), compact.ErrNotSmaller.Error()) || least == 0 {
				t.Fatalf("%d sentences: %v", n, err)
			}
			break
		}
		after := append([]transcript.Message{transcript.UserText(neutral.SummaryHeading + "\n" + c.Summary)}, h.Messages[cut.At:]...)
		least = before - estimate.Count("", nil, after)
	}
	if need := min(before/10, 2_000); least < need || least > need+2*sizeOf(facts(1)) {
		t.Errorf("accepted with %d fewer tokens of %d, want %d at least", least, before, need)
	}
}
