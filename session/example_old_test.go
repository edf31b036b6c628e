package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// A conversation with old times, of three authors. No model sees times and authors.
func ExampleCreateOptions_header() {
	ctx, noon := context.Background(), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer store.Close()
	s, err := store.Create(ctx, session.Key{Agent: "room"}, &session.CreateOptions{
		Header: &transcript.Entry{ID: "room-7", Time: noon, Body: transcript.Header{Created: noon}},
	})
	if err != nil {
		log.Fatal(err)
	}
	says := func(author string, at time.Time, m transcript.Message) transcript.Item {
		return transcript.At(at, transcript.WithApp(m, json.RawMessage(`{"author":"`+author+`"}`)))
	}
	if _, err := s.Append(ctx,
		says("anna", noon.Add(1*time.Minute), transcript.UserText("Anna: Soup?")),
		says("bert", noon.Add(2*time.Minute), transcript.UserText("Bert: Salad.")),
		says("cook", noon.Add(3*time.Minute), transcript.AssistantText("Both are ready.")),
	); err != nil {
		log.Fatal(err)
	}
	for e, err := range s.Entries(ctx, "") {
		if err != nil {
			log.Fatal(err)
		}
		if m, ok := e.Body.(transcript.MessageLine); ok {
			fmt.Printf("%s %s %s\n", e.Time.Format(time.TimeOnly), e.App, m.Message().Text())
		}
	}
	info, err := s.Info(ctx)
	fmt.Println(info.CreatedAt.Format(time.TimeOnly), info.UpdatedAt.Format(time.TimeOnly), err)
	// Output:
	// 12:01:00 {"author":"anna"} Anna: Soup?
	// 12:02:00 {"author":"bert"} Bert: Salad.
	// 12:03:00 {"author":"cook"} Both are ready.
	// 12:00:00 12:03:00 <nil>
}
