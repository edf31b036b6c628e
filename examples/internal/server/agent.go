package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/convolog/convolog/examples/internal/anthropic"
	"github.com/convolog/convolog/examples/internal/remember"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// agent answers: ask the model, run the called tools, ask again.
type agent struct {
	model *anthropic.Client
	guard *guard.Guard
}

const system = "You are a helpful assistant."

// maxRounds is the most calls of the model for one text of the user.
const maxRounds = 30

// often limits how long a text is held back: each flush is a write and a sync.
const often = 100 * time.Millisecond

func newAgent(c Config) *agent {
	model := &anthropic.Client{URL: c.URL, APIKey: os.Getenv("ANTHROPIC_API_KEY"), HTTP: http.DefaultClient}
	if c.URL == "" {
		model.URL, model.HTTP = "http://scripted.invalid", &http.Client{Transport: scripted(c.Window)}
	}
	return &agent{model, &guard.Guard{
		Model: c.Model, System: system, Tools: []transcript.Tool{clock},
		Window: c.Window, MaxOutput: min(wire.DefaultMaxOutput, c.Window/4),
		// For refused parts of a request.
		Endpoint: model.URL, Takes: wire.TakesOf(c.Model, model.URL), Format: anthropic.Format,
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
		var draft *turn.Draft
		answer, err := guard.Do(ctx, &g, s, func(ctx context.Context, c guard.Call) (*transcript.Response, error) {
			draft = t.Draft("anthropic", a.guard.Model, c.Made)
			return a.stream(ctx, c, draft)
		})
		save := context.WithoutCancel(ctx)
		switch {
		case answer != nil: // even cut by an error
			if _, saveErr := draft.Finish(save, answer); saveErr != nil {
				return errors.Join(err, saveErr)
			}
		case draft != nil: // every attempt was void
			err = errors.Join(err, draft.Discard(save))
		}
		if err != nil || len(answer.Message.ToolCalls()) == 0 {
			return err
		}
		if err := errors.Join(turn.RunTools(ctx, s, 4, runTool), ctx.Err()); err != nil {
			return err
		}
	}
	return fmt.Errorf("the model has called tools %d times", maxRounds)
}

// stream asks the model once, and keeps the arriving text in a draft, which clients
// are shown.
func (a *agent) stream(ctx context.Context, c guard.Call, draft *turn.Draft) (*transcript.Response, error) {
	var failed error
	last := time.Now()
	answer, err := a.model.Stream(ctx, c.Request, func(d wire.Delta) {
		if failed != nil || d.Text == "" {
			return
		}
		failed = draft.Write(ctx, d.Text)
		if failed == nil && time.Since(last) > often {
			failed, last = draft.Flush(ctx), time.Now()
		}
	})
	return answer, errors.Join(err, failed)
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
