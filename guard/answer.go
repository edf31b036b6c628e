package guard

import (
	"context"

	"github.com/convolog/convolog/transcript"
)

// look learns from an answer. It returns an overflow of the kind [Silent] if
// there is nothing in it because the prompt was too long, once.
func (r *run) look(ctx context.Context, answer any) Overflow {
	out, ok := r.g.inspect(answer)
	if !ok {
		return Overflow{}
	}
	prompt := out.Usage.Prompt()
	switch out.StopReason {
	case transcript.StopContextWindow:
		o := Overflow{Kind: StopReason, Prompt: prompt, Output: out.Usage.Output, Rule: "stop reason"}
		r.tell(ctx, Event{Kind: EventOverflow, Before: r.size, Overflow: o})
		r.commit(ctx, r.filled(prompt, out.Usage.Output))
		return Overflow{}
	case transcript.StopAborted, transcript.StopError, transcript.StopRefusal:
		return Overflow{}
	default:
	}
	o := r.silent(out)
	switch {
	case o.Kind == NotOverflow:
		r.commit(ctx, r.calibrate(prompt, false))
		return o
	case out.Empty && !r.again:
		r.again = true
		return o
	}
	r.tell(ctx, Event{Kind: EventOverflow, Before: r.size, Overflow: o})
	c := r.calibrate(prompt, true)
	if o.Rule == frontDropped {
		c = transcript.Calibration{}
		if r.window <= 0 || o.Limit < r.window {
			c.Window = o.Limit
		}
	}
	r.commit(ctx, c)
	return Overflow{}
}

// filled is what an answer says that the full window has cut: prompt and output
// are the window.
func (r *run) filled(prompt, output int) (c transcript.Calibration) {
	if prompt < fewTokens || prompt == r.size {
		return c
	}
	c = r.calibrate(prompt, true)
	if total := prompt + output; r.window <= 0 || total < r.window {
		c.Window = total
	}
	return c
}

// The rules of silent overflows.
const (
	frontDropped = "usage far below the estimate"
	pastWindow   = "usage above the window"
	noOutput     = "no output in a full window"
	emptyAnswer  = "an empty answer in a full window"
)

// silent says what the usage of an answer says that no error does.
func (r *run) silent(out Outcome) Overflow {
	prompt := out.Usage.Prompt()
	o := Overflow{Kind: Silent, Prompt: prompt, Limit: max(r.window, 0), Output: out.Usage.Output}
	sized := r.window > 0 && prompt >= fewTokens
	switch {
	case sized && prompt > r.window && prompt != r.size:
		o.Rule = pastWindow
	case sized && out.StopReason == transcript.StopMaxTokens && out.Usage.Output == 0 && prompt >= r.window-r.window/100:
		o.Rule = noOutput
	case prompt >= fewTokens && prompt < r.expected()/2 && (r.g.CutsSilently || out.Empty):
		// What certainly fits is what it has read and written.
		o.Rule, o.Limit, o.Prompt = frontDropped, prompt+out.Usage.Output, 0
	case out.Empty && r.window > 0 && r.expected() >= r.window-r.window/10:
		o.Rule, o.Prompt = emptyAnswer, 0
	default:
		return Overflow{}
	}
	return o
}
