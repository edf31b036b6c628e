package compact

import (
	"context"

	"github.com/convolog/convolog/transcript"
)

// Summarizer writes the summary that takes the place of the older part of a
// history.
//
// The summary is plain text. An error, an empty text, and one that is not
// smaller than what it stands for are failures, and a failure changes nothing.
// Summarize must return when ctx is done. It may be called by several
// goroutines, for different sessions. It must not compact the session it works
// for, which would wait for itself.
type Summarizer interface {
	// Summarize returns the summary of in.Messages and in.Previous.
	Summarize(ctx context.Context, in Input) (string, error)
}

// Input is what a [Summarizer] is given. It must not be modified.
type Input struct {
	// Previous is the summary of the compaction before this one; empty if
	// there was none. What it says must be in the new summary: the old one is
	// shown no longer.
	Previous string
	// Messages is the part of the history that the summary stands for, oldest
	// first, without Previous. Calls and their results are together.
	Messages []transcript.Message
	// MaxTokens is how long the summary should be at most.
	MaxTokens int
}

// The SummarizerFunc type is a function as a [Summarizer].
type SummarizerFunc func(ctx context.Context, in Input) (string, error)

// Summarize calls f.
func (f SummarizerFunc) Summarize(ctx context.Context, in Input) (string, error) { return f(ctx, in) }
