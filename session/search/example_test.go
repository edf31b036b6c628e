package search_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// Find a text, even after a summary replaced it.
func ExampleStore() {
	ctx := context.Background()
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer func() { _ = store.Close() }()
	s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := s.Append(ctx,
		transcript.UserText("The offsite is in Porto, from 14 to 16 May."), transcript.AssistantText("Noted: Porto, in May.")); err != nil {
		log.Fatal(err)
	}
	for hit, err := range search.Store(ctx, store, search.Query{Text: `porto "14 to 16"`, Sessions: session.ListOptions{Key: session.Key{Agent: "main"}}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s[%s]%s\n", hit.Role, hit.Excerpt[:hit.Start], hit.Excerpt[hit.Start:hit.End], hit.Excerpt[hit.End:])
	}
	// Output:
	// user: The offsite is in [Porto], from 14 to 16 May.
}

// Offer a model the tools that read entries missing from its history.
func ExampleRecallTools() {
	ctx := context.Background()
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer func() { _ = store.Close() }()
	s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	if err != nil {
		log.Fatal(err)
	}
	tools := search.RecallTools(s)
	var offered []transcript.Tool // for guard.Guard, or a request of your own
	for _, t := range tools {
		offered = append(offered, t.Tool)
	}
	fmt.Println(offered[0].Name, offered[1].Name, offered[2].Name)
	text, err := tools[0].Call(ctx, json.RawMessage(`{"query":"offsite"}`)) // as in RunTools
	fmt.Println(text, err)
	// Output:
	// recall_search recall_window recall_read
	// Nothing that is no longer shown has any of these words. Try others. <nil>
}
