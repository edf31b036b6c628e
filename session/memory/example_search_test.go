package memory_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/transcript"
)

// Show memories to the model: the best matches precede the question, as data.
func ExampleStore_Context() {
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
	key := session.Key{Agent: "main", Channel: "cli", Peer: "ada"}
	first, err := store.Create(ctx, key, &session.CreateOptions{ID: "first", Owner: "ada"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := first.Append(ctx, transcript.UserText("Remember: vim"), transcript.AssistantText("Noted.")); err != nil {
		log.Fatal(err)
	}
	done, err := memory.Commit(ctx, first, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := m.Extract(ctx, first, done.Chapter); err != nil {
		log.Fatal(err)
	}

	second, err := store.Create(ctx, key, &session.CreateOptions{ID: "second", Owner: "ada"})
	if err != nil {
		log.Fatal(err)
	}
	input := "Which editor should I open, vim or something else?"
	known, err := m.Context(ctx, second, input, 2_000, nil)
	if err != nil {
		log.Fatal(err)
	}
	blocks := append(known.Blocks(), transcript.TextBlock{Text: input})
	if _, err := second.Append(ctx, transcript.Message{Role: transcript.RoleUser, Content: blocks}); err != nil {
		log.Fatal(err)
	}
	for _, h := range known.Memories {
		fmt.Println(h.URI, h.Text, "from", h.Memory.Sources[0].Session)
	}
	fmt.Println(len(blocks), "blocks")
	// Output:
	// viking://user/memories/preferences/editor.md Uses vim from first
	// 3 blocks
}
