package uistream_test

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/uistream"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// hello answers every text. Each Flush sends a text to the client.
func hello(ctx context.Context, _ *session.Session, t *turn.Turn) error {
	draft := t.Draft("", "", transcript.Made{})
	for _, text := range []string{"Hello,", " you."} {
		if err := draft.Write(ctx, text); err != nil {
			return err
		}
		if err := draft.Flush(ctx); err != nil {
			return err
		}
	}
	_, err := draft.Finish(ctx, &transcript.Response{Message: transcript.AssistantText("Hello, you."), StopReason: transcript.StopEndTurn})
	return err
}

// A server for useChat. A new ID makes a chat, which then belongs to the owner of the key.
func ExampleNew() {
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer store.Close()
	server, err := serve.New(store, &serve.Options{
		Respond:  hello, // your loop
		Surfaces: []serve.Surface{uistream.New("/api/chat", "main")},
		Auth:     serve.Keys(map[string]serve.Principal{"key of anna": {Owner: "anna"}}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close(context.Background())
	web := httptest.NewServer(server)
	defer web.Close()

	call := func(method, path, body string) {
		req, _ := http.NewRequest(method, web.URL+path, strings.NewReader(body)) //nolint:noctx // an example
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer key of anna")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		defer resp.Body.Close()
		fmt.Println(method, path, resp.StatusCode)
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && !strings.Contains(data, `"start"`) {
				fmt.Println(data)
			}
		}
	}
	call("POST", "/api/chat", `{"id":"c1","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"Hi."}]}]}`)
	call("GET", "/api/chat/c1/stream", "") // after a reload of the page
	// Output:
	// POST /api/chat 200
	// {"type":"start-step"}
	// {"id":"text-1","type":"text-start"}
	// {"delta":"Hello,","id":"text-1","type":"text-delta"}
	// {"delta":" you.","id":"text-1","type":"text-delta"}
	// {"id":"text-1","type":"text-end"}
	// {"type":"finish-step"}
	// {"finishReason":"stop","messageMetadata":{"usage":{"inputTokens":0,"outputTokens":0,"totalTokens":0,"cachedInputTokens":0}},"type":"finish"}
	// [DONE]
	// GET /api/chat/c1/stream 204
}
