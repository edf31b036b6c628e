package guard

import (
	"context"
	"math"

	"github.com/convolog/convolog/transcript"
)

// A Do learns about a model from the provider's own figures. Between calls it
// keeps only the entries that it commits, so the transcript alone decides the
// bytes of a request.
const (
	// fewTokens is the size below which a prompt proves nothing about
	// estimates.
	fewTokens = 1024

	// The factor is not believed outside of these bounds. No vocabulary is that
	// far from the estimate on a whole conversation.
	minFactor, maxFactor = 0.5, 2.5

	// moved is by how much a factor must be off to be committed again. It goes
	// up at once and down by half of the way, when that is as far.
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

// commit appends a calibration if the history keeps them. A failure must not
// lose an answer or refuse a request.
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

// learn derives the window, and the ratio of the provider's count to the
// estimate, from a refusal.
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
		return // its limit is not a window
	}
	var c transcript.Calibration
	if o.Rule == planWindow {
		if o.Limit > 0 && (r.window <= 0 || o.Limit < r.window) {
			r.window = o.Limit // for now: plans change
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
		prompt, bound = r.window, true // it is more than that
	}
	if prompt > 0 && r.size > 0 && (!bound || r.expected() < prompt) {
		r.counted = min(max(float64(prompt)/float64(r.size), 0.4), 2.5)
		if !bound {
			c.Factor, c.Prompt = r.refit(prompt, true)
		}
	}
	r.commit(ctx, c)
}

// believes reports whether the limit in an overflow is worth keeping. Errors
// contain other figures, and a misread one would make every later request
// small. So the error must also name the size that exceeded the limit, or the
// limit must be near the assumed window.
func (r *run) believes(o Overflow) bool {
	const far = 4
	size := r.expected()
	named := o.Prompt >= size/far && addSizes(o.Prompt, o.Output) > o.Limit
	return named || o.Rule == frontDropped || o.Limit >= max(size, r.g.Window)/far
}

// mirrored reports whether a count only repeats a number sent or estimated:
// there are servers that count nothing.
func (r *run) mirrored(prompt int) bool {
	return prompt == r.size || prompt == int(float64(r.size)*r.factor)
}

// calibrate compares the estimate of the request that was answered with what
// the provider has counted.
func (r *run) calibrate(prompt int, force bool) (c transcript.Calibration) {
	if !r.mirrored(prompt) && prompt != r.known.Prompt { // a repeated number is also from a server that counts nothing
		c.Factor, c.Prompt = r.refit(prompt, force)
	}
	return c
}

// refit returns the factor that a count of the provider's speaks for, or 0 if
// it is too near to the one in force, or no count to rely on.
func (r *run) refit(prompt int, force bool) (factor float64, from int) {
	if prompt < fewTokens || r.size < fewTokens {
		return 0, 0
	}
	f := float64(prompt) / float64(r.size)
	if f < minFactor || r.media() > r.size/10 {
		return 0, 0 // a prompt that was cut; a guess about images
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

// media is what the images and documents of the request count for.
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
