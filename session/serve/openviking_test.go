package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/openviking"
	"github.com/convolog/convolog/transcript"
)

// rememberer makes one memory of two lines from each chapter.
type rememberer struct{}

func (rememberer) Extract(context.Context, memory.Input) ([]memory.Candidate, error) {
	return []memory.Candidate{{Category: "preferences", Topic: "tea", Text: memory.Text{Abstract: "Drinks green tea.", Content: "Asked for green tea twice, without sugar."}}}, nil
}

// A vikingClient is a client of OpenViking's routes. It reads answers as OpenViking's SDK
// does.
type vikingClient struct {
	testing.TB
	url string
	key string
}

// ask returns the result of a request, which must have a status.
func (c vikingClient) ask(status int, method, path string, body any) any {
	c.Helper()
	resp := call(c, method, c.url+path, body, "X-API-Key", c.key)
	answer := decode(c, resp)
	require.Equal(c, status, resp.StatusCode, "%s %s: %v", method, path, answer)
	if status != http.StatusOK {
		require.Equal(c, "error", answer["status"], "%s %s", method, path)
		require.NotEmpty(c, answer["error"].(map[string]any)["code"])
		return answer["error"].(map[string]any)["message"]
	}
	require.Equal(c, "ok", answer["status"])
	return answer["result"]
}

func (c vikingClient) object(method, path string, body any) map[string]any {
	c.Helper()
	return c.ask(http.StatusOK, method, path, body).(map[string]any)
}

// hits reads the hits of a search, with the types that the SDK knows.
func (c vikingClient) hits(body map[string]any) (hits []map[string]any) {
	c.Helper()
	found := c.object("POST", "/api/v1/search/search", body)
	for in, kind := range map[string]string{"memories": "memory", "resources": "resource", "skills": "skill"} {
		for _, h := range found[in].([]any) {
			hit := h.(map[string]any)
			require.Equal(c, kind, hit["context_type"], hit)
			require.NotEmpty(c, hit["uri"])
			hits = append(hits, hit)
		}
	}
	require.EqualValues(c, len(hits), found["total"])
	return hits
}

// viking serves OpenViking's routes to an administrator without an owner.
func viking(t *testing.T, memories *memory.Store) (vikingClient, *session.Store) {
	store := session.OpenDriver(memdriver.New(nil), nil)
	ts, _ := servedOver(t, store, &serve.Options{Auth: anyone, Logger: quiet, Memory: memories, Surfaces: []serve.Surface{openviking.New("main", nil)}})
	return vikingClient{t, ts.URL, ""}, store
}

func newMemories(t *testing.T) *memory.Store {
	memories, err := memory.Open(memory.Folder(t.TempDir()), &memory.Options{Extractor: rememberer{}})
	require.NoError(t, err)
	return memories
}

func userText(text string) map[string]any { return map[string]any{"role": "user", "content": text} }

// A commit of texts of the user alone archives them, and its answer counts the messages
// that stay and explains missing memories.
func TestVikingCommit(t *testing.T) {
	t.Parallel()
	const one = "/api/v1/sessions/one"
	for name, tt := range map[string]struct {
		memories *memory.Store
		owner    string
		found    int
		reason   any
	}{
		"no memory":     {nil, "default", 0, "no_memory"},
		"default owner": {newMemories(t), "default", 1, nil},
		"of no owner":   {newMemories(t), "", 0, "no_owner"},
		"no extractor":  {must(memory.Open(memory.Folder(t.TempDir()), nil)), "default", 0, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			c, store := viking(t, tt.memories)
			if tt.owner != "default" {
				_, err := store.Create(t.Context(), session.Key{Agent: "main"}, &session.CreateOptions{ID: "one", Owner: tt.owner})
				require.NoError(t, err)
				require.NotContains(t, c.object("GET", one, nil), "user")
			}
			require.EqualValues(t, 1, c.object("POST", one+"/messages", userText("which tea?"))["message_count"])
			require.EqualValues(t, 2, c.object("POST", one+"/messages", userText("the green one"))["message_count"])
			done := c.object("POST", one+"/commit", nil)
			require.Equal(t, []any{"committed", true, 0.0, nil}, []any{done["status"], done["archived"], done["not_archived"], done["reason"]})
			require.EqualValues(t, tt.found, done["memories_extracted"])
			require.Equal(t, tt.reason, done["memories_reason"])
			require.Equal(t, "viking://session/one/history/archive_001/", done["archive_uri"])
			require.EqualValues(t, 0, c.object("GET", one, nil)["message_count"])
			require.Len(t, c.object("GET", one+"/archives/archive_001", nil)["messages"], 1)

			task := c.object("GET", "/api/v1/tasks/"+done["task_id"].(string), nil)
			require.Equal(t, map[bool]any{true: "failed", false: "completed"}[tt.reason == "failed"], task["status"])
			require.Equal(t, []any{"session_commit", "one"}, []any{task["task_type"], task["resource_id"]})
			c.ask(404, "GET", "/api/v1/tasks/one@archive_002", nil)
			c.ask(404, "GET", "/api/v1/tasks/two@archive_001", nil)
			c.ask(404, "GET", "/api/v1/tasks/none", nil)

			done = c.object("POST", one+"/commit", nil)
			require.Equal(t, []any{false, "no_messages", 0.0}, []any{done["archived"], done["reason"], done["not_archived"]})

			waiting := map[string]any{"role": "assistant", "parts": []any{map[string]any{"type": "tool", "tool_id": "c1", "tool_name": "brew", "tool_status": "pending"}}}
			c.object("POST", one+"/messages", userText("brew it"))
			require.EqualValues(t, 2, c.object("POST", one+"/messages", waiting)["message_count"])
			done = c.object("POST", one+"/commit", nil)
			require.Equal(t, []any{false, "turn_open", 2.0}, []any{done["archived"], done["reason"], done["not_archived"]})
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Hits have the types that OpenViking's client knows, and a memory's abstract is its first
// line, with a session and without.
func TestVikingSearch(t *testing.T) {
	t.Parallel()
	for name, memories := range map[string]*memory.Store{"memories": newMemories(t), "conversations": nil} {
		t.Run(name, func(t *testing.T) {
			c, _ := viking(t, memories)
			const one = "/api/v1/sessions/one"
			c.object("POST", one+"/messages", userText("which green tea?"))
			c.object("POST", one+"/messages", map[string]any{"role": "assistant", "content": "the green tea of the mountain"})
			c.object("POST", one+"/used", map[string]any{"contexts": []string{"viking://resources/tea/"}})
			c.object("POST", one+"/used", map[string]any{"skill": map[string]any{"uri": "viking://skills/tea/", "input": "tea", "success": true}})
			c.object("POST", one+"/commit", nil)
			c.object("POST", one+"/messages", userText("any other tea?"))

			with := c.hits(map[string]any{"query": "green tea", "session_id": "one"})
			require.NotEmpty(t, with)
			alone := c.hits(map[string]any{"query": "green tea", "limit": 1})
			require.Len(t, alone, 1)
			find := c.object("POST", "/api/v1/search/find", map[string]any{"query": "green tea"})
			require.NotZero(t, find["total"])
			var types []any
			for _, h := range with {
				if types = append(types, h["context_type"]); h["context_type"] == "memory" {
					require.Equal(t, "Drinks green tea.", h["abstract"])
				}
			}
			if memories != nil {
				require.Contains(t, types, "memory")
				require.Contains(t, types, "skill")
				in := c.hits(map[string]any{"query": "green tea", "session_id": "one", "target_uri": alone[0]["uri"]})
				require.Len(t, in, 1)
			}
			require.Contains(t, types, "resource")
			c.ask(501, "POST", "/api/v1/search/search", map[string]any{"query": "tea", "mode": "context"})
		})
	}
}

// Sessions are listed and deleted by URI, as OpenViking's SDK does.
func TestVikingFiles(t *testing.T) {
	t.Parallel()
	c, _ := viking(t, nil)
	c.object("POST", "/api/v1/sessions", map[string]any{"session_id": "one"})
	require.Equal(t, "default", c.object("POST", "/api/v1/sessions", map[string]any{"session_id": "two"})["user"])
	var uris []string
	for _, n := range c.ask(200, "GET", "/api/v1/fs/ls?uri=viking://session/&simple=False&recursive=False", nil).([]any) {
		n := n.(map[string]any)
		require.Equal(t, true, n["isDir"])
		uris = append(uris, n["uri"].(string))
	}
	slices.Sort(uris)
	require.Equal(t, []string{"viking://session/one/", "viking://session/two/"}, uris)
	require.Len(t, c.ask(200, "GET", "/api/v1/fs/ls?uri=viking://session&simple=true&limit=1", nil), 1)

	for query, status := range map[string]int{
		"?uri=viking://session/&recursive=true": 400, "?uri=viking://session/one/": 400, "?uri=viking://session/one/&recursive=x": 400, "?uri=one": 400, "": 400,
		"?uri=viking://user/memories/&recursive=true": 501, "?uri=viking://session/one/?agent=other": 501, "?uri=viking://session/three/&recursive=true": 404,
	} {
		c.ask(status, "DELETE", "/api/v1/fs"+query, nil)
	}
	require.Equal(t, "viking://session/one/", c.object("DELETE", "/api/v1/fs?uri=viking://session/one/&recursive=True", nil)["uri"])
	c.ask(404, "GET", "/api/v1/sessions/one", nil)
	c.object("GET", "/api/v1/sessions/two", nil)
	c.ask(501, "GET", "/api/v1/fs/ls?uri=viking://resources/", nil)
	c.ask(501, "GET", "/api/v1/fs/ls?uri=viking://session/two/", nil)
	c.ask(400, "GET", "/api/v1/fs/ls?uri=viking://session/&limit=-1", nil)
	require.Equal(t, map[string]any{"initialized": true, "user": "default"}, c.object("GET", "/api/v1/system/status", nil))
	require.Equal(t, map[string]any{"status": "ok", "healthy": true}, decode(t, call(t, "GET", c.url+"/health", nil)))
}

// Parts of each kind are stored, and a wrong one is the client's mistake. A batch is one
// append.
func TestVikingParts(t *testing.T) {
	t.Parallel()
	c, store := viking(t, nil)
	const one = "/api/v1/sessions/one"
	tool := map[string]any{"type": "tool", "tool_id": "c1", "tool_name": "look", "tool_input": map[string]any{"at": "it"}, "tool_output": "ünseen words", "tool_status": "completed"}
	for _, wrong := range []string{
		`{"type":"context","uri":"a","context_type":"nonsense"}`, `{"type":"tool","tool_name":"x"}`, `{"type":"tool","tool_id":"c","tool_name":"x","tool_status":"done"}`,
		`{"type":"tool","tool_id":"c","tool_name":"x","tool_input":"x"}`, `{"type":"image_url"}`, `{"type":"image_url","image_url":{"url":""}}`, `{"type":"video"}`, `{}`, `7`,
	} {
		parts := map[string]any{"role": "assistant", "parts": []any{json.RawMessage(wrong)}}
		require.Contains(t, c.ask(400, "POST", one+"/messages", parts), "part", wrong)
		c.ask(400, "POST", one+"/messages/batch", map[string]any{"messages": []any{userText("x"), parts}})
	}
	c.ask(400, "POST", one+"/messages", map[string]any{"role": "system", "parts": []any{tool}})
	c.ask(400, "POST", one+"/messages", map[string]any{"role": "user"})
	c.ask(400, "POST", one+"/messages", map[string]any{"role": "user", "parts": []any{}})
	c.ask(400, "POST", one+"/messages", map[string]any{"role": "user", "parts": []any{map[string]any{"type": "text", "text": ""}}})
	c.ask(400, "POST", one+"/messages/batch", map[string]any{"messages": []any{}})
	c.ask(400, "POST", one+"/messages/batch", map[string]any{"messages": slices.Repeat([]any{userText("x")}, 101)})
	c.ask(404, "GET", one, nil) // a refused message makes no session

	const image = "data:image/png;base64,iVBORw0KGgo="
	batch := map[string]any{"messages": []any{
		map[string]any{"role": "user", "parts": []any{
			map[string]any{"type": "text", "text": "look at this"},
			map[string]any{"type": "context", "uri": "viking://user/memories/a.md"},
			map[string]any{"type": "image_url", "image_url": map[string]any{"url": image}},
			map[string]any{"type": "image_url", "image_url": "https://example.com/a.png"},
		}},
		map[string]any{"role": "assistant", "parts": []any{map[string]any{"type": "text", "text": "I look."}, tool, map[string]any{"type": "text", "text": "It is it."}}},
	}}
	added := c.object("POST", one+"/messages/batch", batch)
	require.EqualValues(t, 2, added["added"])
	require.EqualValues(t, 3, added["message_count"]) // the text after the call is an answer of its own
	require.EqualValues(t, 3, c.object("GET", one, nil)["message_count"])
	require.EqualValues(t, 4, c.object("POST", one+"/messages", userText("thanks"))["message_count"])

	s, err := store.Get(t.Context(), session.Ref{Agent: "main", ID: "one"})
	require.NoError(t, err)
	h, err := s.History(t.Context())
	require.NoError(t, err)
	require.Equal(t, []transcript.Block{
		transcript.TextBlock{Text: "look at this"},
		transcript.TextBlock{Text: "[memory viking://user/memories/a.md]"},
		transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: "iVBORw0KGgo="}},
		transcript.ImageBlock{Source: transcript.Source{Type: "url", URL: "https://example.com/a.png"}},
	}, h.Messages[0].Content)
	require.Equal(t, "c1", h.Messages[1].ToolCalls()[0].ID)
	require.Equal(t, "ünseen words", fmt.Sprint(h.Messages[2].Content[0].(transcript.ToolResultBlock).Content[0].(transcript.TextBlock).Text))

	// The results of tools can be listed, read and searched, in characters.
	results := c.object("GET", one+"/tool-results", nil)["tool_results"].([]any)
	require.Len(t, results, 1)
	require.Subset(t, results[0], map[string]any{"tool_result_id": "c1", "tool_name": "look", "original_chars": 12.0})
	require.Empty(t, c.object("GET", one+"/tool-results?tool_name=other", nil)["tool_results"])
	require.Subset(t, c.object("GET", one+"/tool-results/c1?offset=1&limit=4", nil), map[string]any{"content": "nsee", "total_chars": 12.0, "has_more": true})
	require.Subset(t, c.object("GET", one+"/tool-results/c1?limit=-1&offset=20", nil), map[string]any{"content": "", "has_more": false})
	matches := c.object("GET", one+"/tool-results/c1/search?q=e&context_chars=1", nil)["matches"].([]any)
	require.Len(t, matches, 2)
	require.Equal(t, map[string]any{"offset": 3.0, "offset_unit": "unicode_code_point", "snippet": "see"}, matches[0])

	// A long result with many matches gives a short answer.
	long := map[string]any{"type": "tool", "tool_id": "long", "tool_name": "look", "tool_input": map[string]any{}, "tool_output": strings.Repeat("a", 6000), "tool_status": "completed"}
	c.object("POST", one+"/messages", map[string]any{"role": "assistant", "parts": []any{long}})
	for chars, want := range map[string]int{"0": 100, "1000000": 50} {
		matches = c.object("GET", one+"/tool-results/long/search?q=a&limit=1000000&context_chars="+chars, nil)["matches"].([]any)
		require.Equal(t, want, len(matches), chars)
	}
	c.ask(404, "GET", one+"/tool-results/c2", nil)
	c.ask(400, "GET", one+"/tool-results/c1/search", nil)
	c.ask(400, "GET", one+"/tool-results/c1?limit=-2", nil)
}

// The context and an archive show each call with its result, and only stored messages.
func TestVikingShows(t *testing.T) {
	t.Parallel()
	c, _ := viking(t, nil)
	const one = "/api/v1/sessions/one"
	tool := map[string]any{"type": "tool", "tool_id": "c1", "tool_name": "look", "tool_input": map[string]any{}, "tool_output": "green", "tool_status": "error"}
	c.object("POST", one+"/messages", map[string]any{"role": "assistant", "parts": []any{map[string]any{"type": "text", "text": "I look."}, tool}})
	shows := func(messages any) {
		require.Len(t, messages, 1)
		m := messages.([]any)[0].(map[string]any)
		require.NotEmpty(t, m["id"])
		require.Equal(t, []any{"assistant", []any{map[string]any{"type": "text", "text": "I look."}, any(tool)}}, []any{m["role"], m["parts"]})
	}
	shows(c.object("GET", one+"/context", nil)["messages"])
	c.object("POST", one+"/commit", nil)
	shows(c.object("GET", one+"/archives/archive_001", nil)["messages"])
}

// An administrator without an owner shares no session with a user, by a key of the same
// owner or by an ID that the user took first.
func TestVikingOwners(t *testing.T) {
	t.Parallel()
	const one = "/api/v1/sessions/one"
	admin, user, bob := serve.Principal{Admin: true}, serve.Principal{Owner: "default"}, serve.Principal{Owner: "bob"}
	with := func(owner string, keys map[string]serve.Principal) func(key string) vikingClient {
		surfaces := []serve.Surface{openviking.New("main", &openviking.Options{Owner: owner})}
		ts, _ := servedOver(t, session.OpenDriver(memdriver.New(nil), nil), &serve.Options{Auth: serve.Keys(keys), Memory: newMemories(t), Surfaces: surfaces})
		return func(key string) vikingClient { return vikingClient{t, ts.URL, key} }
	}
	of := with("", map[string]serve.Principal{"admin": admin, "user": user, "bob": bob})
	of("user").ask(401, "GET", "/api/v1/sessions", nil)
	require.Equal(t, "bob", of("bob").object("GET", one+"?auto_create=true", nil)["user"])
	of("admin").ask(404, "GET", one+"?auto_create=true", nil)
	of("admin").ask(404, "POST", one+"/messages", userText("a secret"))
	require.EqualValues(t, 0, of("admin").object("GET", one, nil)["message_count"])
	require.Equal(t, "default", of("admin").object("GET", "/api/v1/sessions/two?auto_create=true", nil)["user"])
	of("bob").ask(404, "GET", "/api/v1/sessions/two", nil)

	of = with("operator", map[string]serve.Principal{"admin": admin, "user": user})
	of("admin").object("POST", one+"/messages", userText("which green tea?"))
	require.EqualValues(t, 1, of("admin").object("POST", one+"/commit", nil)["memories_extracted"])
	require.EqualValues(t, 1, of("admin").object("POST", "/api/v1/search/search", map[string]any{"query": "tea"})["total"])
	require.EqualValues(t, 0, of("user").object("POST", "/api/v1/search/search", map[string]any{"query": "tea"})["total"])
	require.Empty(t, of("user").ask(200, "GET", "/api/v1/sessions", nil))
	of("user").ask(404, "POST", one+"/messages", userText("x"))

	of = with("", map[string]serve.Principal{"user": user, "named": {Admin: true, Owner: "root"}})
	require.Equal(t, "default", of("user").object("GET", one+"?auto_create=true", nil)["user"])
}

// A session without an owner has no user and no memories.
func TestVikingOwnerless(t *testing.T) {
	t.Parallel()
	c, store := viking(t, newMemories(t))
	c.object("POST", "/api/v1/sessions/one/messages", userText("which green tea?"))
	c.object("POST", "/api/v1/sessions/one/commit", nil)
	_, err := store.Create(t.Context(), session.Key{Agent: "main"}, &session.CreateOptions{ID: "bare"})
	require.NoError(t, err)
	for _, s := range c.ask(200, "GET", "/api/v1/sessions", nil).([]any) {
		want := map[string]any{"session_id": "bare"}
		if s.(map[string]any)["session_id"] == "one" {
			want = map[string]any{"session_id": "one", "user": "default"}
		}
		require.Equal(t, want, s)
	}
	find := func(s string) any {
		return c.object("POST", "/api/v1/search/search", map[string]any{"query": "drinks", "session_id": s})["memories"]
	}
	require.Len(t, find("one"), 1)
	require.Empty(t, find("bare"))
	c.hits(map[string]any{"query": "drinks", "limit": 1 << 60})
}

// The context of a session is the overview of its last archive and the messages since, in
// a budget; a missing session is made if the client asks for it.
func TestVikingContext(t *testing.T) {
	t.Parallel()
	c, _ := viking(t, nil)
	const one = "/api/v1/sessions/one"
	c.ask(404, "GET", one, nil)
	c.ask(400, "GET", one+"?auto_create=x", nil)
	require.EqualValues(t, 0, c.object("GET", one+"?auto_create=true", nil)["message_count"])
	c.object("POST", one+"/messages", userText("which tea?"))
	c.object("POST", one+"/messages", map[string]any{"role": "assistant", "content": "green tea"})
	c.object("POST", one+"/commit", nil)
	for i := range 3 {
		c.object("POST", one+"/messages", userText(fmt.Sprint("cup ", i, strings.Repeat(" of tea", 20))))
		c.object("POST", one+"/messages", map[string]any{"role": "assistant", "content": "here"})
	}
	all := c.object("GET", one+"/context", nil)
	require.Contains(t, all["latest_archive_overview"], "green tea")
	require.Len(t, all["messages"], 6)
	require.Equal(t, []any{}, all["pre_archive_abstracts"])
	stats := all["stats"].(map[string]any)
	require.Equal(t, all["estimatedTokens"], stats["activeTokens"].(float64)+stats["archiveTokens"].(float64))
	require.EqualValues(t, 1, stats["totalArchives"])
	done := c.object("POST", one+"/commit", map[string]any{"keep_recent_count": 10})
	require.Equal(t, []any{false, "all_left", 6.0}, []any{done["archived"], done["reason"], done["not_archived"]})
	some := c.object("GET", one+"/context?token_budget=60", nil)
	require.LessOrEqual(t, some["estimatedTokens"], 60.0)
	require.Len(t, some["messages"], 2)
	require.Contains(t, fmt.Sprint(some["messages"]), "cup 2")
	c.ask(400, "GET", one+"/context?token_budget=-1", nil)
	done = c.object("POST", one+"/commit", map[string]any{"keep_recent_count": 2})
	require.Equal(t, []any{true, 2.0}, []any{done["archived"], done["not_archived"]})
	require.Len(t, c.object("GET", one+"/context", nil)["messages"], 2)

	require.Contains(t, c.object("PATCH", one+"/config", map[string]any{"auto_commit_policy": nil}), "auto_commit_policy")
	require.Contains(t, c.ask(501, "PATCH", one+"/config", map[string]any{"auto_commit_policy": map[string]any{"message_count_threshold": 10}}), "settings")
	require.Contains(t, c.ask(501, "POST", one+"/extract", nil), "a commit extracts")
	c.ask(404, "POST", "/api/v1/sessions/two/extract", nil)
	c.ask(501, "GET", "/api/v1/content/read?uri=viking://session/one/", nil)
}

// The document lists the routes of today's program, and no others.
func TestVikingRoutes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/PARITY.md")
	require.NoError(t, err)
	_, text, _ = bytes.Cut(text, []byte("### Routes of today's OpenViking\n"))
	text, _, _ = bytes.Cut(text, []byte("\n## "))
	listed := map[string]bool{}
	for _, found := range regexp.MustCompile("`([A-Z]+ /[^`?]*)[^`]*`").FindAllSubmatch(text, -1) {
		listed[string(found[1])] = true
	}
	served := map[string]bool{}
	for _, r := range openviking.New("main", nil).Routes {
		served[r.Method+" "+r.Path] = true
	}
	for route := range listed {
		require.True(t, served[route], "%s is not served", route)
	}
	seeds := []string{ // of the program that the rows above are about
		"POST /api/v1/sessions", "GET /api/v1/sessions", "DELETE /api/v1/sessions/{id}", "POST /api/v1/sessions/{id}/messages", "POST /api/v1/sessions/{id}/used",
		"POST /api/v1/sessions/{id}/commit", "GET /api/v1/sessions/{id}/archives/{archive}", "POST /api/v1/search/search", "GET /api/v1/fs/ls", "DELETE /api/v1/fs",
	}
	for route := range served {
		require.True(t, listed[route] != slices.Contains(seeds, route), "%s: list it once", route)
	}
}

// Concurrent messages to a missing session make one session and are all in it.
func TestVikingCreateOnce(t *testing.T) {
	t.Parallel()
	c, store := viking(t, nil)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			resp := call(t, "POST", c.url+"/api/v1/sessions/one/messages", userText(fmt.Sprint("text ", i)))
			if resp.StatusCode != http.StatusOK {
				t.Errorf("text %d: %s", i, resp.Status)
			}
		})
	}
	group.Wait()
	infos, err := store.List(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, infos, 1)
	require.Equal(t, "default", infos[0].Owner)
	require.EqualValues(t, 8, c.object("GET", "/api/v1/sessions/one", nil)["message_count"])
}
