package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/convolog/convolog/transcript"
)

// Do calls a model with the history of h, and does what it takes to get the
// request through when it is too long: see the package comment. It returns what
// the call returned last.
//
// Before the call, if the window is known: while the prompt is too long by
// estimate the stages of g run, each at most once in a Do, and the output limit
// is lowered to what is left if that is still enough for an answer. After an
// overflow the same is done with what the error says, and the model is called
// again. Errors that are no overflow are returned as they are, and nothing has
// been done; so are answers. After an answer that was cut because the window is
// full the stages run too, so that the next request finds room.
//
// If nothing helps the error is an [*OverflowError] through which the
// application's own error is seen. Do adds no answer to the history: append
// what it returns. Nor does it ask whether it is the model's turn to speak: a
// history that ends with an answer is sent as it is. A cancelled ctx leaves the
// history at the last change that was committed whole.
//
// Do may be called by several goroutines, for different sessions.
func Do[T any](ctx context.Context, g *Guard, h History, call func(ctx context.Context, c Call) (T, error)) (T, error) {
	if g == nil {
		g = &Guard{}
	}
	r := &run{Guard: *g, h: h, left: g.stages(), window: g.Window}
	var none T
	if err := r.read(ctx); err != nil {
		return none, err
	}
	if err := r.preflight(ctx); err != nil {
		return none, err
	}
	for {
		answer, err := call(ctx, r.call)
		o := Classify(err)
		if err == nil {
			o = r.full(answer)
		}
		if !o.Kind.IsOverflow() || ctx.Err() != nil {
			return answer, err
		}
		again, cause := r.cure(ctx, o)
		switch {
		case err == nil: // cut by the window: an answer all the same
			return answer, nil
		case cause != nil:
			return answer, errors.Join(cause, err)
		case !again:
			return answer, r.fail(ctx, o, err)
		}
		r.call.Attempt++
		r.call.Overflow = &o
		r.tell(ctx, Event{Kind: EventRetry, Overflow: o, Before: r.size, After: r.size, MaxOutput: r.call.MaxOutput})
	}
}

// Complete is [Do] with a [Client].
func Complete(ctx context.Context, g *Guard, h History, client Client) (*transcript.Response, error) {
	return Do(ctx, g, h, func(ctx context.Context, c Call) (*transcript.Response, error) {
		return client.Complete(ctx, c.Request)
	})
}

// run is one Do.
type run struct {
	Guard
	h      History
	call   Call
	size   int     // of the prompt, estimated
	window int     // as far as it is known
	ratio  float64 // estimated tokens for one of the provider's; 0: not known
	left   []Stage // that have not run
	failed []error // of stages
	output int     // the output limit if it was lowered, else 0
	asked  bool    // whether it was lowered because the provider asked for it
}

// read makes the next call of the history as it is now.
func (r *run) read(ctx context.Context) error {
	h, err := r.h.History(ctx)
	if err != nil {
		return err
	}
	r.call.Request = r.request(h)
	if r.output > 0 {
		r.call.MaxOutput = r.output
	}
	r.size = r.count(r.call.Request)
	return nil
}

func (r *run) tell(ctx context.Context, e Event) {
	if r.Observe != nil {
		e.Attempt, e.Unsent = r.call.Attempt, e.Overflow.Rule == estimated
		r.Observe(ctx, e)
	}
}

// estimated is the rule of an overflow that was not waited for.
const estimated = "estimate"

// slack is how much larger than its estimate a prompt is taken for, in percent.
// Of whole conversations one in twenty is underestimated by more.
const slack = 5

// preflight makes a prompt smaller that is too long by estimate.
func (r *run) preflight(ctx context.Context) error {
	if r.window == 0 || r.fits() {
		return nil
	}
	o := Overflow{Kind: Tokens, Prompt: r.size, Limit: r.window, Output: r.MaxOutput, Rule: estimated}
	_, err := r.cure(ctx, o)
	return err
}

// fits reports whether the prompt and an answer go into the window, as far as
// that is known. It lowers the output limit if that is enough.
func (r *run) fits() bool {
	if r.window == 0 {
		return true
	}
	free := r.window - r.real(r.size)
	if free < r.answer() {
		return false
	}
	if cmp.Or(r.call.MaxOutput, usualOutput) > free {
		r.call.MaxOutput, r.output = free, free
	}
	return true
}

// real is how many of the provider's tokens an estimated number stands for.
func (r *run) real(estimate int) int {
	if r.ratio > 0 {
		return int(float64(estimate) / r.ratio)
	}
	return estimate + estimate*slack/100
}

// answer is how many tokens an answer needs to be of use: the output limit, but
// no more than 8,192 and an eighth of the window.
func (r *run) answer() int {
	return min(cmp.Or(r.MaxOutput, usualOutput), usualOutput, max(r.window/8, 1))
}

// usualOutput is an output limit in tokens that is enough for an answer, and
// what a call that is left to choose is taken to ask for.
const usualOutput = 8192

// full looks whether an answer was cut because the window is full.
func (r *run) full(answer any) Overflow {
	outcome, ok := r.inspect(answer)
	if !ok || outcome.StopReason != transcript.StopContextWindow {
		return Overflow{}
	}
	return Overflow{
		Kind: StopReason, Prompt: outcome.Usage.Prompt(), Output: outcome.Usage.Output, Rule: "stop reason",
	}
}

// cure does what the overflow asks for and reports whether it is worth another
// call. An error is not about the overflow: the history cannot be read, or ctx
// is done.
func (r *run) cure(ctx context.Context, o Overflow) (again bool, err error) {
	before := r.size
	r.learn(o)
	r.tell(ctx, Event{Kind: EventOverflow, Overflow: o, Before: before, After: before, MaxOutput: r.call.MaxOutput})
	if o.Kind == TokensPlusOutput && r.lessOutput(o) {
		r.tell(ctx, Event{Kind: EventOutput, Overflow: o, Before: before, After: before, MaxOutput: r.call.MaxOutput})
		return true, nil
	}
	for len(r.left) > 0 {
		st := r.left[0]
		r.left = r.left[1:]
		before := r.size
		changed, err := st.Run(ctx, r.h, r.need(o))
		if ctx.Err() != nil {
			return again, ctx.Err()
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", st.Name, err)
			r.failed = append(r.failed, err)
		}
		if changed {
			again = true
			if err := r.read(ctx); err != nil {
				return again, err
			}
		}
		r.tell(ctx, Event{
			Kind: EventStage, Overflow: o, Stage: st.Name, Changed: changed, Err: err,
			Before: before, After: r.size, MaxOutput: r.call.MaxOutput,
		})
		if changed && r.fits() {
			break
		}
	}
	return again, nil
}

// learn takes from an overflow how large the window is, and how the estimate
// compares with what the provider counts.
func (r *run) learn(o Overflow) {
	if o.Kind == Bytes || o.Rule == estimated {
		return
	}
	if o.Limit > 0 && (r.window == 0 || o.Limit < r.window) {
		r.window = o.Limit
	}
	if o.Prompt > 0 && r.size > 0 {
		ratio := float64(r.size) / float64(o.Prompt)
		if o.AtLeast && ratio > 1 {
			return // the bound says no more than the estimate
		}
		r.ratio = min(max(ratio, 0.4), 2.5)
	}
}

// lessOutput lowers the output limit to what the window leaves, once, if that
// is enough for an answer.
func (r *run) lessOutput(o Overflow) bool {
	if r.asked || o.Limit == 0 || o.Prompt == 0 || o.AtLeast {
		return false
	}
	const margin = 64 // tokens; providers count a little more than they say
	free := o.Limit - o.Prompt - margin
	if free < r.answer() {
		return false
	}
	r.call.MaxOutput, r.output, r.asked = free, free, true
	return true
}

// need is what a stage has to make room for.
func (r *run) need(o Overflow) Need {
	n := Need{Overflow: o, Window: r.window, Counter: r.counter()}
	if r.window > 0 {
		fixed := r.counter().Count(r.System, r.Tools, nil)
		room := float64(r.window - r.answer())
		if r.ratio > 0 {
			room *= r.ratio
		} else {
			room *= 100 / (100 + float64(slack))
		}
		n.Room = max(int(room)-fixed, 1)
	}
	return n
}

// fail is the error of an overflow that nothing could cure.
func (r *run) fail(ctx context.Context, o Overflow, err error) error {
	e := &OverflowError{
		Overflow: o, Attempts: r.call.Attempt + 1, Estimate: r.size, Window: r.window, Stages: r.failed, Err: err,
	}
	r.tell(ctx, Event{Kind: EventFailed, Overflow: o, Before: r.size, After: r.size, MaxOutput: r.call.MaxOutput, Err: e})
	return e
}
