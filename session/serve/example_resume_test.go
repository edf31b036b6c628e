package serve_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// continueAnswers continues the answers of a killed server. Without it, Resume ends them
// as they are.
func continueAnswers(ctx context.Context, store *session.Store, respond serve.Responder) error {
	infos, err := store.List(ctx, &session.ListOptions{Waits: rebuild.WaitAny})
	if err != nil {
		return err
	}
	for _, info := range infos {
		s, err := store.Get(ctx, info.Ref)
		if err != nil {
			return err
		}
		tn, err := turn.TryBegin(ctx, s)
		if errors.Is(err, session.ErrBusy) {
			continue // another server answers
		}
		if err != nil {
			return err
		}
		pending, err := s.Pending(ctx)
		if err == nil && pending.Cut && !pending.Owed && len(pending.Calls) == 0 {
			err = turn.Continue(ctx, s) // or turn.Retry
			pending.Owed = true
		}
		if err == nil && pending.Owed && len(pending.Calls) == 0 {
			err = respond(ctx, s, tn)
		}
		if err := errors.Join(err, tn.End()); err != nil {
			return err
		}
	}
	return nil
}

// The start of a server after a kill: it continues the cut answers, then resumes.
func ExampleServer_Resume() {
	ctx := context.Background()
	store, done := open()
	defer done()
	s, err := store.Create(ctx, session.Key{Agent: "main"}, &session.CreateOptions{ID: "trip", Owner: "anna"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := s.Append(ctx, transcript.UserText("Hi.")); err != nil {
		log.Fatal(err)
	}
	tn, err := turn.Begin(ctx, s)
	if err != nil {
		log.Fatal(err)
	}
	draft := tn.Draft("", "", transcript.Made{})
	if err := errors.Join(draft.Write(ctx, "Hel"), draft.Flush(ctx), tn.End()); err != nil { // as a kill does
		log.Fatal(err)
	}

	server, err := serve.New(store, &serve.Options{
		Respond: agent,
		Auth:    serve.Keys(map[string]serve.Principal{"key of anna": {Owner: "anna"}}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close(ctx)
	if err := erase.Resume(ctx, store); err != nil {
		log.Fatal(err)
	}
	if err := continueAnswers(ctx, store, agent); err != nil {
		log.Fatal(err)
	}
	if err := server.Resume(ctx, nil); err != nil {
		log.Fatal(err)
	}
	history, err := s.History(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range history.Messages {
		fmt.Println(m.Role+":", m.Text())
	}
	// Output:
	// user: Hi.
	// assistant: Hel
	// user: Your answer was cut off. Go on exactly where it ends, and repeat nothing.
	// assistant: Hello, you.
}
