package session_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// Show a conversation while it grows. The ID of the last entry shown is all that
// a viewer must keep in order to continue after a restart.
func ExampleSession_Follow() {
	ctx := context.Background()
	store := session.OpenDriver(memdriver.New(nil), nil) // or session.Open, in any process
	defer store.Close()
	s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	if err != nil {
		log.Fatal(err)
	}
	go func() { // another user
		_, _ = s.Append(ctx, transcript.UserText("What is on the list?"))
		_, _ = s.Append(ctx, transcript.AssistantText("Milk."))
	}()

	// From after the header; after a restart, from the ID of the last entry shown.
	for e, err := range s.Follow(ctx, s.Ref().ID) {
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Println("deleted")
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		f, ok := e.Body.(transcript.MessageLine)
		if !ok {
			continue
		}
		fmt.Printf("%s: %s\n", f.Role, f.Message().Text())
		if f.Role == transcript.RoleAssistant {
			break // a viewer would stay
		}
	}
	// Output:
	// user: What is on the list?
	// assistant: Milk.
}

// Keep a list of sessions up to date.
func ExampleStore_Follow() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer store.Close()

	for ref, err := range store.Follow(ctx) {
		switch {
		case errors.Is(err, context.Canceled):
			return
		case err != nil:
			log.Fatal(err)
		case ref == session.Ref{}: // at first, and when much has changed
			infos, err := store.List(ctx, nil)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(len(infos), "sessions")
			if _, err := store.Create(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"}, &session.CreateOptions{ID: "new"}); err != nil {
				log.Fatal(err)
			}
		default:
			fmt.Println("changed:", ref.ID)
			cancel()
		}
	}
	// Output:
	// 0 sessions
	// changed: new
}
