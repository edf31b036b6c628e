package memory_test

import (
	"context"
	"fmt"
	"log"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/transcript"
)

// Commit complete turns: the next request contains the overview, and the
// chapter every word.
func ExampleCommit() {
	ctx := context.Background()
	summarizer := compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
		return "# Session Summary\n\n**One-sentence overview**: Trip: go north | booked\n\nThey leave on Friday.", nil
	})
	store := session.OpenDriver(memdriver.New(nil), &session.Options{Compact: compact.Options{Summarizer: summarizer}})
	defer store.Close()
	s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := s.Append(ctx, transcript.UserText("Book the train north."), transcript.AssistantText("Booked for Friday.")); err != nil {
		log.Fatal(err)
	}
	if err := memory.RecordUse(ctx, s, memory.Use{URI: "viking://resources/timetable"}); err != nil {
		log.Fatal(err)
	}

	done, err := memory.Commit(ctx, s, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Chapter, "-", done.Abstract)
	chapter, err := memory.ReadChapter(ctx, s, done.Chapter)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range chapter.Messages {
		fmt.Printf("%s: %s\n", m.Role, m.Text())
	}
	again, err := memory.Commit(ctx, s, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(again.Chapter != "", again.Reason)
	stats, err := memory.ReadStats(ctx, s)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Commits, "commit,", stats.Contexts, "context")
	// Output:
	// chapter_001 - Trip: go north | booked
	// user: Book the train north.
	// assistant: Booked for Friday.
	// false no_messages
	// 1 commit, 1 context
}
