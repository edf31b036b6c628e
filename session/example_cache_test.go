package session_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/guard/httpclient"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A request begins with the bytes of the last one, after a restart as well, so the
// provider reads them from its cache. A compaction keeps the system prompt cached, and an
// edit of the tools loses all.
func ExampleSession_History_cache() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	provider := &guardtest.Model{Cache: true, Answer: guardtest.Always(guardtest.Say("It is fine."))}
	client := httpclient.Messages("https://api.anthropic.com", "your-key")
	client.HTTP = &http.Client{Transport: provider}
	client.Format = anthropic.Format{Cache: wire.Cache5m}
	tool := func(name string) transcript.Tool {
		return transcript.Tool{Name: name, InputSchema: []byte(`{"type":"object"}`)}
	}
	g := &guard.Guard{Model: "m", System: strings.Repeat("Be brief and polite. ", 300), Tools: []transcript.Tool{tool("read")}}

	var s *session.Session
	ask := func(name string) {
		if _, err := s.Append(ctx, transcript.UserText(strings.Repeat("Read this long plan. ", 200))); err != nil {
			log.Fatal(err)
		}
		answer, err := guard.Complete(ctx, g, s, client)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := s.Append(ctx, answer); err != nil {
			log.Fatal(err)
		}
		u := answer.Usage
		fmt.Printf("%-16s %2.0f %% cached\n", name, 100*float64(u.CacheRead)/float64(u.Prompt()))
	}
	for _, process := range []func(){
		func() {
			ask("first request")
			ask("second request")
		},
		func() {
			ask("after a restart")
			if _, err := s.Compact(ctx, &compact.Options{Window: 8000}); err != nil {
				log.Fatal(err)
			}
			ask("a compaction")
			ask("the next request")
			if _, err := s.Append(ctx, transcript.Tools{Names: []string{"read"}}); err != nil {
				log.Fatal(err)
			}
			ask("a tools entry")
			g.Tools = append(g.Tools, tool("write"))
			ask("a new tool")
			ask("the next request")
		},
	} {
		store, err := session.Open(dir, nil)
		if err != nil {
			log.Fatal(err)
		}
		if s, err = store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"}); err != nil {
			log.Fatal(err)
		}
		process()
		if err := store.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// first request     0 % cached
	// second request   71 % cached
	// after a restart  78 % cached
	// a compaction     51 % cached
	// the next request 75 % cached
	// a tools entry    80 % cached
	// a new tool        0 % cached
	// the next request 86 % cached
}
