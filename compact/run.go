package compact

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
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
// transcript that h was folded from. The plan may have been stored meanwhile; it
// is refused if h is cut elsewhere by it.
//
// Run adds to the summary what no summarizer is trusted with. Paths, URLs and
// identifiers that the summary does not mention come in a list, at most
// MaxCarried tokens of it: the newest first, of many files in one folder some,
// those of the user and of errors before others. The next compaction takes the
// list apart and merges it. Where
// the cut is inside a turn, or a turn before it ended without a text of the
// assistant, the user's words of that turn follow, unless the summary has them;
// they take at most half of MaxSummary and are cut in the middle if they have
// more, the last ones after the others.
//
// An error is an [*Error] and matches what the summarizer returned, or what is
// wrong with its summary, see [ErrEmpty] and those after it. The summarizer is
// not called again.
//
// TurnsBefore of the entry is not set, it is the number of the session's turns
// that are not kept; TokensAfter is an estimate for a summary in a user
// message.
func Run(ctx context.Context, h rebuild.History, c Cut, opts *Options) (transcript.Compaction, error) {
	o := opts.filled()
	fail := func(err error) (transcript.Compaction, error) {
		return transcript.Compaction{}, &Error{Cut: c, Err: err}
	}
	if c.Nothing != "" {
		return fail(errors.New(c.String()))
	}
	if c.At <= 0 || c.At >= len(h.Messages) {
		return fail(fmt.Errorf("the cut is not one of a history of %d messages", len(h.Messages)))
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	if first, covers, _ := ends(h.Messages, c.At); first != c.FirstKept || covers != c.CoversTo {
		return fail(fmt.Errorf("the plan is of another history: its cut is between entries %q and %q, here that is between %q and %q; plan again", c.CoversTo, c.FirstKept, covers, first))
	}
	in, asked, list := o.divide(h, c)
	if o.Observe != nil {
		in.Observe = func(s Step) { o.Observe(ctx, s) }
	}
	summary, err := summarise(ctx, o, in)
	if err != nil {
		return fail(err)
	}
	if size := countText(o.Counter, rebuild.SummaryHeading+"\n"+summary); size >= c.Covered {
		return fail(fmt.Errorf("%w: ~%d tokens for ~%d", ErrNotSmaller, size, c.Covered))
	}
	if err := in.refuse(summary); err != nil {
		return fail(err)
	}
	// A heading that the summarizer has copied is a text like any other.
	for _, heading := range []string{requestHeading, carriedHeading} {
		summary = strings.ReplaceAll(summary, heading, strings.Trim(heading, "[]"))
	}
	list = list.without(summary).without(asked.text).within(c.MaxCarried, o.Counter)
	summary = asked.join(summary + list.String())

	shown := transcript.UserText(rebuild.SummaryHeading + "\n" + summary)
	if err := o.smaller(h, c.At, shown); err != nil {
		return fail(err)
	}
	done := c.Compaction()
	done.Summary, done.TokensBefore, done.TokensAfter = summary, c.Before, countText(o.Counter, shown.Text())+c.Kept
	return done, nil
}

// divide returns what the summarizer is given and what is handed on by code: the
// user's words of a turn that is not over, and the identifiers.
func (o Options) divide(h rebuild.History, c Cut) (in Input, asked request, list carried) {
	old := h
	old.Messages = h.Messages[:c.At]
	in.MaxTokens = max(c.MaxSummary, 1)
	in.Previous, in.Messages = previous(old)
	text, before := takeRequest(in.Previous)
	text, list = takeCarried(text)
	list = list.add(text, slices.Concat([]transcript.Message{transcript.UserText(before.text)}, in.Messages))

	in.Previous = text
	all, started := before.add(old)
	open := c.Split || unanswered(old)
	if started || !open {
		in.Previous = before.join(text) // words of an earlier turn, to be summarised
	}
	if !open {
		return in, asked, list
	}
	size := func(s string) int { return countText(o.Counter, requestHeading+"\n"+s) }
	most := max(c.MaxSummary/2, min(256, c.Covered/3))
	if !started && before.text != "" { // not shorter each time
		limit := o.MaxSummary / 2
		if c.Room > 0 {
			limit = min(limit, c.Room/5)
		}
		most = max(most, min(size(before.text), limit))
	}
	asked, words := all.within(most, size)
	in.MaxTokens = max(c.MaxSummary-words, c.MaxSummary/4, 1)
	return in, asked, list
}

// smaller returns an error if a history is not smaller by the margin with a
// summary in the place of the messages before a cut. One counter counts both
// sides, each in one go.
func (o Options) smaller(h rebuild.History, at int, summary transcript.Message) error {
	kept := h.Messages[at:]
	size := o.Counter.Count(h.System, nil, h.Messages)
	covered := size - o.Counter.Count("", nil, kept)
	saved := size - o.Counter.Count("", nil, slices.Concat([]transcript.Message{summary}, kept))
	if need := max(1, min(margin(size), covered/4)); saved < need {
		return fmt.Errorf("%w: ~%d of ~%d tokens fewer with what is added to it, at least %d are wanted", ErrNotSmaller, saved, size, need)
	}
	return nil
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
	return strings.ToValidUTF8(withoutReasoning(summary), "\uFFFD"), nil
}
