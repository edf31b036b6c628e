package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

const system = "You are a helpful assistant in a terminal. You may look at files with your tools."

// maxRounds is how often the model may ask for tools in one turn.
const maxRounds = 30

// agent is the loop around a model: ask, run the tools it calls, ask again.
type agent struct {
	model *client
	tools *toolbox
}

// answer runs one turn on a session whose history ends with what is to be
// answered, and prints it as it comes. Whatever happens is on disk before the
// next step begins, so it can be killed at any point.
func (a *agent) answer(ctx context.Context, s *session.Session, out io.Writer) error {
	for range maxRounds {
		h, err := s.History(ctx)
		if err != nil {
			return err
		}
		resp, err := a.model.complete(ctx, transcript.Request{
			System: joinSystem(h.System), Messages: h.Messages, Tools: toolDefinitions,
		}, func(d wire.Delta) {
			_, _ = io.WriteString(out, clean(d.Text))
		})
		if resp != nil {
			// A cancelled answer is kept too, as far as it came.
			if resp.Message.Text() != "" {
				_, _ = io.WriteString(out, "\n")
			}
			if _, saveErr := s.Append(context.WithoutCancel(ctx), resp); saveErr != nil {
				return errors.Join(saveErr, err)
			}
		}
		if err != nil {
			return err
		}
		calls := resp.Message.ToolCalls()
		if len(calls) == 0 {
			return nil
		}
		if err := a.runTools(ctx, s, calls, out); err != nil {
			return err
		}
	}
	return fmt.Errorf("the model asked for tools %d times: /continue lets it go on", maxRounds)
}

// runTools runs the calls of one answer at the same time and saves each result
// when it is there.
func (a *agent) runTools(ctx context.Context, s *session.Session, calls []transcript.ToolCallBlock, out io.Writer) error {
	errs := make([]error, len(calls))
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() {
			_, _ = fmt.Fprintf(out, "  [tool] %s(%s)\n", call.Name, cut(string(call.Input), 100))
			var result transcript.Message
			if text, err := a.tools.run(ctx, call.Name, call.Input); err != nil {
				result = transcript.ToolError(call.ID, err.Error())
			} else {
				result = transcript.ToolResult(call.ID, text)
			}
			_, errs[i] = s.Append(context.WithoutCancel(ctx), result)
		})
	}
	wg.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

// joinSystem puts the system prefix of a history behind the prompt.
func joinSystem(prefix string) string {
	if prefix == "" {
		return system
	}
	return system + "\n\n" + prefix
}
