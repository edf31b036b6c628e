package guard

import (
	"context"
	"math"

	"github.com/convolog/convolog/transcript"
)

// A Do learns about a model from the provider's own figures. Only committed entries
// carry these findings to the next Do, so the transcript alone decides the bytes of a
// request.
const (
	// fewTokens is the size below which a prompt proves nothing about estimates.
	fewTokens = 1024

	// A factor outside these bounds is not believed. No vocabulary is that far from the
	// estimate on a whole conversation.
	minFactor, maxFactor = 0.5, 2.5

	// moved is the ratio by which a factor must change to be committed again. A factor
	// rises at once. It falls by half of the difference, if that half is large enough.
	moved = 1.1
)

func (r *run) recall(ctx context.Context) error {
	h, ok := r.h.(Calibrated)
	if !ok {
		return nil
	}
	c, err := h.Calibration(ctx, r.g.Model, r.g.Endpoint)
	if err != nil {
		return err
	}
	r.known = c
	if c.Window > 0 && (r.window <= 0 || c.Window < r.window) {
		r.window = c.Window
	}
	if c.Factor > 0 {
		r.factor = min(max(c.Factor, minFactor), maxFactor)
	}
	return nil
}

// commit appends a calibration if the history keeps them. A failure is only reported as
// an event: it must not lose an answer or stop a request.
func (r *run) commit(ctx context.Context, c transcript.Calibration) {
	if _, keeps := r.h.(Calibrated); !keeps || c.IsZero() {
		return
	}
	c, err := r.append(ctx, c)
	r.tell(ctx, Event{Kind: EventLearned, Learned: c, Before: r.size, Err: err})
}

func (r *run) append(ctx context.Context, c transcript.Calibration) (appended transcript.Calibration, err error) {
	c.Model, c.Endpoint = r.g.Model, r.g.Endpoint
	if _, err = r.h.Append(context.WithoutCancel(ctx), c); err == nil {
		r.known = r.known.Merge(c)
	}
	return c, err
}

// learn derives limits from a refusal, and the ratio of the provider's count to the
// estimate.
func (r *run) learn(ctx context.Context, o Overflow) {
	switch {
	case o.Rule == manySides:
		r.commit(ctx, transcript.Calibration{Images: manyImages})
	case o.Refused == "count":
		r.commit(ctx, transcript.Calibration{Images: o.Limit})
	case o.Refused == "side":
		r.commit(ctx, transcript.Calibration{Side: o.Limit})
	}
	if !o.Kind.IsOverflow() || o.Kind == Bytes || o.Kind == Messages || o.Rule == estimated {
		return // the limit is not a window
	}
	var c transcript.Calibration
	if o.Rule == planWindow {
		if o.Limit > 0 && (r.window <= 0 || o.Limit < r.window) {
			r.window = o.Limit // for this Do only: plans change
		}
		return
	}
	if o.Limit > 0 && (r.window <= 0 || o.Limit < r.window) {
		if r.believes(o) {
			c.Window = o.Limit
		}
		r.window = o.Limit
	}
	prompt, bound := o.Prompt, o.AtLeast
	if prompt == 0 && o.Kind == Tokens {
		prompt, bound = r.window, true // the prompt is longer than the window
	}
	if prompt > 0 && r.size > 0 && (!bound || r.expected() < prompt) {
		r.counted = min(max(float64(prompt)/float64(r.size), 0.4), 2.5)
		if !bound {
			c.Factor, c.Prompt = r.refit(prompt, true)
		}
	}
	r.commit(ctx, c)
}

// believes reports whether the limit in an overflow is worth keeping. Errors contain
// other figures, and a misread one would make every later request small. Therefore the
// error must also name a plausible size above the limit, or the limit must be near the
// expected prompt or window.
func (r *run) believes(o Overflow) bool {
	const far = 4
	size := r.expected()
	named := o.Prompt >= size/far && addSizes(o.Prompt, o.Output) > o.Limit
	return named || o.Rule == frontDropped || o.Limit >= max(size, r.g.Window)/far
}

// mirrored reports whether a count only repeats the estimate. Some servers count
// nothing.
func (r *run) mirrored(prompt int) bool {
	return prompt == r.size || prompt == int(float64(r.size)*r.factor)
}

// calibrate compares the estimate of the answered request with the provider's count;
// force is for refit.
func (r *run) calibrate(prompt int, force bool) (c transcript.Calibration) {
	if !r.mirrored(prompt) && prompt != r.known.Prompt { // the same count twice also comes from a server that counts nothing
		c.Factor, c.Prompt = r.refit(prompt, force)
	}
	return c
}

// refit returns the factor that a provider's count suggests, and the count. It returns
// 0 if the factor is too near the current one, or the count is unreliable. With force,
// even a small rise of the factor counts.
func (r *run) refit(prompt int, force bool) (factor float64, from int) {
	if prompt < fewTokens || r.size < fewTokens {
		return 0, 0
	}
	f := float64(prompt) / float64(r.size)
	if f < minFactor || r.media() > r.size/10 {
		return 0, 0 // the prompt was cut, or images make the estimate a guess
	}
	f = min(f, maxFactor)
	if f < r.factor {
		f = (f + r.factor) / 2
		if f*moved > r.factor {
			return 0, 0
		}
	} else if f < r.factor*moved && (!force || f <= r.factor) {
		return 0, 0
	}
	return math.Round(f*1000) / 1000, prompt
}

// media estimates the tokens of the images and documents in the request.
func (r *run) media() int {
	var found []transcript.Block
	for _, m := range findMedia(r.request.Messages) {
		found = append(found, m.blocks...)
	}
	if len(found) == 0 {
		return 0 // a Counter may ask a provider, which takes no empty message
	}
	return Need{Counter: r.g.Counter}.size(found...)
}
