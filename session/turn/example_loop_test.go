package turn_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"sync"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/guard/httpclient"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// An agent is a whole loop: it streams, runs tools, waits for persons, and stops.
type agent struct {
	guard *guard.Guard // the system prompt, the tools and the window; nil has none
	model *httpclient.Client
	run   turn.Tool
	show  func(text string) // nil shows nothing
}

var errStopped = errors.New("stopped by the user")

// reply answers a line of the user. Without one it continues: after a restart, a decision
// or a late result.
func (a agent) reply(ctx context.Context, s *session.Session, line string) (rebuild.Wait, error) {
	t, err := turn.Begin(ctx, s) // waits for other turns, and stores the text of a killed one
	if err != nil {
		return "", err
	}
	defer func() { _ = t.End() }()
	if line != "" {
		if _, err := s.Append(ctx, transcript.UserText(line)); err != nil {
			return "", err
		}
	}
	ctx, stop := context.WithCancelCause(ctx) // a button of this process calls stop(errStopped)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop(nil)
	last, err := lastEntry(ctx, s)
	if err != nil {
		return "", err
	}
	watch.Go(func() { // a button of another process appends an Interrupt with By
		for e, err := range s.Follow(ctx, last) {
			if i, ok := e.Body.(transcript.Interrupt); err == nil && ok && i.Ended == "" {
				stop(errStopped)
			}
		}
	})
	wait, err := a.work(ctx, t, s)
	if errors.Is(context.Cause(ctx), errStopped) { // after each stop, with or without a text
		_, err = s.Append(context.WithoutCancel(ctx), transcript.Interrupt{Ended: "stopped"})
	}
	return wait, err
}

// lastEntry returns the ID of the last entry, from which reply follows the session.
func lastEntry(ctx context.Context, s *session.Session) (string, error) {
	for rec, err := range s.Scan(ctx, session.ScanOptions{Backward: true}) {
		return rec.Entry.ID, err
	}
	return s.Ref().ID, nil
}

// work asks the model and runs tools until it has answered without calls, or a call waits.
// The caller holds the turn t.
func (a agent) work(ctx context.Context, t *turn.Turn, s *session.Session) (rebuild.Wait, error) {
	for late := 0; ; { // the number of calls that waited when the model was asked
		pending, err := s.Pending(ctx)
		if err != nil {
			return "", err
		}
		for _, c := range pending.Calls {
			switch {
			case c.State == rebuild.Dispatched && c.Call.Name != "book_hotel": // a dead process has started it
				_, err = s.Append(ctx, transcript.ToolError(c.Call.ID, "It may have run. Check before you call it again."))
			case c.State == rebuild.NotStarted && c.Call.Name == "pay": // the policy, before each RunTools
				err = turn.Decide(ctx, s, c.Entry, transcript.Hold, "policy", "it costs money")
			}
			if err != nil {
				return "", err
			}
		}
		if err := turn.RunTools(ctx, s, 4, a.run); err != nil {
			return "", err
		}
		if pending, err = s.Pending(ctx); err != nil {
			return "", err
		}
		answered := !pending.Owed || len(pending.Calls) > late       // or a call of the last answer waits
		if pending.Cut && !pending.Owed && len(pending.Calls) == 0 { // an error or a kill has cut the answer
			err := turn.Retry(ctx, s)
			if errors.Is(err, session.ErrConflict) { // a decision or a result follows it
				err = turn.Continue(ctx, s)
			}
			if err != nil {
				return "", err
			}
		} else if pending.Waits() != rebuild.WaitAnswer && pending.User == "" && answered {
			return pending.Waits(), nil // a person, a tool, or the user is next
		}
		late = len(pending.Calls)
		if _, err := t.Ask(ctx, a.guard, a.model, a.show); err != nil {
			return "", err
		}
	}
}

// offline makes a client of a scripted model.
func offline(rule guardtest.Rule) *httpclient.Client {
	client := httpclient.Messages("http://any", "key")
	client.Model, client.HTTP = "model", &http.Client{Transport: &guardtest.Model{Answer: rule}}
	return client
}

// A whole loop with approvals. It pauses at the held call, and continues after the
// decision, here or in another process.
func ExampleDecide_loop() {
	ctx := context.Background()
	s, done := load(ctx)
	defer done()
	m := offline(guardtest.When(guardtest.AfterTools, guardtest.Always(guardtest.Say("Booked and paid.")),
		guardtest.Always(guardtest.Call(guardtest.Tool("reserve", `{}`), guardtest.Tool("pay", `{}`)))))
	run := func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
		fmt.Println("running", c.Call.Name)
		return transcript.ToolResult(c.Call.ID, "done"), nil
	}

	if _, err := s.Append(ctx, transcript.UserText("Book the hotel.")); err != nil {
		log.Fatal(err)
	}
	cut := &transcript.Response{Message: transcript.AssistantText("I will"), StopReason: transcript.StopAborted}
	if _, err := s.Append(ctx, cut); err != nil { // a restart, for example
		log.Fatal(err)
	}
	g := &guard.Guard{System: "You book hotels.", Window: 200_000, Tools: []transcript.Tool{{Name: "reserve"}, {Name: "pay"}}}
	hotel := agent{g, m, run, nil}
	wait, err := hotel.reply(ctx, s, "") // at each start of the program
	fmt.Println("waits for:", wait, err)
	for a, err := range turn.Approvals(ctx, s.Store(), nil) { // the inbox
		if err != nil {
			log.Fatal(err)
		}
		if err := turn.Decide(ctx, s, a.Call.Entry, transcript.Approve, "anna", ""); err != nil {
			log.Fatal(err)
		}
	}
	wait, err = hotel.reply(ctx, s, "")
	fmt.Printf("waits for: %q %v\n", wait, err)
	// Output:
	// running reserve
	// waits for: approval <nil>
	// running pay
	// waits for: "" <nil>
}

// delegate runs a sub-agent to its end, and returns its last answer as the result of the
// call. A second run with the same call, after a kill at any point, continues the first.
func delegate(ctx context.Context, s *session.Session, c rebuild.PendingCall, a agent) (transcript.Message, error) {
	id := "sub-" + c.Entry
	sub, err := s.Store().Create(ctx, session.Key{Agent: "travel"}, &session.CreateOptions{
		ID: id, Parent: transcript.Link{Agent: s.Ref().Agent, Session: s.Ref().ID, Entry: c.Entry},
	})
	if errors.Is(err, fs.ErrExist) { // an earlier run has created it
		sub, err = s.Store().Get(ctx, session.Ref{Agent: "travel", ID: id})
	}
	if err != nil {
		return transcript.Message{}, err
	}
	tn, err := turn.Begin(ctx, sub) // so a dispatched call of it belongs to a dead process
	if err != nil {
		return transcript.Message{}, err
	}
	defer func() { _ = tn.End() }()
	task := transcript.UserText("Book the hotel.")                                 // from c.Call.Input
	if _, err := sub.AppendIf(ctx, session.Cond{Idem: "task"}, task); err != nil { // once
		return transcript.Message{}, err
	}
	if wait, err := a.work(ctx, tn, sub); err != nil {
		return transcript.Message{}, err
	} else if wait != "" { // a person decides: no result for now
		return transcript.Message{}, turn.ErrLater
	}
	history, err := sub.History(ctx)
	if err != nil {
		return transcript.Message{}, err
	}
	last := history.Messages[len(history.Messages)-1]
	return transcript.ToolResult(c.Call.ID, last.Text()), nil
}

// finish runs the sub-agents of started calls again. The turn of s is held, so no other
// process runs them.
func finish(ctx context.Context, s *session.Session, a agent) error {
	pending, err := s.Pending(ctx)
	if err != nil {
		return err
	}
	for _, c := range pending.Calls {
		if c.State != rebuild.Dispatched || c.Call.Name != "book_hotel" {
			continue
		}
		result, err := delegate(ctx, s, c, a)
		if errors.Is(err, turn.ErrLater) {
			continue // it waits still
		}
		if err != nil {
			return err
		}
		if _, err := s.Append(ctx, result); err != nil {
			return err
		}
	}
	return nil
}

// A process died after it had started the call of a sub-agent. The next one finishes the
// sub-agent, which waits for a person, and appends its answer as the result of the call.
func Example_subAgentFinished() {
	ctx := context.Background()
	s, done := load(ctx)
	defer done()
	ids, err := s.Append(ctx, transcript.UserText("I need a hotel."), calls("book_hotel"))
	if err == nil {
		err = turn.Dispatch(ctx, s, ids[len(ids)-1]) // and a kill before Create
	}
	if err != nil {
		log.Fatal(err)
	}
	m := offline(guardtest.When(guardtest.AfterTools, guardtest.Always(guardtest.Say("Booked: room 12.")),
		guardtest.Always(guardtest.Call(guardtest.Tool("pay", `{}`)))))
	pay := func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
		fmt.Println("running", c.Call.Name)
		return transcript.ToolResult(c.Call.ID, "paid"), nil
	}
	travel := agent{nil, m, pay, nil}

	tn, err := turn.Begin(ctx, s) // before Pending, until the turn ends
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = tn.End() }()
	if err := finish(ctx, s, travel); err != nil {
		log.Fatal(err)
	}
	for a, err := range turn.Approvals(ctx, s.Store(), nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(a.Session.Agent, "waits:", a.Call.Call.Name, "is", a.Call.State)
		sub, err := s.Store().Get(ctx, a.Session.Ref)
		if err == nil {
			err = turn.Decide(ctx, sub, a.Call.Entry, transcript.Approve, "anna", "")
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := finish(ctx, s, travel); err != nil {
		log.Fatal(err)
	}
	history, err := s.History(ctx)
	if err != nil {
		log.Fatal(err)
	}
	result := history.Messages[len(history.Messages)-1].Content[0].(transcript.ToolResultBlock)
	fmt.Println(result.Text())
	// Output:
	// travel waits: pay is held
	// running pay
	// Booked: room 12.
}

// The user stops an answer, from another process. The part that came stays, and the next
// start does not resume it.
func Example_stop() {
	ctx := context.Background()
	s, done := load(ctx)
	defer done()
	rule := guardtest.Always(guardtest.Say("Once upon a time."))
	a := agent{model: offline(rule)}
	a.model.HTTP.Transport.(*guardtest.Model).Pace = func(answering context.Context) error {
		_, err := s.Append(ctx, transcript.Interrupt{By: "anna"})
		<-answering.Done() // reply has noticed it
		return errors.Join(err, answering.Err())
	}
	_, err := a.reply(ctx, s, "Tell me a story.")
	fmt.Println(err)
	pending, err := s.Pending(ctx)
	fmt.Println("owed:", pending.Owed, "cut:", pending.Cut, err)
	a.model, a.show = offline(rule), func(text string) { fmt.Print(text) }
	_, err = a.reply(ctx, s, "Tell me another one.")
	fmt.Println("", err)
	// Output:
	// <nil>
	// owed: false cut: false <nil>
	// Once upon a time. <nil>
}

// A person decides about a call. A new line of the user is answered all the same, with
// the tools that its answer calls.
func Example_lineWhileCallWaits() {
	ctx := context.Background()
	s, done := load(ctx)
	defer done()
	m := offline(guardtest.Script(guardtest.Call(guardtest.Tool("pay", `{}`)),
		guardtest.Call(guardtest.Tool("look", `{}`)), guardtest.Say("It has a pool.")))
	look := func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
		return transcript.ToolResult(c.Call.ID, "a pool"), nil
	}
	a := agent{nil, m, look, func(text string) { fmt.Print(text) }}
	for _, line := range []string{"Book the hotel.", "Has it a pool?", ""} {
		wait, err := a.reply(ctx, s, line)
		fmt.Println("- waits for:", wait, err)
	}
	// Output:
	// - waits for: approval <nil>
	// It has a pool.- waits for: approval <nil>
	// - waits for: approval <nil>
}

// An answer was cut while a call waited, and then the call was approved. A retry would
// take the approval back, so the loop continues the answer.
func Example_cutWhileCallWaits() {
	ctx := context.Background()
	s, done := load(ctx)
	defer done()
	ids, err := s.Append(ctx, transcript.UserText("Book the hotel."), calls("pay"))
	if err != nil {
		log.Fatal(err)
	}
	pay := ids[len(ids)-1]
	err = turn.Decide(ctx, s, pay, transcript.Hold, "policy", "")
	cut := &transcript.Response{Message: transcript.AssistantText("It has"), StopReason: transcript.StopAborted}
	for _, item := range []transcript.Item{transcript.UserText("Has it a pool?"), cut} {
		_, appendErr := s.Append(ctx, item)
		err = errors.Join(err, appendErr)
	}
	if err := errors.Join(err, turn.Decide(ctx, s, pay, transcript.Approve, "anna", "")); err != nil {
		log.Fatal(err)
	}
	run := func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
		return transcript.ToolResult(c.Call.ID, "paid"), nil
	}
	a := agent{nil, offline(guardtest.Always(guardtest.Say("a pool."))), run, nil}
	wait, err := a.reply(ctx, s, "")
	fmt.Printf("waits for: %q %v\n", wait, err)
	history, err := s.History(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range history.Messages[3:] {
		fmt.Println(m.Text())
	}
	// Output:
	// waits for: "" <nil>
	// It has
	// Your answer was cut off. Go on exactly where it ends, and repeat nothing.
	// a pool.
}

// A process died in a tool of the sub-agent. The next one judges that call, so the
// sub-agent ends.
func Example_subAgentKilled() {
	ctx := context.Background()
	s, done := load(ctx)
	defer done()
	ids, err := s.Append(ctx, transcript.UserText("I need a hotel."), calls("book_hotel"))
	if err != nil {
		log.Fatal(err)
	}
	call := ids[len(ids)-1]
	sub, err := s.Store().Create(ctx, session.Key{Agent: "travel"}, &session.CreateOptions{ID: "sub-" + call})
	if err != nil {
		log.Fatal(err)
	}
	_, err = sub.AppendIf(ctx, session.Cond{Idem: "task"}, transcript.UserText("Book the hotel."))
	if err != nil {
		log.Fatal(err)
	}
	ids, err = sub.Append(ctx, calls("reserve"))
	if err := errors.Join(err, turn.Dispatch(ctx, s, call), turn.Dispatch(ctx, sub, ids[len(ids)-1])); err != nil {
		log.Fatal(err)
	}

	tn, err := turn.Begin(ctx, s) // the next process
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = tn.End() }()
	model := offline(guardtest.Always(guardtest.Say("The hotel may be reserved.")))
	if err := finish(ctx, s, agent{nil, model, nil, nil}); err != nil {
		log.Fatal(err)
	}
	pending, err := s.Pending(ctx)
	fmt.Println("the model answers next:", pending.Owed, "calls:", len(pending.Calls), err)
	// Output:
	// the model answers next: true calls: 0 <nil>
}
