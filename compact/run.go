package compact

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/internal/quote"
	"github.com/convolog/convolog/internal/recalltool"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Error is a compaction that failed. Nothing was changed.
type Error struct {
	Cut Cut   // the plan
	Err error // of the summarizer, or the reason of the refusal
}

// Error returns the attempts and the cause in one line.
func (e *Error) Error() string {
	return fmt.Sprintf("compact: %d messages (~%d tokens) were not summarised, nothing was changed: %v", e.Cut.At, e.Cut.Covered, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Run has the messages before the cut summarised, and returns the entry that
// replaces them with the summary. It writes nothing: append the entry to the
// transcript of h. A stored plan works as well; Run refuses it if it would cut
// h elsewhere.
//
// Next to the summary the entry holds items that no summarizer is trusted with,
// at most MaxCarried tokens: texts of the user, the files that calls have read
// and modified, the last errors of tools, and identifiers of texts that did not
// fit. Code merges the items of the last compaction with the new ones, and
// masks passwords and keys of known shapes.
//
// An error is an [*Error] and wraps the summarizer's error, [ErrRefused] or
// [ErrNotSmaller]. The summarizer is not called again.
//
// Run does not set the entry's TurnsBefore, the number of the session's turns
// that are not kept. TokensAfter is an estimate for a summary in a user
// message.
func Run(ctx context.Context, h rebuild.History, c Cut, opts *Options) (transcript.Compaction, error) {
	if c.Nothing != "" {
		return c.failed(errors.New(c.String()))
	}
	if c.At <= 0 || c.At >= len(h.Messages) {
		return c.failed(fmt.Errorf("the cut does not fit a history of %d messages", len(h.Messages)))
	}
	if first, covers, _ := ends(h.Messages, c.At); first != c.FirstKept || covers != c.CoversTo {
		return c.failed(fmt.Errorf("the plan is of another history: its cut is between entries %q and %q, here that is between %q and %q; plan again", c.CoversTo, c.FirstKept, covers, first))
	}
	o := opts.filled()
	return o.run(ctx, h, c, c.At, o.input(h, c, c.At), false)
}

// leastOverview is the least limit of tokens for an overview.
const leastOverview = 256

// Overview returns the compaction that replaces the messages before at with a summary
// of the messages before to. at is at most to: the messages between them are both
// summarised and kept. Both may be the number of messages. With an at of 0 only the
// Summary of the result counts. Extract reports that [Extractive] wrote it.
//
// Unlike [Run], Overview does not require the history to become smaller, and it allows
// every summary 256 tokens. All else is as for Run: carried items, refusals, and the
// error, which is an [*Error]. The cut must be legal, like a cut of [Plan].
func Overview(ctx context.Context, h rebuild.History, to, at int, opts *Options) (done transcript.Compaction, extract bool, err error) {
	n := len(h.Messages)
	if to <= 0 || to > n || at < 0 || at > to {
		done, err = Cut{}.failed(fmt.Errorf("%d and %d do not divide a history of %d messages", to, at, n))
		return done, false, err
	}
	o := opts.filled()
	p := newPlanner(h, o)
	c := p.cut(at)
	c.MaxSummary = min(o.MaxSummary, max((c.Before-p.size(to, n))/2, leastOverview))
	in := o.input(h, c, to)
	done, err = o.run(ctx, h, c, to, in, true)
	return done, *in.extract != "", err
}

func (c Cut) failed(err error) (transcript.Compaction, error) {
	return transcript.Compaction{}, &Error{Cut: c, Err: err}
}

// run replaces the messages before the cut with a summary of the messages
// before to. Unless grow is set, the history must become smaller.
func (o Options) run(ctx context.Context, h rebuild.History, c Cut, to int, in Input, grow bool) (transcript.Compaction, error) {
	if err := ctx.Err(); err != nil {
		return c.failed(err)
	}
	summary, err := in.ask(ctx, o.Summarizer)
	if err != nil {
		return c.failed(err)
	}
	if summary != *in.extract {
		*in.extract = "" // the summary is another text
	}
	if size := countText(o.Counter, neutral.SummaryHeading+"\n"+summary); !grow && size >= c.Covered {
		return c.failed(fmt.Errorf("%w: ~%d tokens for ~%d", ErrNotSmaller, size, c.Covered))
	}
	if err := in.refuse(summary); err != nil {
		return c.failed(err)
	}
	if o.Recall {
		summary, _ = recalltool.Cut(summary) // if the notice was repeated
	}
	// Only the library's own headings and notices begin a line with a bracket.
	done := transcript.Compaction{Summary: quote.Brackets(summary), FirstKept: c.FirstKept, Read: c.Read}
	_, done.CoversTo, _ = ends(h.Messages, to)
	shown := o.carry(h, c, &done)
	for err := o.smaller(h, c.At, shown); err != nil && !grow; err = o.smaller(h, c.At, shown) {
		if c.MaxCarried /= 2; c.MaxCarried == 0 {
			return c.failed(err)
		}
		shown = o.carry(h, c, &done)
	}
	done.TokensBefore, done.TokensAfter = c.Before, o.Counter.Count("", nil, []transcript.Message{shown})+c.Kept
	return done, nil
}

func (o Options) input(h rebuild.History, c Cut, to int) Input {
	isMade := func(_ transcript.Block, at transcript.Origin) bool { // a compaction's text, or a system prompt shown as a text
		return at.Entry != "" && at.Batch == 0 || at.Block == transcript.PromptEntry
	}
	in := Input{
		Messages: rebuild.Without(h.Messages[:to], isMade), MaxTokens: max(c.MaxSummary, 1), Guidance: o.Guidance,
		Observe: o.Observe, timeout: max(o.Timeout, 0), extract: new(string), carried: c.MaxCarried > 0,
	}
	if h.Compaction != nil {
		in.Previous, _ = recalltool.Cut(h.Compaction.Summary)
	}
	return in
}

// smaller returns an error if a summary that replaces the messages before a cut
// saves less than the margin. One counter counts both sides, each in one go.
func (o Options) smaller(h rebuild.History, at int, summary transcript.Message) error {
	kept := h.Messages[at:]
	size := o.Counter.Count(h.System, nil, h.Messages)
	covered := size - o.Counter.Count("", nil, kept)
	saved := size - o.Counter.Count("", nil, slices.Concat([]transcript.Message{summary}, kept))
	if need := max(1, min(margin(size), covered/4)); saved < need {
		return fmt.Errorf("%w: with carried items it saves ~%d of ~%d tokens, at least %d are wanted", ErrNotSmaller, saved, size, need)
	}
	return nil
}
