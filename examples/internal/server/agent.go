package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/convolog/convolog/examples/internal/remember"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/guard/httpclient"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// agent answers: ask the model, run the called tools, ask again.
type agent struct {
	model *httpclient.Client
	guard *guard.Guard
}

const system = "You are a helpful assistant."

// maxRounds is the most calls of the model for one text of the user.
const maxRounds = 30

func newAgent(c Config) *agent {
	url := cmp.Or(c.URL, "http://scripted.invalid")
	model := httpclient.Messages(url, os.Getenv("ANTHROPIC_API_KEY"))
	if c.URL == "" {
		model.HTTP = &http.Client{Transport: scripted(c.Window)}
	}
	return &agent{model, &guard.Guard{
		Model: c.Model, System: system, Tools: []transcript.Tool{clock},
		Window: c.Window, MaxOutput: min(wire.DefaultMaxOutput, c.Window/4),
		// For refused parts of a request.
		Endpoint: url, Takes: wire.TakesOf(c.Model, url), Format: model.Format,
	}}
}

// respond is a serve.Responder.
func (a *agent) respond(ctx context.Context, s *session.Session, t *turn.Turn) error {
	prompt, err := serve.TurnPrompt(ctx, s)
	if err != nil {
		return err
	}
	g := *a.guard
	if prompt != "" {
		g.System += "\n\n" + prompt
	}
	for range maxRounds {
		answer, err := t.Ask(ctx, &g, a.model, nil) // clients are shown the draft
		if err != nil || len(answer.Message.ToolCalls()) == 0 {
			return err
		}
		if err := errors.Join(turn.RunTools(ctx, s, 4, runTool), ctx.Err()); err != nil {
			return err
		}
	}
	return fmt.Errorf("the model has called tools %d times", maxRounds)
}

// clock is the one tool.
var clock = transcript.Tool{Name: "current_time", Description: "Tell the time, in UTC.", InputSchema: []byte(`{"type":"object","properties":{}}`)}

func runTool(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
	if c.Call.Name != clock.Name {
		return transcript.Message{}, fmt.Errorf("there is no tool %s", c.Call.Name)
	}
	return transcript.ToolResult(c.Call.ID, time.Now().UTC().Format(time.RFC1123)), nil
}

// scripted is a model that needs no network. It refuses every request that the real
// service would refuse.
func scripted(window int) *guardtest.Model {
	answer := func(r guardtest.Request) guardtest.Answer {
		switch results := r.Results(); {
		case len(r.Tools) == 0 && strings.Contains(r.UserText(), "</conversation>"):
			return guardtest.Say(remember.Candidates(r.UserText()))
		case r.UserText() == "" && len(results) > 0:
			return guardtest.Say("It is " + results[0].Text() + ".")
		case r.UserText() == "time" && len(r.Tools) > 0:
			return guardtest.Call(guardtest.Tool(clock.Name, `{}`))
		case r.UserText() == "page":
			return guardtest.Say("You look at:" + strings.TrimPrefix(r.System, system))
		}
		return guardtest.Say(fmt.Sprintf("You said %q, and this is a script that answers slowly enough to be killed while it does. Say time to see it call a tool.", r.UserText()))
	}
	pace := func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
			return nil
		}
	}
	return &guardtest.Model{Window: window, Answer: answer, Pace: pace}
}
