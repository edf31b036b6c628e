// Package ask gets an answer of a model that survives a kill while it arrives.
package ask

import (
	"context"
	"errors"
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

// often limits how long a text is held back: each flush is a write and a sync.
const often = 100 * time.Millisecond

// Once asks the model within a turn and appends the answer, even one that an error or a
// stop has cut. It passes each text to show, which may be nil. A kill loses the text of
// the last 100 ms.
func Once(ctx context.Context, t *turn.Turn, s *session.Session, g *guard.Guard, m Model, show func(text string)) (*transcript.Response, error) {
	var draft *turn.Draft
	answer, err := guard.Do(ctx, g, s, func(ctx context.Context, c guard.Call) (*transcript.Response, error) {
		draft = t.Draft("", g.Model, c.Made)
		var failed error
		last := time.Now()
		answer, err := m.Stream(ctx, c.Request, func(d wire.Delta) {
			if failed != nil || d.Text == "" {
				return
			}
			failed = draft.Write(ctx, d.Text)
			if failed == nil && time.Since(last) > often {
				failed, last = draft.Flush(ctx), time.Now()
			}
			if show != nil {
				show(d.Text)
			}
		})
		return answer, errors.Join(err, failed)
	})
	save := context.WithoutCancel(ctx)
	switch {
	case answer != nil:
		_, saveErr := draft.Finish(save, answer)
		err = errors.Join(err, saveErr)
	case draft != nil: // every attempt was void
		err = errors.Join(err, draft.Discard(save))
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
