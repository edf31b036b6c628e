package httpclient_test

import (
	"context"
	"fmt"
	"log"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/guard/httpclient"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// An answer of the Messages API is shown as it arrives, and appended to a session. The
// service is overloaded at first, and the client sends the request again.
func ExampleMessages() {
	ctx := context.Background()
	service := guardtest.NewServer(&guardtest.Model{Answer: guardtest.Script(
		guardtest.RateLimited(0), guardtest.Say("Lisbon is the capital of Portugal."))})
	defer service.Close()
	client := httpclient.Messages(service.URL, "key")

	store := session.OpenDriver(memdriver.New(nil), nil)
	defer func() { _ = store.Close() }()
	s, err := store.Create(ctx, session.Key{Agent: "main"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := s.Append(ctx, transcript.UserText("Name the capital of Portugal.")); err != nil {
		log.Fatal(err)
	}
	answer, err := guard.Do(ctx, &guard.Guard{Model: "claude-sonnet-4-5"}, s,
		func(ctx context.Context, c guard.Call) (*transcript.Response, error) {
			return client.Stream(ctx, c.Request, func(d wire.Delta) { fmt.Print(d.Text) })
		})
	fmt.Println()
	if answer != nil { // even a cut one
		if _, err := s.Append(ctx, answer); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(answer.StopReason, err)
	// Output:
	// Lisbon is the capital of Portugal.
	// end_turn <nil>
}

// A whole answer of Chat Completions. The model, and the limit of the output, are for
// requests that set none.
func ExampleChat() {
	service := guardtest.NewServer(&guardtest.Model{Answer: guardtest.Always(guardtest.Say("Lisbon."))})
	defer service.Close()
	client := httpclient.Chat(service.URL+"/v1", "key")
	client.Model, client.MaxOutput = "gpt-5", 1000

	answer, err := client.Complete(context.Background(), transcript.Request{
		Messages: []transcript.Message{transcript.UserText("Name the capital of Portugal.")},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Message.Text())
	// Output: Lisbon.
}
