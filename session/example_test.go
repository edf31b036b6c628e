package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// An agent loop: every message is on disk before the next step, and a restart
// at any point continues from there.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()

	for _, input := range []string{"what is in a.txt?", "thanks"} { // two runs of one program
		store, err := session.Open(dir, nil)
		if err != nil {
			log.Fatal(err)
		}
		s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"})
		if err != nil {
			log.Fatal(err)
		}
		info, err := s.Info(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("Restored:", info.Turns, "previous turns")
		if _, err := s.Append(ctx, transcript.UserText(input)); err != nil {
			log.Fatal(err)
		}
		for {
			history, err := s.History(ctx)
			if err != nil {
				log.Fatal(err)
			}
			body, _, err := anthropic.Format{}.Request(transcript.Request{
				Model: "m", System: history.SystemPrompt("Be brief."), Messages: history.Messages,
			})
			if err != nil {
				log.Fatal(err)
			}
			resp, err := anthropic.Format{}.Response(post(body))
			if err != nil {
				log.Fatal(err)
			}
			if _, err := s.Append(ctx, resp); err != nil {
				log.Fatal(err)
			}
			calls := resp.Message.ToolCalls()
			if len(calls) == 0 {
				fmt.Println(resp.Message.Text())
				break
			}
			for _, call := range calls { // in any order, from any goroutine
				if _, err := s.Append(ctx, transcript.ToolResult(call.ID, "hello from "+call.Name)); err != nil {
					log.Fatal(err)
				}
			}
		}
		if err := store.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// Restored: 0 previous turns
	// It says: hello from read_file
	// Restored: 1 previous turns
	// You are welcome. We have 5 messages now.
}

// post acts as the model.
func post(body []byte) []byte {
	var req transcript.Request
	if err := json.Unmarshal(body, &req); err != nil {
		log.Fatal(err)
	}
	last := req.Messages[len(req.Messages)-1]
	content := `{"type":"text","text":"You are welcome. We have ` + fmt.Sprint(len(req.Messages)) + ` messages now."}`
	if r, ok := last.Content[0].(transcript.ToolResultBlock); ok {
		content = `{"type":"text","text":"It says: ` + r.Text() + `"}`
	} else if len(req.Messages) == 1 {
		content = `{"type":"tool_use","id":"toolu_1","name":"read_file","input":{"path":"a.txt"}}`
	}
	return []byte(`{"type":"message","role":"assistant","model":"m","stop_reason":"end_turn","content":[` + content + `]}`)
}
