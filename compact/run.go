package compact

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Errors of summaries that are refused.
var (
	// ErrEmpty says that the summary has no text.
	ErrEmpty = errors.New("the summary is empty")
	// ErrNotSmaller says that the summary is not smaller than what it stands
	// for.
	ErrNotSmaller = errors.New("the summary is not smaller than what it stands for")
)

// Error is a compaction that failed. Nothing was changed.
type Error struct {
	Cut Cut   // what was tried
	Err error // of the summarizer, or why its summary was refused
}

// Error says what was tried and why it failed.
func (e *Error) Error() string {
	return fmt.Sprintf("compact: %d messages (~%d tokens) were not summarised, nothing was changed: %v", e.Cut.At, e.Cut.Covered, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Run has the messages before the cut summarised and returns the entry that
// puts the summary in their place. It writes nothing: append the entry to the
// transcript that h was folded from.
//
// Where the cut is inside a turn, the user's words that opened it and those
// that came during it are added to the summary, unless it has them; they take at
// most half of MaxSummary and are cut in the middle if they have more. An error is
// an [*Error] and matches what the summarizer returned; a summary that is empty
// or not smaller than what it stands for is an error too. The summarizer is not
// called again.
//
// TurnsBefore of the entry is not set, it is the number of the session's turns
// that are not kept; TokensAfter is an estimate for a summary in a user
// message.
func Run(ctx context.Context, h rebuild.History, c Cut, opts *Options) (transcript.Compaction, error) {
	o := opts.filled()
	if c.Nothing != "" {
		return transcript.Compaction{}, &Error{Cut: c, Err: errors.New(string(c.Nothing))}
	}
	if c.At <= 0 || c.At >= len(h.Messages) {
		return transcript.Compaction{}, &Error{Cut: c, Err: fmt.Errorf("the cut is not one of a history of %d messages", len(h.Messages))}
	}
	old := h
	old.Messages = h.Messages[:c.At]
	in := Input{MaxTokens: c.MaxSummary}
	in.Previous, in.Messages = previous(old)
	var asked request
	if c.Split {
		text, before := takeRequest(in.Previous)
		all, started := before.add(old)
		if !started {
			in.Previous = text // else those are words of an earlier turn, to be summarised
		}
		var size int
		asked, size = all.within(max(c.MaxSummary/2, min(256, c.Covered/3)), func(s string) int {
			return o.Counter.Count("", nil, []transcript.Message{transcript.UserText(requestHeading + "\n" + s)})
		})
		in.MaxTokens = max(c.MaxSummary-size, 1)
	}
	summary, err := summarise(ctx, o, in)
	if err != nil {
		return transcript.Compaction{}, &Error{Cut: c, Err: err}
	}
	// A heading that the summarizer has copied is a text like any other.
	summary = asked.join(strings.ReplaceAll(summary, requestHeading, strings.Trim(requestHeading, "[]")))

	after := o.Counter.Count("", nil, []transcript.Message{transcript.UserText(rebuild.SummaryHeading + "\n" + summary)})
	if after >= c.Covered {
		return transcript.Compaction{}, &Error{Cut: c, Err: fmt.Errorf("%w: ~%d tokens", ErrNotSmaller, after)}
	}
	return transcript.Compaction{
		Summary: summary, FirstKept: c.FirstKept, CoversTo: c.CoversTo,
		TokensBefore: c.Before, TokensAfter: after + c.Kept,
	}, nil
}

// summarise calls the summarizer and returns its text without white space
// around it.
func summarise(ctx context.Context, o Options, in Input) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	summary, err := o.Summarizer.Summarize(ctx, in)
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err // what it returned may be half of a summary
	}
	summary = strings.ToValidUTF8(strings.TrimSpace(summary), "\uFFFD")
	if summary == "" {
		return "", ErrEmpty
	}
	return summary, nil
}
