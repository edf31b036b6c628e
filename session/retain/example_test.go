package retain_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// Keep it for 30 days: sessions idle for so long are archived, and could be
// deleted in the same way.
func ExampleApply() {
	ctx := context.Background()
	now := time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	store := session.OpenDriver(memdriver.New(nil), &session.Options{Now: clock})
	defer store.Close()
	for _, id := range []string{"november-1", "november-13", "november-25", "december-7"} { // or session.Open, and time
		s, err := store.Create(ctx, session.Key{Agent: "main", Channel: "web", Peer: id}, &session.CreateOptions{ID: id})
		if err != nil {
			log.Fatal(err)
		}
		if _, err := s.Append(ctx, transcript.UserText("Hello from "+id)); err != nil {
			log.Fatal(err)
		}
		now = now.AddDate(0, 0, 12)
	}
	now = now.AddDate(0, 0, -11) // December 8

	plan, err := retain.Preview(ctx, store, retain.Policy{
		Default: 30 * 24 * time.Hour, // with Delete, they go for good
		Now:     clock,               // or nothing
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, item := range plan.Items {
		fmt.Println("planned:", item.ID, item.Why, item.Expires.Format(time.DateOnly))
	}
	report, err := retain.Apply(ctx, store, plan)
	if err != nil {
		log.Fatal(err)
	}
	for _, item := range report.Items {
		fmt.Println("applied:", item.ID, item.Outcome)
	}
	for hit, err := range search.Store(ctx, store, search.Query{Text: "hello", Sessions: session.ListOptions{State: session.Archived}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("found:  ", hit.Excerpt)
	}
	fmt.Println("restore:", store.SetState(ctx, session.Ref{Agent: "main", ID: "november-1"}, session.Live, -1))
	// Output:
	// planned: november-1 ttl 2026-12-01
	// applied: november-1 done
	// found:   Hello from november-1
	// restore: <nil>
}
