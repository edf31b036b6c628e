package storetest

import (
	"context"

	"github.com/convolog/convolog/compact"
)

// Says returns a summarizer that always returns the same summary.
func Says(summary string) func(context.Context, compact.Input) (string, error) {
	return func(context.Context, compact.Input) (string, error) { return summary, nil }
}

// Summaries that are long enough for less than 1,000 tokens of messages, and for more.
const (
	ShortSummary = "They asked, and had an answer."
	WholeSummary = ShortSummary + " They went through the questions one by one, and nothing is open; the user has no further wishes. What was said in detail stands in the transcript, where it can be looked up at any time."
)
