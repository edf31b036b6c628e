package exchange_test

import (
	"context"
	"fmt"
	"iter"
	"log"
	"slices"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// A chat is a conversation in the format of an application, with a time for each text.
type chat struct {
	id, title string
	texts     []text
}

type text struct {
	at            time.Time
	asked, answer string
}

// Info implements [exchange.Source].
func (c chat) Info() dialect.Session {
	return dialect.Session{Dialect: "chats", ID: c.id, Title: c.title, Titled: true, Created: c.texts[0].at}
}

// Records implements [exchange.Source]. The IDs of the entries are numbers of texts.
func (c chat) Records() iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		for i, t := range c.texts {
			part := 0
			newID := func() string { part++; return fmt.Sprintf("%d.%d", i, part) }
			entries, err := transcript.NewBatch(t.at, newID,
				transcript.UserText(t.asked), transcript.At(t.at.Add(time.Second), transcript.AssistantText(t.answer)))
			if err != nil {
				yield(transcript.Record{}, err)
				return
			}
			for _, e := range entries {
				if !yield(transcript.Record{Entry: e}, nil) {
					return
				}
			}
		}
	}
}

// A format of one's own comes in with its times. Repeating the import adds new texts only.
func ExampleImport_own() {
	ctx, noon := context.Background(), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	store := session.OpenDriver(memdriver.New(nil), nil)
	c := chat{id: "c-17", title: "Lunch", texts: []text{{noon, "Soup?", "With pleasure."}}}
	for range 3 {
		report, err := exchange.Import(ctx, store, slices.Values([]chat{c}), nil)
		if err != nil {
			log.Fatal(err)
		}
		s, err := store.Get(ctx, report[0].Session)
		if err != nil {
			log.Fatal(err)
		}
		info, err := s.Info(ctx)
		fmt.Println(info.Title, info.UpdatedAt.Format(time.TimeOnly), report[0].Appended, "of", report[0].Records, err)
		if len(c.texts) == 1 {
			c.texts = append(c.texts, text{noon.Add(time.Hour), "More?", "No."})
		}
	}
	// Output:
	// Lunch 12:00:01 1 of 1 <nil>
	// Lunch 13:00:01 1 of 2 <nil>
	// Lunch 13:00:01 0 of 2 <nil>
}
