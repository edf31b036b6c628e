package turn_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// load returns a session in memory; session.Open keeps it in a folder.
func load(ctx context.Context) (*session.Session, func()) {
	store := session.OpenDriver(memdriver.New(nil), nil)
	s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	if err != nil {
		log.Fatal(err)
	}
	return s, func() { _ = store.Close() }
}

func show(ctx context.Context, s *session.Session) {
	history, err := s.History(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range history.Messages {
		fmt.Printf("%s: %s\n", m.Role, m.Text())
	}
}

// Stream an answer. The first stream fails, the second one replaces it: the history has
// one answer, and the text of the failed stream is in no request.
func ExampleTurn_Draft() {
	ctx := context.Background()
	s, done := load(ctx)
	defer done()
	t, err := turn.Begin(ctx, s) // no other turn runs on the session
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = t.End() }()
	if _, err := s.Append(ctx, transcript.UserText("Tell me a story.")); err != nil {
		log.Fatal(err)
	}

	streams := [][]string{{"Once, in a"}, {"Once upon", " a time."}} // of the provider
	var draft *turn.Draft
	answer, err := guard.Do(ctx, nil, s, func(ctx context.Context, c guard.Call) (*transcript.Response, error) {
		for try, stream := range streams { // your retries
			draft = t.Draft("anthropic", "m", c.Made) // one for each try
			var text strings.Builder
			for _, part := range stream {
				text.WriteString(part)
				if err := errors.Join(draft.Write(ctx, part), draft.Flush(ctx)); err != nil { // survives a kill
					return nil, err
				}
			}
			if try == 1 {
				return &transcript.Response{Message: transcript.AssistantText(text.String())}, nil
			}
		}
		return nil, errors.New("no more tries")
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := draft.Finish(ctx, answer); err != nil {
		log.Fatal(err)
	}
	show(ctx, s)
	// Output:
	// user: Tell me a story.
	// assistant: Once upon a time.
}

// The connection broke in an answer. Continue keeps the text, Retry takes it back.
func ExampleRetry() {
	ctx := context.Background()
	s, done := load(ctx)
	defer done()
	cut := &transcript.Response{Message: transcript.AssistantText("Once upon"), StopReason: transcript.StopAborted}
	for _, item := range []transcript.Item{transcript.UserText("Tell me a story."), cut} {
		if _, err := s.Append(ctx, item); err != nil {
			log.Fatal(err)
		}
	}
	pending, err := s.Pending(ctx)
	fmt.Println("cut:", pending.Cut, err)
	if err := turn.Retry(ctx, s); err != nil { // or turn.Continue
		log.Fatal(err)
	}
	pending, err = s.Pending(ctx)
	fmt.Println("ask again:", pending.Owed, err)
	show(ctx, s)
	// Output:
	// cut: true <nil>
	// ask again: true <nil>
	// user: Tell me a story.
}
