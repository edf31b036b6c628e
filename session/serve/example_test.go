package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/zyhive"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// agent is your loop: this one says hello, and keeps the text as it comes.
func agent(ctx context.Context, _ *session.Session, tn *turn.Turn) error {
	draft := tn.Draft("", "", transcript.Made{})
	for _, text := range []string{"Hello,", " you."} {
		if err := draft.Write(ctx, text); err != nil {
			return err
		}
		if err := draft.Flush(ctx); err != nil { // clients see it now
			return err
		}
	}
	_, err := draft.Finish(ctx, &transcript.Response{Message: transcript.AssistantText("Hello, you.")})
	return err
}

func open() (*session.Store, func()) {
	dir, err := os.MkdirTemp("", "serve")
	if err != nil {
		log.Fatal(err)
	}
	store, err := session.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	return store, func() { _ = store.Close(); _ = os.RemoveAll(dir) }
}

// request sends a request and prints the events that answer it. It returns the ID of the
// first one.
func request(method, url, body string, header ...string) (first string) {
	req, _ := http.NewRequest(method, url, strings.NewReader(body)) //nolint:noctx // an example
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-API-Key", "key of anna")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok && first == "" {
			first = id
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var event struct{ Type, Text string }
			_ = json.Unmarshal([]byte(data), &event)
			fmt.Println(strings.TrimSpace(event.Type + " " + event.Text))
		}
	}
	return first
}

// Serve a store over HTTP.
func Example() {
	store, done := open()
	defer done()
	server, err := serve.New(store, &serve.Options{
		Respond:  agent,
		Surfaces: []serve.Surface{zyhive.New()},
		Auth:     serve.Keys(map[string]serve.Principal{"key of anna": {Owner: "anna"}}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close(context.Background())
	mux := http.NewServeMux()
	mux.Handle("/agents/", http.StripPrefix("/agents", server)) // next to other surfaces
	web := httptest.NewServer(mux)
	defer web.Close()

	request("POST", web.URL+"/agents/api/agents/main/chat", `{"message":"Hi."}`, "Idempotency-Key", "1")
	infos, err := store.List(context.Background(), nil)
	fmt.Println(len(infos), infos[0].Owner, infos[0].Title, err)
	// Output:
	// text_delta Hello,
	// text_delta  you.
	// done
	// 1 anna Hi. <nil>
}

// Reconnect: a client that was cut continues after the last event that it has
// seen.
func Example_reconnect() {
	store, done := open()
	defer done()
	server, err := serve.New(store, &serve.Options{
		Respond:  agent,
		Surfaces: []serve.Surface{zyhive.New()},
		Auth:     serve.Keys(map[string]serve.Principal{"key of anna": {Owner: "anna"}}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close(context.Background())
	web := httptest.NewServer(server)
	defer web.Close()
	ctx := context.Background()
	if _, err := store.Create(ctx, session.Key{Agent: "main", Channel: "web", Peer: "anna"}, &session.CreateOptions{ID: "s1", Owner: "anna"}); err != nil {
		log.Fatal(err)
	}

	seen := request("POST", web.URL+"/api/agents/main/chat", `{"sessionId":"s1","message":"Hi."}`)
	fmt.Println("again, behind the first event:")
	request("GET", web.URL+"/api/agents/main/chat/stream?sessionId=s1", "", "Last-Event-ID", seen)
	// Output:
	// text_delta Hello,
	// text_delta  you.
	// done
	// again, behind the first event:
	// text_delta  you.
	// done
}

// A surface of your own: a route that waits for the answer, and a form of problems.
func Example_surface() {
	store, done := open()
	defer done()
	ask := func(q *serve.Request) error {
		var body struct{ Text string }
		if err := q.Decode(&body); err != nil {
			return err
		}
		s, err := q.Session("main", q.PathValue("id"))
		if err != nil {
			return err
		}
		said, err := q.Say(s, []transcript.Block{transcript.TextBlock{Text: body.Text}}, "")
		if err != nil {
			return err
		}
		t, err := q.Turn(s, said)
		if err != nil {
			return err
		}
		var answer strings.Builder
		for f := range t.Frames(q.Context()) {
			if f.Kind == "text" {
				answer.WriteString(f.Text)
			}
		}
		q.JSON(http.StatusOK, answer.String())
		return nil
	}
	server, err := serve.New(store, &serve.Options{
		Respond: agent,
		Auth:    serve.Keys(map[string]serve.Principal{"key of anna": {Owner: "anna"}}),
		Surfaces: []serve.Surface{{
			Routes: []serve.Route{{Method: "POST", Path: "/ask/{id}", Summary: "Ask and wait for the answer.", Answers: true, Do: ask}},
			Fail:   func(q *serve.Request, p *serve.Problem) { q.JSON(p.Status, "sorry: "+p.Title) },
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close(context.Background())
	ctx := context.Background()
	if _, err := store.Create(ctx, session.Key{Agent: "main", Channel: "web", Peer: "anna"}, &session.CreateOptions{ID: "s1", Owner: "anna"}); err != nil {
		log.Fatal(err)
	}
	for _, id := range []string{"s1", "s2"} {
		r := httptest.NewRequestWithContext(ctx, "POST", "/ask/"+id, strings.NewReader(`{"text":"Hi."}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-API-Key", "key of anna")
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 200 "Hello, you."
	// 404 "sorry: there is no such session, or entry"
}
