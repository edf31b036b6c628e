package turn_test

import (
	"context"
	"fmt"
	"log"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// calls is an answer with calls of tools.
func calls(names ...string) *transcript.Response {
	m := transcript.Message{Role: transcript.RoleAssistant}
	for _, name := range names {
		m.Content = append(m.Content, transcript.ToolCallBlock{ID: "call_" + name, Name: name, Input: []byte(`{}`)})
	}
	return &transcript.Response{Message: m}
}

// A process died while it ran the tool charge. After the restart the other calls run, and
// the application decides about this one.
func ExampleRunTools() {
	ctx := context.Background()
	s, done := load(ctx)
	defer done()
	ids, err := s.Append(ctx, transcript.UserText("Charge the customer and write the letter."), calls("charge", "letter"))
	if err != nil {
		log.Fatal(err)
	}
	charge := ids[len(ids)-2]
	if err := turn.Dispatch(ctx, s, charge); err != nil { // as RunTools does before it starts a tool
		log.Fatal(err)
	}

	// The next process.
	tn, err := turn.Begin(ctx, s) // no other process runs the turn
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = tn.End() }()
	err = turn.RunTools(ctx, s, 4, func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
		return transcript.ToolResult(c.Call.ID, c.Call.Name+" is done"), nil
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
		result := transcript.ToolError(c.Call.ID, "It may have run. Check the account before you charge again.")
		if _, err := s.Append(ctx, result); err != nil {
			log.Fatal(err)
		}
	}
	history, err := s.History(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, b := range history.Messages[2].Content {
		fmt.Println(b.(transcript.ToolResultBlock).Text())
	}
	// Output:
	// charge is dispatched
	// It may have run. Check the account before you charge again.
	// letter is done
}

// A sub-agent works in a session of its own. It waits for a person, so its result comes
// later, perhaps from another process.
func Example_subAgent() {
	ctx := context.Background()
	s, done := load(ctx)
	defer done()
	store := s.Store()
	if _, err := s.Append(ctx, transcript.UserText("Book the hotel."), calls("book_hotel")); err != nil {
		log.Fatal(err)
	}
	delegate := func(ctx context.Context, c rebuild.PendingCall) (transcript.Message, error) {
		sub, err := store.Create(ctx, session.Key{Agent: "travel"}, &session.CreateOptions{
			ID:     "sub-" + c.Entry, // a second start fails and makes no second booking
			Parent: transcript.Link{Agent: s.Ref().Agent, Session: s.Ref().ID, Entry: c.Entry},
		})
		if err != nil {
			return transcript.Message{}, err
		}
		ids, err := sub.Append(ctx, transcript.UserText("Book the hotel."), calls("pay"))
		if err != nil {
			return transcript.Message{}, err
		}
		if err := turn.Decide(ctx, sub, ids[len(ids)-1], transcript.Hold, "policy", ""); err != nil {
			return transcript.Message{}, err
		}
		return transcript.Message{}, turn.ErrLater
	}
	if err := turn.RunTools(ctx, s, 4, delegate); err != nil {
		log.Fatal(err)
	}

	// Later: find the sub-agents of the session, let a person decide, and report.
	subs, err := store.List(ctx, &session.ListOptions{Parent: s.Ref()})
	if err != nil {
		log.Fatal(err)
	}
	for _, info := range subs {
		sub, err := store.Get(ctx, info.Ref)
		if err != nil {
			log.Fatal(err)
		}
		pending, err := sub.Pending(ctx)
		if err != nil {
			log.Fatal(err)
		}
		for _, c := range pending.Calls {
			fmt.Println(info.Agent, "waits:", c.Call.Name, "is", c.State)
			if err := turn.Decide(ctx, sub, c.Entry, transcript.Reject, "anna", "too expensive"); err != nil {
				log.Fatal(err)
			}
		}
	}
	waiting, err := s.Pending(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := s.Append(ctx, transcript.ToolResult(waiting.Calls[0].Call.ID, "Not booked: too expensive.")); err != nil {
		log.Fatal(err)
	}
	waiting, err = s.Pending(ctx)
	fmt.Println("the model answers next:", waiting.Owed, err)
	// Output:
	// travel waits: pay is held
	// the model answers next: true <nil>
}

// An inbox of one person: the held calls in all sessions of the owner.
func ExampleDecide_inbox() {
	ctx := context.Background()
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer store.Close()
	for owner, tool := range map[string]string{"anna": "send_mail", "bert": "drop_table"} {
		s, err := store.Create(ctx, session.Key{}, &session.CreateOptions{Owner: owner, Title: "Friday"})
		if err != nil {
			log.Fatal(err)
		}
		ids, err := s.Append(ctx, transcript.UserText("Go."), calls(tool))
		if err != nil {
			log.Fatal(err)
		}
		if err := turn.Decide(ctx, s, ids[len(ids)-1], transcript.Hold, "policy", "it cannot be undone"); err != nil {
			log.Fatal(err)
		}
	}

	anna, err := store.Scope("anna")
	if err != nil {
		log.Fatal(err)
	}
	infos, err := anna.List(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, info := range infos {
		s, err := anna.Get(ctx, info.Ref)
		if err != nil {
			log.Fatal(err)
		}
		pending, err := s.Pending(ctx)
		if err != nil {
			log.Fatal(err)
		}
		for _, c := range pending.Calls {
			if c.State == rebuild.Held {
				fmt.Printf("%s: %s, because %s\n", info.Title, c.Call.Name, c.Reason)
				err := turn.Decide(ctx, s, c.Entry, transcript.Approve, "anna", "")
				again := turn.Decide(ctx, s, c.Entry, transcript.Reject, "anna", "") // the first decision stands
				fmt.Println(err, again != nil)
			}
		}
	}
	// Output:
	// Friday: send_mail, because it cannot be undone
	// <nil> true
}
