package memory_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/transcript"
)

// notes is an Extractor without a model: it remembers texts after "Remember:".
type notes struct{}

func (notes) Extract(_ context.Context, in memory.Input) (found []memory.Candidate, err error) {
	for _, msg := range in.Messages {
		var note string
		if n, _ := fmt.Sscanf(msg.Text(), "Remember: %s", &note); n == 1 {
			found = append(found, memory.Candidate{Category: "preferences", Topic: "editor", Text: memory.Text{Abstract: "Uses " + note}})
		}
	}
	return found, nil
}

// Learn for the next conversation: commit, extract, and read the memories.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "memory")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer store.Close()
	m, err := memory.Open(memory.Folder(dir), &memory.Options{Extractor: notes{}})
	if err != nil {
		log.Fatal(err)
	}
	talk := func(text string) {
		s, err := store.Create(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "ada"}, &session.CreateOptions{Owner: "ada"})
		if err != nil {
			log.Fatal(err)
		}
		for known, err := range m.List(ctx, memory.Scope{Agent: "main", Owner: "ada"}) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("known: %s (%s)\n", known.Abstract, known.URI)
		}
		if _, err := s.Append(ctx, transcript.UserText(text), transcript.AssistantText("Noted.")); err != nil {
			log.Fatal(err)
		}
		done, err := memory.Commit(ctx, s, nil)
		if err != nil {
			log.Fatal(err)
		}
		result, err := m.Extract(ctx, s, done.Chapter)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %+v\n", result.Chapter, result.Counts["preferences"])
	}
	talk("Remember: vim")
	talk("Remember: emacs")
	talk("Hello")
	// Output:
	// chapter_001: {Added:1 Merged:0 Skipped:0 Failed:0}
	// known: Uses vim (viking://user/memories/preferences/editor.md)
	// chapter_001: {Added:0 Merged:1 Skipped:0 Failed:0}
	// known: Uses emacs (viking://user/memories/preferences/editor.md)
	// chapter_001: {Added:0 Merged:0 Skipped:0 Failed:0}
}

// Forget a person: the store of memories takes part when the sessions are erased.
func ExampleStore_Erase() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "memory")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer store.Close()
	m, err := memory.Open(memory.Folder(dir), &memory.Options{Extractor: notes{}})
	if err != nil {
		log.Fatal(err)
	}
	s, err := store.Create(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "ada"}, &session.CreateOptions{Owner: "ada"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := s.Append(ctx, transcript.UserText("Remember: vim"), transcript.AssistantText("Noted.")); err != nil {
		log.Fatal(err)
	}
	done, err := memory.Commit(ctx, s, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := m.Extract(ctx, s, done.Chapter); err != nil {
		log.Fatal(err)
	}

	plan, err := erase.Preview(ctx, store, erase.Erasure{Owner: "ada"}, m)
	if err != nil {
		log.Fatal(err)
	}
	report, err := erase.Run(ctx, store, plan, m)
	if err != nil {
		log.Fatal(err)
	}
	for _, place := range report.Places {
		fmt.Println("erased:", place.Kind)
	}
	// Output:
	// erased: diff
	// erased: memory
	// erased: transcript
}
