package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/convolog/convolog/session/serve"
)

// Conversations by ID: create one, send a message, follow the entries, list and delete.
// These are the store's own routes, which new clients should use.
func ExampleOwn() {
	store, done := open()
	defer done()
	server, err := serve.New(store, &serve.Options{
		Respond:  agent, // your loop
		Surfaces: []serve.Surface{serve.Own()},
		Auth:     serve.Keys(map[string]serve.Principal{"key of anna": {Owner: "anna"}, "key of bert": {Owner: "bert"}}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close(context.Background())
	web := httptest.NewServer(server)
	defer web.Close()
	call := func(key, method, path, body string) *http.Response {
		req, _ := http.NewRequest(method, web.URL+path, strings.NewReader(body)) //nolint:noctx // an example
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-API-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		return resp
	}

	created := call("key of anna", "POST", "/v1/store/sessions", `{"id":"trip","title":"Porto"}`)
	fmt.Println(created.Status)
	_ = created.Body.Close()
	sent := call("key of anna", "POST", "/v1/store/sessions/main/trip/queue", `{"content":"Hi."}`)
	fmt.Println(sent.Status)
	_ = sent.Body.Close()

	follow := call("key of anna", "GET", "/v1/store/sessions/main/trip/follow", "")
	for lines := bufio.NewScanner(follow.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var entry struct {
			Type, Text, Mid, Ended string
			Stop                   string `json:"stop_reason"`
		}
		if !ok || json.Unmarshal([]byte(data), &entry) != nil {
			continue
		}
		if entry.Type == "draft" {
			fmt.Printf("%q\n", entry.Text) // a client shows it at once
		}
		if entry.Type == "assistant" && entry.Mid == "" && entry.Stop != "tool_use" { // an answer without calls
			break
		}
		if entry.Type == "interrupt" && entry.Ended != "" { // no answer comes
			break
		}
	}
	_ = follow.Body.Close()

	foreign := call("key of bert", "GET", "/v1/store/sessions/main/trip", "")
	fmt.Println(foreign.Status)
	_ = foreign.Body.Close()
	list := call("key of anna", "GET", "/v1/store/sessions?limit=10", "")
	page, _ := io.ReadAll(list.Body)
	fmt.Println(list.Status, strings.Contains(string(page), `"title":"Porto"`))
	_ = list.Body.Close()
	deleted := call("key of anna", "DELETE", "/v1/store/sessions/main/trip", "")
	fmt.Println(deleted.Status)
	_ = deleted.Body.Close()
	// Output:
	// 200 OK
	// 200 OK
	// "Hello,"
	// " you."
	// 404 Not Found
	// 200 OK true
	// 204 No Content
}
