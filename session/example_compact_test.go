package session_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// AfterTurn replaces older messages by a summary once a prompt would pass the limit.
// Code carries the user's words over, and the transcript keeps every message.
func ExampleSession_AfterTurn() {
	ctx := context.Background()
	store := session.OpenDriver(memdriver.New(nil), &session.Options{Compact: compact.Options{
		Trigger: compact.Trigger{Window: 20_000, Share: 0.5}, // half of the model's window
		// Without a Summarizer, such as compact.Model, the summary is an extract.
	}})
	defer store.Close()
	s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := s.Append(ctx, transcript.UserText("At most 90 euros a night, please."), transcript.AssistantText("Noted.")); err != nil {
		log.Fatal(err)
	}
	for range 6 {
		answer := strings.Repeat("The next hotel has rooms for 120 euros, with breakfast and a view of the river. ", 120)
		if _, err := s.Append(ctx, transcript.UserText("And another one?"), transcript.AssistantText(answer)); err != nil {
			log.Fatal(err)
		}
		done, err := s.AfterTurn(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if done.Entry == "" { // not due, see done.Cut.Nothing
			continue
		}
		history, err := s.History(ctx)
		if err != nil {
			log.Fatal(err)
		}
		shown := history.Messages[0].Text()
		fmt.Println("summary:", history.Compaction != nil)
		fmt.Println("carried:", strings.Contains(shown, "At most 90 euros a night"))
		break
	}
	stored := 0
	for _, err := range s.Entries(ctx, "") {
		if err != nil {
			log.Fatal(err)
		}
		stored++
	}
	fmt.Println("nothing removed:", stored > 10)
	// Output:
	// summary: true
	// carried: true
	// nothing removed: true
}
