package compact

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/convolog/convolog/transcript"
)

// Summarizer writes the summary that replaces the older part of a history.
//
// The summary is plain text. An error and a refused text, see [ErrRefused], are
// failures, and a failure changes nothing. Summarize must return when ctx is done.
// It may be called by several goroutines, for different sessions. It must not
// compact its own session, which would wait for itself.
type Summarizer interface {
	// Summarize returns the summary of in.Messages and in.Previous.
	Summarize(ctx context.Context, in Input) (string, error)
}

// Input is the task of a [Summarizer], which must not modify it.
type Input struct {
	// Previous is the summary of the compaction before this one, or empty. The
	// new summary must include its content: the old one is no longer shown.
	Previous string
	// Messages is the part of the history to summarise, oldest first, without
	// Previous. Calls and their results are together.
	Messages []transcript.Message
	// MaxTokens is the intended limit of the summary.
	MaxTokens int
	// Guidance is an instruction of the application; see [Options].
	Guidance string
	// Observe, if not nil, is called for each step; see [Options].
	Observe func(ctx context.Context, s Step)

	timeout time.Duration // of each summarizer, 0 for none
	extract *string       // if not nil, Extractive records its text here
	carried bool          // texts of the user are carried separately
}

// ask calls a summarizer with its timeout. An either instead limits each of its
// summarizers, and Extractive needs no limit.
func (in Input) ask(ctx context.Context, s Summarizer) (string, error) {
	switch s.(type) {
	case either, Extractive:
	default:
		if in.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, in.timeout)
			defer cancel()
		}
	}
	text, err := s.Summarize(ctx, in)
	if err == nil {
		err = ctx.Err() // the text may be half of a summary
	}
	if err != nil {
		return "", err
	}
	return plain(withoutReasoning(text)), nil
}

// A Step is the progress of a [Summarizer].
type Step struct {
	// Chunk numbers the part of the messages that a [Model] reads next, from 1;
	// Chunks is the most parts. Both are 0 in other steps.
	Chunk  int `json:"chunk,omitempty"`
	Chunks int `json:"chunks,omitempty"`
	// Skipped is the error text of the summarizer that [Either] has just given up to
	// ask the next one; empty in other steps.
	Skipped string `json:"skipped,omitempty"`
}

func (in Input) tell(ctx context.Context, s Step) {
	if in.Observe != nil {
		in.Observe(ctx, s)
	}
}

// The SummarizerFunc type is a function as a [Summarizer].
type SummarizerFunc func(ctx context.Context, in Input) (string, error)

// Summarize calls f.
func (f SummarizerFunc) Summarize(ctx context.Context, in Input) (string, error) { return f(ctx, in) }

// Either returns a [Summarizer] that calls one after the other until one returns
// a text that is not refused, see [ErrRefused]. Either(Model{...}, Extractive{})
// returns a summary even if the model fails. Input.Observe is called with the
// reason for each skipped summarizer.
//
// When ctx is done no further summarizer is called. Each gets the Timeout of
// [Options], so a slow one does not delay the next. If ctx has a deadline, each
// but the last gets three quarters of the remaining time. If all fail, their
// errors are joined. Either without summarizers always fails.
func Either(s ...Summarizer) Summarizer { return either(s) }

type either []Summarizer

// Summarize implements [Summarizer].
func (s either) Summarize(ctx context.Context, in Input) (string, error) {
	if len(s) == 0 {
		return "", errors.New("there is no summarizer")
	}
	var errs []error
	for i, one := range s {
		if err := ctx.Err(); err != nil {
			return "", errors.Join(append(errs, err)...)
		}
		last := i == len(s)-1
		part, cancel := ctx, func() {}
		if deadline, ok := ctx.Deadline(); ok && !last {
			part, cancel = context.WithTimeout(ctx, time.Until(deadline)*3/4)
		}
		text, err := in.ask(part, one)
		cancel()
		if err == nil {
			err = in.refuse(text)
		}
		if err == nil {
			return text, nil
		}
		err = fmt.Errorf("summarizer %d of %d: %w", i+1, len(s), err)
		errs = append(errs, err)
		if !last && ctx.Err() == nil {
			in.tell(ctx, Step{Skipped: err.Error()})
		}
	}
	return "", errors.Join(errs...)
}
