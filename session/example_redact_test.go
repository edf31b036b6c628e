package session_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/redact"
)

// Keep secrets out: what the hook masks is never written. This one knows the common
// secrets, and the account numbers of the application.
func ExampleRedact() {
	hook := func(ctx context.Context, text string) string {
		return strings.ReplaceAll(redact.Secrets(ctx, text), "4711-0815", "[account]")
	}
	ctx := context.Background()
	store := session.OpenDriver(memdriver.New(nil), &session.Options{Filters: []session.Filter{session.Redact(hook)}})
	defer store.Close()
	s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	if err != nil {
		log.Fatal(err)
	}
	_, err = s.Append(ctx, transcript.UserText("Connect to postgres://app:hunter2@db/main and look up 4711-0815."))
	if err != nil {
		log.Fatal(err)
	}
	history, err := s.History(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(history.Messages[0].Text())
	// Output: Connect to postgres://app:[masked]@db/main and look up [account].
}
