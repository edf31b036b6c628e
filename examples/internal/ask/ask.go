// Package ask gets an answer of a model that survives a kill while it arrives.
package ask

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A Model is a client of a service, such as an [httpclient.Client], or a script.
//
// [httpclient.Client]: https://pkg.go.dev/github.com/convolog/convolog/guard/httpclient#Client
type Model interface {
	Stream(ctx context.Context, req transcript.Request, show func(wire.Delta)) (*transcript.Response, error)
}

// often is the time between two flushes: each is a write and a sync.
const often = 250 * time.Millisecond

// Once asks the model within a turn and appends the answer, even one that an error or a
// stop has cut. It passes each text to show, which may be nil. A kill loses the text of
// the last 250 ms. If the answer could not be appended, Once returns that error alone.
func Once(ctx context.Context, t *turn.Turn, s *session.Session, g *guard.Guard, m Model, show func(text string)) (*transcript.Response, error) {
	var draft *turn.Draft
	answer, err := guard.Do(ctx, g, s, func(ctx context.Context, c guard.Call) (*transcript.Response, error) {
		draft = t.Draft("", g.Model, c.Made)
		return stream(ctx, draft, m, c.Request, show)
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

// stream asks the model and flushes the text into the draft, even while no more arrives. A
// failed flush ends the call: a text that is not stored should neither be shown nor paid for.
func stream(ctx context.Context, draft *turn.Draft, m Model, req transcript.Request, show func(text string)) (*transcript.Response, error) {
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
				store(func() error { return draft.Flush(ctx) })
			}
		}
	})
	answer, err := m.Stream(ctx, req, func(d wire.Delta) {
		if d.Text == "" {
			return
		}
		store(func() error { return draft.Write(ctx, d.Text) })
		if show != nil && ctx.Err() == nil {
			show(d.Text)
		}
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return answer, err
}

// Recover makes the text of a killed turn a part of the history, unless another program
// runs a turn. The next turn does the same.
func Recover(ctx context.Context, s *session.Session) error {
	t, err := turn.TryBegin(ctx, s)
	if errors.Is(err, session.ErrBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	return t.End()
}
