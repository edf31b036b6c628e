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
	_, err = s.Append(ctx,
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
	// clip: ~30k tokens became ~5k
	// attempt 1
	// nothing happened <nil>
}

// The note in a shortened result has the ID of the entry that holds all of it:
// enough for a tool with which the model can read a part of it again.
func ExampleClip() {
	ctx := context.Background()
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer func() { _ = store.Close() }()
	s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	if err != nil {
		log.Fatal(err)
	}
	ids, err := s.Append(ctx,
		transcript.UserText("what is in the log?"),
		transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.ToolCallBlock{ID: "call_1", Name: "read", Input: []byte(`{"path":"log"}`)},
		}},
		transcript.ToolResult("call_1", strings.Repeat("nothing happened\n", 5_000)+"it rained\n"+strings.Repeat("nothing happened\n", 5_000)),
	)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := guard.Clip().Run(ctx, s, guard.Need{Window: 20_000}); err != nil {
		log.Fatal(err)
	}

	// reload is the tool: an ID, an offset and a length in characters.
	reload := func(entry string, from, n int) string {
		for e, err := range s.Entries(ctx, "") {
			if err != nil {
				return err.Error()
			}
			if f, ok := e.Body.(transcript.MessageLine); ok && e.ID == entry && len(f.Content) == 1 {
				if r, ok := f.Content[0].(transcript.ToolResultBlock); ok {
					text := []rune(r.Text())
					from = min(max(from, 0), len(text))
					return string(text[from:min(from+max(n, 0), len(text))])
				}
			}
		}
		return "there is no such result"
	}
	h, err := s.History(ctx)
	if err != nil {
		log.Fatal(err)
	}
	result := ids[len(ids)-1]
	text := h.Messages[2].Content[0].(transcript.ToolResultBlock).Text()
	fmt.Println(strings.Contains(text, "it rained"), strings.Contains(text, "all of it is in entry "+result))
	fmt.Print(reload(result, 85_000, 10))
	// Output:
	// false true
	// it rained
}
