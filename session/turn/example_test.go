package turn_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A call that a person has to approve waits over restarts, and is run once.
func ExampleDecide() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	key := session.Key{Agent: "main", Channel: "cli", Peer: "user"}

	// The agent: a policy holds dangerous calls; the rest would run now.
	agent := func() {
		store, err := session.Open(dir, nil)
		if err != nil {
			log.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		s, err := store.Load(ctx, key)
		if err != nil {
			log.Fatal(err)
		}
		tn, err := turn.Begin(ctx, s)
		if err != nil {
			log.Fatal(err)
		}
		defer func() { _ = tn.End() }()
		err = turn.RunTools(ctx, s, 4, func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
			fmt.Println("running", c.Call.Name)
			return transcript.ToolResult(c.Call.ID, "done"), nil
		})
		if err != nil {
			log.Fatal(err)
		}
		pending, err := s.Pending(ctx)
		if err != nil {
			log.Fatal(err)
		}
		for _, c := range pending.Calls {
			fmt.Println(c.Call.Name, "is", c.State)
		}
	}

	store, err := session.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	s, err := store.Load(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	answer := transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
		transcript.ToolCallBlock{ID: "toolu_1", Name: "drop_table", Input: []byte(`{}`)},
	}}
	ids, err := s.Append(ctx, transcript.UserText("clean up"), &transcript.Response{Message: answer})
	if err != nil {
		log.Fatal(err)
	}
	call := ids[len(ids)-1] // the entry of the call; Pending has it as well
	if err := turn.Decide(ctx, s, call, transcript.Hold, "policy", ""); err != nil {
		log.Fatal(err)
	}

	agent() // another process, or this one after a restart
	if err := turn.Decide(ctx, s, call, transcript.Approve, "anna", ""); err != nil {
		log.Fatal(err)
	}
	agent()
	if err := store.Close(); err != nil {
		log.Fatal(err)
	}

	// Output:
	// drop_table is held
	// running drop_table
}

// The inbox of a person who approves calls, over all conversations of an owner.
func ExampleApprovals() {
	ctx := context.Background()
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer func() { _ = store.Close() }()
	ada, err := store.Scope("ada")
	if err != nil {
		log.Fatal(err)
	}
	for _, tool := range []string{"drop_table", "list_tables", "send_mail"} {
		s, err := ada.Create(ctx, session.Key{Agent: "main"}, nil)
		if err != nil {
			log.Fatal(err)
		}
		answer := transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.ToolCallBlock{ID: "toolu_1", Name: tool, Input: []byte(`{}`)},
		}}
		ids, err := s.Append(ctx, transcript.UserText("use "+tool), &transcript.Response{Message: answer})
		if err == nil && tool != "list_tables" {
			err = turn.Decide(ctx, s, ids[len(ids)-1], transcript.Hold, "policy", "")
		}
		if err != nil {
			log.Fatal(err)
		}
	}

	for a, err := range turn.Approvals(ctx, ada, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s wants %s\n", a.Session.Title, a.Call.Call.Name)
	}
	// Unordered output:
	// use drop_table wants drop_table
	// use send_mail wants send_mail
}
