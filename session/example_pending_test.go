package session_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// After a restart, Pending lists the unfinished work: here a call that has no result.
func ExampleSession_Pending() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	key := session.Key{Agent: "main", Channel: "cli", Peer: "user"}

	before, err := session.Open(dir, nil) // a process that will be killed
	if err != nil {
		log.Fatal(err)
	}
	s, err := before.Load(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	_, err = s.Append(ctx,
		transcript.UserText("Compare a.go and b.go."),
		transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.ToolCallBlock{ID: "call_1", Name: "read", Input: []byte(`{"path":"a.go"}`)},
			transcript.ToolCallBlock{ID: "call_2", Name: "read", Input: []byte(`{"path":"b.go"}`)},
		}},
		transcript.ToolResult("call_1", "package a"),
	)
	if err != nil {
		log.Fatal(err)
	}

	store, err := session.Open(dir, nil) // the next process
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close(); _ = before.Close() }()
	if s, err = store.Load(ctx, key); err != nil {
		log.Fatal(err)
	}
	pending, err := s.Pending(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range pending.Calls {
		fmt.Println(c.Call.ID, c.Call.Name, c.State)
	}
	if _, err := s.Append(ctx, transcript.ToolResult("call_2", "package b")); err != nil {
		log.Fatal(err)
	}
	pending, err = s.Pending(ctx)
	fmt.Println("the model answers next:", pending.Owed, err)
	// Output:
	// call_2 read not_started
	// the model answers next: true <nil>
}

// A step of a workflow engine may run twice. With its ID as idempotency key it appends
// once, and the second run finds the stored entries.
func ExampleSession_AppendIf() {
	ctx := context.Background()
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer store.Close()
	s, err := store.Create(ctx, session.Key{}, &session.CreateOptions{ID: "order-4711"})
	if err != nil {
		log.Fatal(err)
	}
	step := func(id, text string) (entry string) { // of a workflow
		done, err := s.AppendIf(ctx, session.Cond{Idem: id}, transcript.UserText(text))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(id, "repeated:", done.Repeated)
		return done.IDs[0] // the engine keeps this, and not the conversation
	}
	first := step("activity-1", "Where is my order?")
	again := step("activity-1", "Where is my order?") // after a crash of the worker
	fmt.Println("the same entry:", first == again)
	info, err := s.Info(ctx)
	fmt.Println(info.Messages, "message", err)
	// Output:
	// activity-1 repeated: false
	// activity-1 repeated: true
	// the same entry: true
	// 1 message <nil>
}

// Send the events of a store to your metrics.
func ExampleOptions_observe() {
	ctx := context.Background()
	store := session.OpenDriver(memdriver.New(nil), &session.Options{
		Observe: func(ctx context.Context, e session.Event) context.Context {
			if e.Kind == session.EventAppend {
				fmt.Println(e.Kind, e.Session.ID, e.Entries, "entries", e.Err)
			}
			return ctx
		},
	})
	defer store.Close()
	s, err := store.Create(ctx, session.Key{}, &session.CreateOptions{ID: "one"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := s.Append(ctx, transcript.UserText("Hello."), transcript.AssistantText("Hi.")); err != nil {
		log.Fatal(err)
	}
	// Output:
	// append one 2 entries <nil>
}
