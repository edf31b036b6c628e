package turn

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/transcript"
)

// A Model streams its answers, such as a Client of package httpclient.
type Model interface {
	// Stream calls show for each piece of the answer. If an error cuts the answer, it
	// returns the received part with the error, and nil without a part.
	Stream(ctx context.Context, req transcript.Request, show func(wire.Delta)) (*transcript.Response, error)
}

// often is the time between two flushes of Ask: each is a write and a sync.
const often = 250 * time.Millisecond

// Ask calls the model by [guard.Do] and appends its answer, even one that an error or a
// stop has cut. It passes each text to show, which may be nil, and keeps it in a [Draft]:
// a kill loses the text of the last 250 ms. If the draft cannot be stored, Ask ends the
// call. The answer is nil if no part of it came. If the answer could not be appended, Ask
// returns that error alone.
//
// Ask runs no tools: after a nil error, run the calls of the answer by [RunTools] and ask
// again.
func (t *Turn) Ask(ctx context.Context, g *guard.Guard, m Model, show func(text string)) (*transcript.Response, error) {
	var draft *Draft
	answer, err := guard.Do(ctx, g, t.s, func(ctx context.Context, c guard.Call) (*transcript.Response, error) {
		draft = t.Draft("", c.Model, c.Made)
		return draft.receive(ctx, c.Request, m, show)
	})
	save := context.WithoutCancel(ctx)
	switch {
	case answer != nil:
		if _, failed := draft.Finish(save, answer); failed != nil {
			err = failed // not a stop, whose answer is kept
		}
	case draft != nil: // every attempt was void
		err = errors.Join(err, draft.Discard(save))
	}
	return answer, err
}

// receive flushes the text of the answer, even while no more arrives. A failed flush ends
// the call: a text that is not stored should neither be shown nor paid for.
func (d *Draft) receive(ctx context.Context, req transcript.Request, m Model, show func(text string)) (*transcript.Response, error) {
	ctx, stop := context.WithCancelCause(ctx)
	var mu sync.Mutex // a draft is for one goroutine
	store := func(do func() error) {
		mu.Lock()
		defer mu.Unlock()
		if err := do(); err != nil {
			stop(err)
		}
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop(nil)
	wg.Go(func() {
		for tick := time.Tick(often); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick:
				store(func() error { return d.Flush(ctx) })
			}
		}
	})
	answer, err := m.Stream(ctx, req, func(piece wire.Delta) {
		if piece.Text == "" {
			return
		}
		store(func() error { return d.Write(ctx, piece.Text) })
		if show != nil && ctx.Err() == nil {
			show(piece.Text)
		}
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return answer, err
}
