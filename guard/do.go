package guard

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/recalltool"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// Do calls a model with the history of h, and makes long requests fit: see the package
// comment. It returns the result of the last call.
//
// If the window is known, Do checks the request before the first call. While the prompt
// is too long by estimate, it runs the stages of g. Each stage runs at most once in a
// Do, but one that changed nothing here may run again after an error. A prompt that is
// still too long is sent, because an estimate proves nothing.
//
// The window is the smaller of g.Window and the one in a [Calibrated] history, which
// also holds the error of the estimate. Do keeps the limit in an error if it is
// plausible as a window, and discards it after an answer to a longer prompt. It adds
// five percent to an estimate, unless the provider has already counted this prompt in
// the same Do. The provider's context editing may have cleared tokens before the last
// answer. They do not count until the provider refuses a request.
//
// After an overflow Do makes the request smaller and calls the model again. If the
// prompt alone fits and leaves enough room for an answer, Do lowers the output limit to
// that room. Otherwise the remaining stages run, with the sizes in the error. Do leaves
// out other refused parts ([Part]), or sends them in another form, as docs/REFUSALS.md
// explains. A failed connection, a rate limit or a server error proves nothing about
// them. A Do calls the model at most four times.
//
// Do returns an answer at once, even one that a full window cut. If its usage shows the
// size of the window, the next Do makes room. An empty answer counts as an overflow of
// the kind [Silent] if the usage or the estimate shows a full window. Do then calls the
// model again, once.
//
// An error in the middle of a stream is like any other error; the call returns the
// partial answer with it. A repeated call has a [Call].Attempt greater than 0, and text
// that was shown of the previous call is void.
//
// If no remedy helps, the error is an [*OverflowError] that wraps the application's own
// error. Do adds no answer to the history: the caller appends the returned one. If the
// history ends with an answer, formats put a short user text after it; turn.Retry and
// turn.Continue are better ways. After a cancelled ctx, the history holds all changes
// that were committed, each of them whole.
//
// Do may be called by several goroutines, for different sessions.
func Do[T any](ctx context.Context, g *Guard, h History, call func(ctx context.Context, c Call) (T, error)) (T, error) {
	if g == nil {
		g = &Guard{}
	}
	r := &run{g: g, h: h, left: slices.Clone(g.Stages), window: g.Window, factor: 1}
	if g.Stages == nil {
		r.left = []Stage{Media(), Clip(), Compact()}
	}
	if err := r.preflight(ctx); err != nil {
		var none T
		return none, err
	}
	for {
		answer, err := call(ctx, r.next())
		resp := cmp.Or(responseOf(&answer), responseOf(answer))
		if resp != nil {
			resp.Made = r.made
		}
		var o Overflow
		if err == nil {
			r.prove(ctx)
			if o = r.look(ctx, resp, answer); o.Kind == NotOverflow {
				return answer, nil
			}
		} else {
			var failed error
			if o, failed = r.judge(ctx, err); failed != nil {
				return answer, failed
			}
		}
		again, cause := r.cure(ctx, o, err)
		switch {
		case cause != nil:
			return answer, errors.Join(cause, err)
		case !again && (err == nil || o.Kind == Part):
			return answer, err
		case !again:
			return answer, r.fail(ctx, o, err)
		}
		r.attempt++
		r.overflow = &o
		r.tell(ctx, Event{Kind: EventRetry, Overflow: o, Before: r.size})
	}
}

// responseOf returns the response in an answer, or nil.
func responseOf(answer any) *transcript.Response {
	switch a := answer.(type) {
	case **transcript.Response:
		return *a
	case *transcript.Response:
		return a
	case transcript.Response:
		return &a
	}
	return nil
}

// Complete is [Do] with a [Client].
func Complete(ctx context.Context, g *Guard, h History, client Client) (*transcript.Response, error) {
	return Do(ctx, g, h, func(ctx context.Context, c Call) (*transcript.Response, error) {
		return client.Complete(ctx, c.Request)
	})
}

type run struct {
	g        *Guard
	h        History
	request  transcript.Request // of the next call
	made     transcript.Made    // the record of its content
	size     int                // of its prompt, in estimated tokens
	attempt  int
	overflow *Overflow // the reason for this attempt; nil for the first one

	window  int                    // 0 or less if unknown
	known   transcript.Calibration // the calibration of the model in the history
	factor  float64                // tokens of the provider for each estimated token
	counted float64                // the factor of this very prompt; 0: unknown
	left    []Stage                // stages that have not run
	failed  []error                // errors of stages
	lowered bool                   // whether the output limit was lowered because of an error
	cleared int                    // tokens that the provider clears from the prompt by itself
	refused bool                   // whether the provider refused a prompt, so its clearing is not enough
	again   bool                   // whether the call after an empty answer was made
	trial   *trial                 // the cure that the next call proves
	tried   map[string]bool        // refused parts for which a cure was tried
	there   place                  // the part that the last error points to
}

func (r *run) read(ctx context.Context) error {
	h, err := r.h.History(ctx)
	if err != nil {
		return err
	}
	known := r.known
	if r.trial != nil {
		known = known.Merge(r.trial.cure)
	}
	r.request, r.made = r.g.request(h, known)
	r.cleared = 0
	if !r.refused && (h.Answered == "" || strings.HasPrefix(h.Answered, r.g.Model)) {
		r.cleared = h.Cleared // another model clears no tokens, or different ones
	}
	r.size = tokens.Or(r.g.Counter).Count(r.request.System, r.request.Tools, r.request.Messages)
	if free := r.free(); r.window > 0 && free > 0 && cmp.Or(r.request.MaxOutput, usualOutput) > free {
		r.request.MaxOutput = free // the prompt leaves no more of the window
	}
	return nil
}

func (r *run) next() Call {
	c := Call{Request: r.request, Made: r.made, Attempt: r.attempt, Overflow: r.overflow}
	c.Tools = slices.Clone(c.Tools)
	c.Messages = slices.Clone(c.Messages)
	for i, m := range c.Messages {
		c.Messages[i].Content, c.Messages[i].Origins = slices.Clone(m.Content), slices.Clone(m.Origins)
	}
	return c
}

func (r *run) tell(ctx context.Context, e Event) {
	if r.g.Observe == nil {
		return
	}
	e.Attempt, e.Unsent = r.attempt, e.Overflow.Rule == estimated
	e.After, e.MaxOutput = r.size, r.request.MaxOutput
	r.g.Observe(ctx, e)
}

// estimated is the rule of an overflow that Do finds before a call.
const estimated = "estimate"

// expected is the best estimate of the prompt in the provider's tokens, without
// tokens that the provider clears.
func (r *run) expected() int { return max(r.sent()-r.cleared, 0) }

// sent is the same estimate, including the tokens that the provider clears.
func (r *run) sent() int { return int(float64(r.size) * cmp.Or(r.counted, r.factor)) }

// curable reports whether another call can help.
func (r *run) curable(o Overflow) bool {
	if o.Rule == emptyBody && r.window > 0 && r.expected() < r.window*4/5 {
		return false
	}
	if r.attempt == maxCalls-1 && !o.Kind.IsOverflow() || o.Rule == planWindow && r.expected() <= planTokens {
		return false
	}
	if o.Kind == Part {
		_, ok := r.remedy(o)
		return ok || isStaged(o) && slices.ContainsFunc(r.left, func(s Stage) bool { return s.helps(Part) })
	}
	return o.Kind != NotOverflow
}

const (
	// maxCalls is the maximum number of calls in a Do.
	maxCalls = 4
	// planTokens is the largest prompt for which an error about the window of a plan is
	// ignored. Such errors also occur for requests of a few thousand tokens.
	planTokens = 40_000
)

// preflight prepares the first request, and makes it smaller if it is too long by
// estimate.
func (r *run) preflight(ctx context.Context) error {
	if err := r.recall(ctx); err != nil {
		return err
	}
	if err := r.read(ctx); err != nil {
		return err
	}
	if err := r.count(ctx); err != nil || r.fits() {
		return err
	}
	_, err := r.cure(ctx, Overflow{
		Kind: Tokens, Prompt: r.size, Limit: r.window, Output: r.g.MaxOutput, Rule: estimated,
	}, nil)
	return err
}

// fits reports whether the prompt and an answer fit the window. An unknown window fits
// both.
func (r *run) fits() bool { return r.window <= 0 || r.free() >= r.answer() }

// free is the room that the prompt leaves in the window, in tokens.
func (r *run) free() int { return r.window - r.expected() - r.expected()*r.slack()/100 }

// slack is the margin that is added to an estimate, in percent. Of whole conversations,
// one in twenty is underestimated by more.
func (r *run) slack() int {
	if r.counted > 0 {
		return 0
	}
	return 5
}

// answer is the number of tokens that an answer needs: the output limit, but at most
// 8,192 and an eighth of the window.
func (r *run) answer() int {
	return min(usualOutput, cmp.Or(max(r.g.MaxOutput, 0), usualOutput), max(r.window/8, 1))
}

// usualOutput is an output limit that suffices for an answer, in tokens. It is assumed
// for a call without a limit.
const usualOutput = 8192

// cure applies the remedy for an overflow, and reports whether another call is
// worthwhile. An error comes from elsewhere: the history cannot be read, or ctx is done.
func (r *run) cure(ctx context.Context, o Overflow, of error) (again bool, err error) {
	if o.Kind == Part && !isStaged(o) {
		return true, r.try(ctx, o, of)
	}
	if r.attempt == maxCalls-1 {
		return false, nil
	}
	r.tell(ctx, Event{Kind: EventOverflow, Overflow: o, Before: r.size})
	if o.Rule != estimated {
		r.refused, r.cleared = true, 0
	}
	r.learn(ctx, o)
	if r.lowerOutput(o) {
		r.tell(ctx, Event{Kind: EventOutput, Overflow: o, Before: r.size})
		return true, nil
	}
	stages := r.left
	r.left = nil
	for i, st := range stages {
		if !st.helps(o.Kind) {
			r.left = append(r.left, st)
			continue
		}
		before := r.size
		changed, err := st.Run(ctx, r.h, r.need(o))
		if ctx.Err() != nil {
			return again, ctx.Err()
		}
		if err != nil {
			r.failed = append(r.failed, err)
		}
		if changed {
			again = true
			if err := r.read(ctx); err != nil {
				return again, err
			}
		} else if o.Rule == estimated {
			r.left = append(r.left, st) // it may help with the provider's figures
		}
		r.tell(ctx, Event{Kind: EventStage, Overflow: o, Stage: st.Name, Changed: changed, Err: err, Before: before})
		if changed && r.fits() {
			r.left = append(r.left, stages[i+1:]...)
			break
		}
	}
	if o.Kind == Messages && again && o.Rule != estimated {
		r.commit(ctx, transcript.Calibration{Messages: o.Limit}) // after the stages, because a compaction forgets it
	}
	return again, nil
}

// lowerOutput lowers the output limit, once, to the room that an error shows, if that
// is enough for an answer.
func (r *run) lowerOutput(o Overflow) bool {
	if o.Kind != TokensPlusOutput || r.lowered || o.Limit == 0 || o.Prompt == 0 || o.AtLeast {
		return false
	}
	// Providers count slightly more than they report.
	margin := max(64, o.Limit/1000)
	free := o.Limit - o.Prompt - margin
	if free < r.answer() {
		return false
	}
	r.request.MaxOutput, r.lowered = free, true
	return true
}

func (r *run) need(o Overflow) Need {
	// The size of the request replaces an unknown window, which is smaller.
	n := Need{Overflow: o, Model: r.g.Model, Window: cmp.Or(max(r.window, 0), r.size), Refused: o.Rule != estimated, Counter: tokens.Or(r.g.Counter)}
	n.Recall = slices.ContainsFunc(r.g.Tools, func(t transcript.Tool) bool { return t.Name == recalltool.Read })
	history := r.size - n.Counter.Count(r.g.System, r.g.Tools, nil)
	if o.Kind == Messages && o.Limit > 0 {
		n.Room = max(int(float64(history)*float64(o.Limit)/float64(max(o.Prompt, len(r.request.Messages), o.Limit))*4/5), 1)
	} else if r.window > 0 {
		room := float64(r.window-r.answer()) * 100 / float64(100+r.slack()) / cmp.Or(r.counted, r.factor)
		n.Room = max(int(room)-(r.size-history), 1)
		if n.Refused && n.Room >= history {
			n.Room = max(history-n.Counter.Count("", nil, r.request.Messages)/2, 1) // refused: despite the figures it does not fit
		}
	}
	return n
}

func (r *run) fail(ctx context.Context, o Overflow, err error) error {
	e := &OverflowError{
		Overflow: o, Attempts: r.attempt + 1, Estimate: r.size, Window: r.window, Stages: r.failed, Err: err,
	}
	sizes := map[string]int{} // by entry, in the last message
	for _, m := range r.request.Messages[max(len(r.request.Messages)-1, 0):] {
		for i, at := range m.Origins[:min(len(m.Origins), len(m.Content))] {
			sizes[at.Entry] += Need{Counter: r.g.Counter}.size(m.Content[i])
			if at.Entry != "" && sizes[at.Entry] > e.LargestSize {
				e.Largest, e.LargestSize = at.Entry, sizes[at.Entry]
			}
		}
	}
	r.tell(ctx, Event{Kind: EventFailed, Overflow: o, Before: r.size, Err: e})
	return e
}
