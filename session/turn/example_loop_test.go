package turn_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net/http"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/guard/httpclient"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// work runs a turn until the model has answered without calls, or a call waits. The same
// function begins a turn and continues one after a restart or a decision.
func work(ctx context.Context, s *session.Session, m guard.Client, run turn.Tool) (rebuild.Wait, error) {
	for {
		pending, err := s.Pending(ctx)
		if err != nil {
			return "", err
		}
		for _, c := range pending.Calls { // the policy, before each RunTools
			if c.State == rebuild.NotStarted && c.Call.Name == "pay" {
				if err := turn.Decide(ctx, s, c.Entry, transcript.Hold, "policy", "it costs money"); err != nil {
					return "", err
				}
			}
		}
		if err := turn.RunTools(ctx, s, 4, run); err != nil {
			return "", err
		}
		if pending, err = s.Pending(ctx); err != nil {
			return "", err
		}
		if pending.Cut && !pending.Owed && len(pending.Calls) == 0 { // an error or a kill has cut the answer
			if err := turn.Retry(ctx, s); err != nil {
				return "", err
			}
		} else if pending.Waits() != rebuild.WaitAnswer {
			return pending.Waits(), nil // a person, a tool, or the user is next
		}
		answer, err := guard.Complete(ctx, nil, s, m)
		if answer != nil { // complete, or cut by an error
			_, saveErr := s.Append(context.WithoutCancel(ctx), answer)
			err = errors.Join(err, saveErr)
		}
		if err != nil {
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
	wait, err := work(ctx, s, m, run)
	fmt.Println("waits for:", wait, err)
	for a, err := range turn.Approvals(ctx, s.Store(), nil) { // the inbox
		if err != nil {
			log.Fatal(err)
		}
		if err := turn.Decide(ctx, s, a.Call.Entry, transcript.Approve, "anna", ""); err != nil {
			log.Fatal(err)
		}
	}
	wait, err = work(ctx, s, m, run)
	fmt.Printf("waits for: %q %v\n", wait, err)
	// Output:
	// running reserve
	// waits for: approval <nil>
	// running pay
	// waits for: "" <nil>
}

// delegate runs a sub-agent to its end, and returns its last answer as the result of the
// call. A second run with the same call, after a kill at any point, continues the first.
func delegate(ctx context.Context, s *session.Session, c rebuild.PendingCall, m guard.Client, run turn.Tool) (transcript.Message, error) {
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
	tn, err := turn.Begin(ctx, sub)
	if err != nil {
		return transcript.Message{}, err
	}
	defer func() { _ = tn.End() }()
	task := transcript.UserText("Book the hotel.")                                 // from c.Call.Input
	if _, err := sub.AppendIf(ctx, session.Cond{Idem: "task"}, task); err != nil { // once
		return transcript.Message{}, err
	}
	if wait, err := work(ctx, sub, m, run); err != nil {
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
func finish(ctx context.Context, s *session.Session, m guard.Client, run turn.Tool) error {
	pending, err := s.Pending(ctx)
	if err != nil {
		return err
	}
	for _, c := range pending.Calls {
		if c.State != rebuild.Dispatched || c.Call.Name != "book_hotel" {
			continue
		}
		result, err := delegate(ctx, s, c, m, run)
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

	tn, err := turn.Begin(ctx, s) // before Pending, until the turn ends
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = tn.End() }()
	if err := finish(ctx, s, m, pay); err != nil {
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
	if err := finish(ctx, s, m, pay); err != nil {
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
