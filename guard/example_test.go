package guard_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// A model that takes 20,000 tokens, and a tool whose result is longer.
func ExampleDo() {
	ctx := context.Background()
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer func() { _ = store.Close() }()
	s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	if err != nil {
		log.Fatal(err)
	}
	_, err = s.SaveTurn(ctx,
		transcript.UserText("what is in the log?"),
		transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.ToolCallBlock{ID: "call_1", Name: "read", Input: []byte(`{"path":"log"}`)},
		}},
		transcript.ToolResult("call_1", strings.Repeat("nothing happened\n", 10_000)),
	)
	if err != nil {
		log.Fatal(err)
	}

	g := &guard.Guard{System: "Be brief.", Observe: func(_ context.Context, e guard.Event) {
		if e.Kind == guard.EventStage {
			fmt.Printf("%s: ~%dk tokens became ~%dk\n", e.Stage, e.Before/1000, e.After/1000)
		}
	}}
	answer, err := guard.Do(ctx, g, s, func(_ context.Context, c guard.Call) (string, error) {
		fmt.Println("attempt", c.Attempt)
		if size := len(c.Messages[2].Content[0].(transcript.ToolResultBlock).Text()); size > 100_000 {
			return "", errors.New("400 invalid_request_error: prompt is too long: 37514 tokens > 20000 maximum")
		}
		return "nothing happened", nil
	})
	fmt.Println(answer, err)
	// Output:
	// attempt 0
	// clip: ~41k tokens became ~5k
	// attempt 1
	// nothing happened <nil>
}
