package turn_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A client streams into a draft. If the draft cannot be stored, the stream ends.
func ExampleTurn_Draft_client() {
	ctx := context.Background()
	s, done := load(ctx)
	defer done()
	client := offline(guardtest.Always(guardtest.Say("Once upon a time.")))
	t, err := turn.Begin(ctx, s)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = t.End() }()
	if _, err := s.Append(ctx, transcript.UserText("Tell me a story.")); err != nil {
		log.Fatal(err)
	}

	var draft *turn.Draft
	answer, err := guard.Do(ctx, nil, s, func(ctx context.Context, c guard.Call) (*transcript.Response, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		draft = t.Draft("anthropic", "m", c.Made)
		answer, err := client.Stream(ctx, c.Request, func(d wire.Delta) {
			if err := errors.Join(draft.Write(ctx, d.Text), draft.Flush(ctx)); err != nil {
				cancel(err) // ends the stream
				return
			}
			fmt.Print(d.Text) // it is stored
		})
		return answer, errors.Join(err, context.Cause(ctx))
	})
	fmt.Println()
	save := context.WithoutCancel(ctx)
	if answer != nil { // even cut by an error
		_, saveErr := draft.Finish(save, answer)
		err = errors.Join(err, saveErr)
	} else if draft != nil { // no part came
		err = errors.Join(err, draft.Discard(save))
	}
	fmt.Println(err)
	show(ctx, s)
	// Output:
	// Once upon a time.
	// <nil>
	// user: Tell me a story.
	// assistant: Once upon a time.
}
