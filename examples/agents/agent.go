package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/convolog/convolog/examples/internal/plain"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// maxRounds is how often the model may call tools in one turn.
const maxRounds = 50

// parallel is the number of tools that run at the same time.
const parallel = 8

// agent is the loop around a model: call the model, run its tools, call the model again.
type agent struct {
	config
	service service
	guard   guard.Guard
	out     io.Writer // used by one goroutine
}

// turn answers a text. With an empty text it continues an unanswered turn. Each step
// is on disk before the next step begins, so a kill loses no finished step.
func (a *agent) turn(ctx context.Context, s *session.Session, text string) error {
	t, err := turn.TryBegin(ctx, s) // one turn at a time, over all processes
	if err != nil {
		return err
	}
	defer func() { _ = t.End() }() // the end of the process also ends the turn
	if text == "" {
		p, err := s.Pending(ctx)
		if err != nil || !p.Owed {
			return err
		}
		a.say("Continuing the last turn.")
	} else if _, err := s.Append(ctx, transcript.UserText(text)); err != nil {
		return err
	}
	if err := a.answer(ctx, s); err != nil {
		return err
	}
	_, err = s.AfterTurn(ctx) // compacts the history if a compaction is due
	return err
}

// answer calls the model until it calls no more tools.
func (a *agent) answer(ctx context.Context, s *session.Session) error {
	for range maxRounds {
		resp, err := guard.Do(ctx, &a.guard, s, a.ask)
		// The received part of a cut answer is kept. An empty answer records that
		// the turn failed or was cancelled, and was not killed: see run.
		if resp == nil {
			resp = &transcript.Response{StopReason: transcript.StopAborted, Message: transcript.Message{Role: transcript.RoleAssistant}}
		}
		if _, saveErr := s.Append(context.WithoutCancel(ctx), resp); saveErr != nil {
			return errors.Join(saveErr, err)
		}
		if err != nil {
			return err
		}
		switch resp.StopReason {
		case transcript.StopEndTurn, transcript.StopToolUse, transcript.StopSequence:
		default:
			a.say("The answer ended early: %s.", resp.StopReason)
		}
		calls := resp.Message.ToolCalls()
		if len(calls) == 0 {
			return nil
		}
		for _, call := range calls {
			a.say("[%s %.100s]", call.Name, call.Input)
		}
		run := func(ctx context.Context, c rebuild.PendingCall) (transcript.Message, error) {
			return a.runTool(ctx, s, c.Call), nil
		}
		if err := turn.RunTools(ctx, s, parallel, run); err != nil {
			return err
		}
	}
	return fmt.Errorf("the model asked for tools %d times: an empty line lets it continue", maxRounds)
}

// ask calls the model once, and shows its answer as it arrives.
func (a *agent) ask(ctx context.Context, call guard.Call) (*transcript.Response, error) {
	if call.Attempt > 0 {
		a.say("The request did not fit (%s) and is sent again; the answer shown so far is void.", call.Overflow.Kind)
	}
	resp, err := a.service.complete(ctx, call.Request, false, func(d wire.Delta) {
		_, _ = io.WriteString(a.out, plain.Clean(d.Text))
	})
	if resp != nil && resp.Message.Text() != "" {
		_, _ = io.WriteString(a.out, "\n")
	}
	return resp, err
}
