package turn_test

import (
	"context"
	"fmt"
	"log"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// An answer is shown while it arrives, and survives a kill.
func ExampleTurn_Ask() {
	ctx := context.Background()
	s, done := load(ctx)
	defer done()
	model := offline(guardtest.Script(guardtest.Call(guardtest.Tool("weather", `{}`)), guardtest.Say("It rains.")))
	g := &guard.Guard{System: "Be brief.", Tools: []transcript.Tool{{Name: "weather"}}}
	run := func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
		return transcript.ToolResult(c.Call.ID, "rain"), nil
	}
	t, err := turn.Begin(ctx, s)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = t.End() }()
	if _, err := s.Append(ctx, transcript.UserText("The weather?")); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		answer, err := t.Ask(ctx, g, model, func(text string) { fmt.Print(text) })
		if err != nil {
			log.Fatal(err) // the answer so far is stored
		}
		if len(answer.Message.ToolCalls()) > 0 {
			err = turn.RunTools(ctx, s, 4, run) // and ask again
		}
		fmt.Println("", err)
	}
	// Output:
	// <nil>
	// It rains. <nil>
}
