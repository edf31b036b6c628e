package session_test

import (
	"context"
	"fmt"
	"log"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// A client repeats a request, because the connection was lost. The text is stored once,
// the model is asked once, and both requests get the same answer.
func ExampleSession_AppendIf_repeated() {
	ctx := context.Background()
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer store.Close()
	s, err := store.Create(ctx, session.Key{Agent: "main"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	post := func(key, text string) error {
		done, err := s.AppendIf(ctx, session.Cond{Idem: key}, transcript.UserText(text))
		if err != nil {
			return err
		}
		if !done.Repeated { // after a kill, Pending reports an answer that is still owed
			fmt.Println("the model is asked")
			if _, err := s.Append(ctx, transcript.AssistantText("Lisbon.")); err != nil {
				return err
			}
		}
		for e, err := range s.Follow(ctx, done.IDs[len(done.IDs)-1]) { // or Entries, to wait for none
			if err != nil {
				return err
			}
			if m, ok := e.Body.(transcript.MessageLine); ok && m.Role == transcript.RoleAssistant {
				fmt.Println(m.Message().Text())
				break
			}
		}
		return nil
	}
	for range 2 {
		if err := post("request-1", "Name the capital of Portugal."); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// the model is asked
	// Lisbon.
	// Lisbon.
}
