package guard

import (
	"context"

	"github.com/convolog/convolog/transcript"
)

// transformations is the member of Usage.Extra that package wire uses for a report of
// the Messages API: the blocks that it left out of a request.
const transformations = "input_transformations"

// look learns from an answer. If the answer is empty because the prompt was too long,
// look returns an overflow of the kind [Silent], but only once.
func (r *run) look(ctx context.Context, resp *transcript.Response, answer any) Overflow {
	out, ok := r.g.inspect(resp, answer)
	if !ok {
		return Overflow{}
	}
	if dropped := out.Usage.Extra[transformations]; len(dropped) > 0 && string(dropped) != "[]" {
		r.tell(ctx, Event{Kind: EventDropped, Before: r.size, Dropped: dropped})
	}
	prompt := out.Usage.Prompt()
	var o Overflow
	var c transcript.Calibration
	switch out.StopReason {
	case transcript.StopAborted, transcript.StopError, transcript.StopRefusal:
		return Overflow{}
	case transcript.StopContextWindow:
		o = Overflow{Kind: StopReason, Prompt: prompt, Output: out.Usage.Output, Rule: "stop reason"}
		c = r.filled(prompt, out.Usage.Cleared(), out.Usage.Output)
	default:
		refuted := !out.Empty && r.refute(prompt)
		o = r.silent(out)
		if out.Empty && o.Kind != NotOverflow && !r.again {
			r.again = true
			return o
		}
		c = r.calibrate(prompt+out.Usage.Cleared(), o.Kind != NotOverflow)
		if refuted {
			c.Window = -1 // discards the learned window, which is wrong
		}
		if o.Rule == frontDropped {
			c.Factor, c.Prompt = 0, 0 // the count is of a cut prompt
			if r.window <= 0 || o.Limit < r.window {
				c.Window = o.Limit
			}
		}
	}
	if o.Kind != NotOverflow {
		r.tell(ctx, Event{Kind: EventOverflow, Before: r.size, Overflow: o})
	}
	r.commit(ctx, c)
	return Overflow{}
}

// refute discards a learned window if the provider has read a longer prompt.
func (r *run) refute(prompt int) bool {
	if r.known.Window <= 0 || prompt <= r.known.Window || r.mirrored(prompt) {
		return false
	}
	r.window = r.g.Window
	return true
}

// filled derives the window from an answer that a full window cut: prompt and output
// together. A prompt far below the estimate lacks its cached tokens and gives no
// window.
func (r *run) filled(prompt, cleared, output int) (c transcript.Calibration) {
	if prompt < fewTokens || prompt+cleared < r.sent()/2 || r.mirrored(prompt) {
		return c
	}
	r.refute(prompt)
	c = r.calibrate(prompt+cleared, true)
	if total := prompt + output; r.window <= 0 || total < r.window {
		c.Window = total
	}
	return c
}

// frontDropped is the rule of a prompt whose front a server dropped.
const frontDropped = "usage far below the estimate"

func (r *run) silent(out Outcome) Overflow {
	prompt := out.Usage.Prompt()
	o := Overflow{Kind: Silent, Prompt: prompt, Limit: max(r.window, 0), Output: out.Usage.Output}
	sized := r.window > 0 && prompt >= fewTokens
	switch {
	case sized && prompt > r.window && !r.mirrored(prompt):
		o.Rule = "usage above the window"
	case sized && out.StopReason == transcript.StopMaxTokens && out.Usage.Output == 0 && prompt >= r.window-r.window/100:
		o.Rule = "no output in a full window"
	case prompt >= fewTokens && prompt+out.Usage.Cleared() < r.sent()/2 && (r.g.CutsSilently || out.Empty && r.window <= 0):
		o.Rule, o.Prompt = frontDropped, 0
		if r.g.CutsSilently {
			o.Limit = prompt + out.Usage.Output // these certainly fit
		}
	case out.Empty && r.window > 0 && r.expected() >= r.window-r.window/10:
		o.Rule, o.Prompt = "an empty answer in a full window", 0
	default:
		return Overflow{}
	}
	return o
}
