package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/httpclient"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

const system = "You are a helpful assistant in a terminal. You may look at files with your tools."

// maxRounds is how often the model may ask for tools in one turn.
const maxRounds = 30

// parallel is how many tools run at the same time.
const parallel = 8

// agent is the loop around a model: ask, run the called tools, ask again.
type agent struct {
	model *httpclient.Client
	guard *guard.Guard
	tools *toolbox
	out   *terminal
}

// answer runs one turn on a session whose history ends with an unanswered
// message, and prints the answer as it comes. Each step is on disk before the
// next one, so a kill is harmless at any point.
func (a *agent) answer(ctx context.Context, s *session.Session) error {
	for range maxRounds {
		resp, err := guard.Do(ctx, a.guard, s, a.ask())
		a.out.end()
		if resp != nil {
			// Even the received part of a cancelled answer is kept.
			if _, saveErr := s.Append(context.WithoutCancel(ctx), resp); saveErr != nil {
				return errors.Join(saveErr, err)
			}
		}
		if err != nil {
			return err
		}
		if resp.StopReason == transcript.StopMaxTokens {
			a.out.note("model", "the answer was cut at its limit of %s tokens", thousands(resp.Usage.Output))
		}
		if len(resp.Message.ToolCalls()) == 0 {
			return nil
		}
		run := func(ctx context.Context, c rebuild.PendingCall) (transcript.Message, error) {
			return a.runTool(ctx, s, c.Call), nil
		}
		if err := errors.Join(turn.RunTools(ctx, s, parallel, run), ctx.Err()); err != nil {
			return err
		}
	}
	return fmt.Errorf("the model asked for tools %d times: /continue lets it continue", maxRounds)
}

// ask returns a function that calls the model for one [guard.Do] and prints.
func (a *agent) ask() func(context.Context, guard.Call) (*transcript.Response, error) {
	shown := false
	return func(ctx context.Context, c guard.Call) (*transcript.Response, error) {
		if c.Attempt > 0 {
			void := ""
			if shown {
				void = "; the answer above was cut and does not count"
			}
			a.out.note("guard", "asking again with ~%s tokens, attempt %d%s",
				thousands(a.guard.Counter.Count(c.System, c.Tools, c.Messages)), c.Attempt+1, void)
		}
		shown = false
		return a.model.Stream(ctx, c.Request, func(d wire.Delta) {
			shown = shown || d.Text != ""
			if d.Text != "" {
				a.out.stream(d.Text)
			}
		})
	}
}

// runTool runs one call: of a tool that reads the conversation, or of a tool for
// files. An error becomes a result.
func (a *agent) runTool(ctx context.Context, s *session.Session, call transcript.ToolCallBlock) transcript.Message {
	a.out.note("tool", "%s(%s)", call.Name, cut(string(call.Input), 100))
	run := func(ctx context.Context, input json.RawMessage) (string, error) {
		return a.tools.run(ctx, call.Name, input)
	}
	for _, t := range search.RecallTools(s) {
		if t.Name == call.Name {
			run = t.Call
		}
	}
	text, err := run(ctx, call.Input)
	if err != nil {
		return transcript.ToolError(call.ID, err.Error())
	}
	return transcript.ToolResult(call.ID, text)
}
