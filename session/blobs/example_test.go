package blobs_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log"
	"os"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/transcript"
)

// Keep media outside of the conversation: the line of a screenshot contains its hash,
// the next request its bytes.
func ExampleFilter() {
	dir, err := os.MkdirTemp("", "conversations")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := session.Open(dir, &session.Options{Filters: []session.Filter{blobs.Filter(blobs.Folder(dir), nil)}})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	ctx := context.Background()
	s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	if err != nil {
		log.Fatal(err)
	}
	data := base64.StdEncoding.EncodeToString(make([]byte, 1<<20))
	_, err = s.Append(ctx, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{
		transcript.TextBlock{Text: "What is wrong here?"},
		transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: data}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range s.Entries(ctx, "") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Type(), len(e.Line()) < 1000)
	}
	history, err := s.History(ctx)
	if err != nil {
		log.Fatal(err)
	}
	image, _ := history.Messages[0].Content[1].(transcript.ImageBlock)
	fmt.Println(image.Source.Type, image.Source.Data == data)
	// Output:
	// session true
	// user true
	// base64 true
}
