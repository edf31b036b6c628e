package session_test

import (
	"context"
	"fmt"
	"log"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// Branch from here: a second conversation begins as the first one was after an
// answer, and each continues alone.
func ExampleSession_Fork() {
	ctx := context.Background()
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer store.Close()
	s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	if err != nil {
		log.Fatal(err)
	}
	ids, err := s.Append(ctx, transcript.UserText("Where shall we go?"), transcript.AssistantText("North or south."))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := s.Append(ctx, transcript.UserText("North.")); err != nil {
		log.Fatal(err)
	}

	branch, err := s.Fork(ctx, ids[1], &session.CreateOptions{Title: "the other way"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := branch.Append(ctx, transcript.UserText("South.")); err != nil {
		log.Fatal(err)
	}
	for _, one := range []*session.Session{s, branch} {
		history, err := one.History(ctx)
		if err != nil {
			log.Fatal(err)
		}
		for _, m := range history.Messages {
			fmt.Printf("%s: %s\n", m.Role, m.Text())
		}
	}
	forks, err := store.List(ctx, &session.ListOptions{Base: s.Ref()})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(forks), "fork:", forks[0].Title)
	// Output:
	// user: Where shall we go?
	// assistant: North or south.
	// user: North.
	// user: Where shall we go?
	// assistant: North or south.
	// user: South.
	// 1 fork: the other way
}
