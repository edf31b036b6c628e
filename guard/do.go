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

// Do calls a model with the history of h, and makes requests fit that are too
// long: see the package comment. It returns the result of the last call.
//
// Before the first call, if the window is known: while the prompt is too long by
// estimate the stages of g run, each at most once in a Do, unless one changed
// nothing. If it is too long even then it is sent, because an estimate proves
// nothing. The window is the smaller one of g's and the one that a [Calibrated]
// history has kept, together with the error of the estimate. A figure in an
// error is kept if it is near enough to be the window, and taken back when a
// longer prompt has been answered. Five percent are added to an estimate, unless
// the provider has already counted this prompt in the same Do. Tokens that the
// provider of the last answer cleared by its own context editing do not count
// until it refuses a request.
//
// After an overflow the remaining stages run, with the sizes of the error, and the model
// is called again; if the prompt alone fits, the output limit is lowered to the room in
// the window, if that is enough for an answer. Other refused parts ([Part]) are left out or
// sent in another form, as docs/REFUSALS.md explains. A failed connection, a rate limit or
// an error of the server proves nothing about them. A Do calls the model four times at most.
//
// An answer is returned at once, even one cut by a full window: the next Do
// makes room, if the usage shows the size of the window. An empty answer whose
// usage, or the estimate, shows a full window counts as an overflow of the kind
// [Silent], and the model is called again, once.
//
// A stream that was cut by an error is an error like any other; the call
// returns the partial answer with it. A repeated call has a [Call].Attempt
// greater than 0; text already shown of the last one is void.
//
// If nothing helps the error is an [*OverflowError] through which the
// application's own error is seen. Do adds no answer to the history: append
// the returned one. After an answer at the end of the history, formats put a short
// text of the user; turn.Retry and turn.Continue are the better ways. A cancelled
// ctx leaves the history at the last change that was committed whole.
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

// responseOf returns the response that an answer is or points to, or nil.
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
	made     transcript.Made    // what the request holds
	size     int                // of its prompt, estimated
	attempt  int
	overflow *Overflow // why there is another attempt

	window  int                    // as known
	known   transcript.Calibration // calibration of the model in the history
	factor  float64                // the provider's tokens for one of the estimate
	counted float64                // the same of this very prompt; 0: not known
	left    []Stage                // that have not run
	failed  []error                // of stages
	lowered bool                   // whether the output limit was lowered because of an error
	cleared int                    // tokens that the provider leaves out of the prompt by itself
	refused bool                   // whether it has refused one: its own clearing is not enough
	again   bool                   // whether the call after an empty answer was made
	trial   *trial                 // the cure that the next call proves
	tried   map[string]bool        // refused parts that had a cure
	there   place                  // where the last error points
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
		r.cleared = h.Cleared // another model clears nothing, or something else
	}
	r.size = tokens.Or(r.g.Counter).Count(r.request.System, r.request.Tools, r.request.Messages)
	if free := r.free(); r.window > 0 && free > 0 && cmp.Or(r.request.MaxOutput, usualOutput) > free {
		r.request.MaxOutput = free // what the prompt leaves of the window
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

// estimated is the rule of an overflow that was not waited for.
const estimated = "estimate"

// expected is the best estimate of the prompt in the provider's tokens, without
// tokens that the provider clears.
func (r *run) expected() int { return max(r.sent()-r.cleared, 0) }

// sent is expected with what the provider clears.
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
	// maxCalls is how many calls a Do makes.
	maxCalls = 4
	// planTokens is the size up to which an error that names the window of a plan
	// is not believed: there are such errors about requests of a few thousand.
	planTokens = 40_000
)

// preflight makes the first request, and makes it smaller if it is too long by
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

// fits reports whether the prompt and an answer fit the window; true if it is
// unknown.
func (r *run) fits() bool { return r.window <= 0 || r.free() >= r.answer() }

// free is what the prompt leaves of the window.
func (r *run) free() int { return r.window - r.expected() - r.expected()*r.slack()/100 }

// slack is how much larger than its estimate a prompt is taken for, in percent.
// Of whole conversations one in twenty is underestimated by more.
func (r *run) slack() int {
	if r.counted > 0 {
		return 0
	}
	return 5
}

// answer is how many tokens an answer needs to be of use: the output limit, but
// no more than 8,192 and an eighth of the window.
func (r *run) answer() int {
	return min(usualOutput, cmp.Or(max(r.g.MaxOutput, 0), usualOutput), max(r.window/8, 1))
}

// usualOutput is an output limit in tokens that is enough for an answer. Calls
// without a limit are assumed to use it.
const usualOutput = 8192

// cure does what the overflow asks for and reports whether it is worth another
// call. An error is not about the overflow: the history cannot be read, or ctx
// is done.
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
			r.left = append(r.left, st) // the provider may know better
		}
		r.tell(ctx, Event{Kind: EventStage, Overflow: o, Stage: st.Name, Changed: changed, Err: err, Before: before})
		if changed && (o.Kind == Part || o.Kind == Messages || r.fits()) {
			r.left = append(r.left, stages[i+1:]...)
			break
		}
	}
	if o.Kind == Messages && again && o.Rule != estimated {
		r.commit(ctx, transcript.Calibration{Messages: o.Limit}) // a compaction forgets it
	}
	return again, nil
}

// lowerOutput lowers the output limit to the room that an error names, once, if
// that is enough for an answer.
func (r *run) lowerOutput(o Overflow) bool {
	if o.Kind != TokensPlusOutput || r.lowered || o.Limit == 0 || o.Prompt == 0 || o.AtLeast {
		return false
	}
	// Providers count a little more than they say.
	margin := max(64, o.Limit/1000)
	free := o.Limit - o.Prompt - margin
	if free < r.answer() {
		return false
	}
	r.request.MaxOutput, r.lowered = free, true
	return true
}

func (r *run) need(o Overflow) Need {
	// An unknown window is smaller than the request.
	n := Need{Overflow: o, Model: r.g.Model, Window: cmp.Or(max(r.window, 0), r.size), Refused: o.Rule != estimated, Counter: tokens.Or(r.g.Counter)}
	n.Recall = slices.ContainsFunc(r.g.Tools, func(t transcript.Tool) bool { return t.Name == recalltool.Read })
	history := r.size - n.Counter.Count(r.g.System, r.g.Tools, nil)
	if o.Kind == Messages && o.Limit > 0 {
		n.Room = max(int(float64(history)*float64(o.Limit)/float64(max(o.Prompt, len(r.request.Messages), o.Limit))*4/5), 1)
	} else if r.window > 0 {
		room := float64(r.window-r.answer()) * 100 / float64(100+r.slack()) / cmp.Or(r.counted, r.factor)
		n.Room = max(int(room)-(r.size-history), 1)
		if n.Refused && n.Room >= history {
			n.Room = max(history-n.Counter.Count("", nil, r.request.Messages)/2, 1) // whatever the figures say, it does not fit
		}
	}
	return n
}

func (r *run) fail(ctx context.Context, o Overflow, err error) error {
	e := &OverflowError{
		Overflow: o, Attempts: r.attempt + 1, Estimate: r.size, Window: r.window, Stages: r.failed, Err: err,
	}
	sizes := map[string]int{} // by the entry, of the last message
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
