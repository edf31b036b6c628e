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
	if text != "" {
		_, err = s.Append(ctx, transcript.UserText(text))
	} else {
		p, pendingErr := s.Pending(ctx)
		if err = pendingErr; err != nil || !p.Owed && !p.Cut {
			return err
		}
		a.say("Continuing the last turn.")
		if !p.Owed { // the last answer was cut
			err = turn.Continue(ctx, s)
		}
	}
	if err != nil {
		return err
	}
	if err := a.answer(ctx, t, s); err != nil {
		return err
	}
	_, err = s.AfterTurn(ctx) // compacts the history if a compaction is due
	return err
}

// answer calls the model until it calls no more tools.
func (a *agent) answer(ctx context.Context, t *turn.Turn, s *session.Session) error {
	for range maxRounds {
		resp, err := t.Ask(ctx, &a.guard, a, func(text string) { _, _ = io.WriteString(a.out, plain.Clean(text)) })
		if resp != nil && resp.Message.Text() != "" {
			_, _ = io.WriteString(a.out, "\n")
		}
		if resp == nil { // an empty answer records that the turn was not killed: see run
			resp = &transcript.Response{StopReason: transcript.StopAborted, Message: transcript.Message{Role: transcript.RoleAssistant}}
			_, saveErr := s.Append(context.WithoutCancel(ctx), resp)
			err = errors.Join(saveErr, err)
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

// Stream is the model of the conversation, for [turn.Turn.Ask].
func (a *agent) Stream(ctx context.Context, req transcript.Request, show func(wire.Delta)) (*transcript.Response, error) {
	return a.service.complete(ctx, req, false, show)
}
