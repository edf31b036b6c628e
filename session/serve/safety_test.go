package serve_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// target is what the requests of a test are about.
type target struct{ agent, id, entry string }

// fill makes a request for a route about a session.
func (g target) fill(t testing.TB, url string, r serve.Route) *http.Request {
	t.Helper()
	path := strings.NewReplacer("{$}", "", "{agent}", g.agent, "{id}", g.id, "{entry}", g.entry, "{archive}", "archive_001", "{task}", g.id+"@archive_001", "{call}", "c0").Replace(r.Path)
	if strings.HasSuffix(r.Path, "/chat/stream") || strings.HasSuffix(r.Path, "/chat/status") || r.Method == "DELETE" && strings.HasSuffix(r.Path, "/chat") {
		path += "?sessionId=" + g.id
	}
	switch r.Path {
	case "/api/v1/fs":
		path += "?recursive=true&uri=viking://session/" + g.id + "/"
	case "/api/v1/fs/ls":
		path += "?uri=viking://session/"
	}
	if strings.HasSuffix(r.Path, "/{call}/search") {
		path += "?q=fruit"
	}
	body := ""
	for suffix, text := range map[string]string{
		"/chat": `{"message":"x","sessionId":"ID","id":"ID","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"x"}]}]}`, "/messages": `{"role":"user","content":"x"}`, "/batch": `{"messages":[{"role":"user","content":"x"}]}`, "/config": `{"auto_commit_policy":null}`, "/search/find": `{"query":"fruit"}`, "/used": `{"contexts":["a"]}`,
		"/commit": `{}`, "/v1/search/search": `{"query":"fruit","session_id":"ID"}`, "/store/search": `{"text":"fruit"}`,
		"{id}/search": `{"text":"fruit"}`, "/fork": `{"entry":"ENTRY"}`, "/rewind": `{"turns":1}`, "/hide": `{"entries":["ENTRY"]}`, "/sessions/{id}": `{"title":"x"}`,
		"/{agent}/{id}": `{"title":"x"}`, "/archive": `{}`, "/restore": `{}`, "/v1/sessions": `{"session_id":"new-of-bob"}`,
		"/store/sessions": `{"key":"main:test:bob"}`, "/entries": `{"role":"user","content":"x"}`, "/queue": `{"content":"x"}`, "/decision": `{"verdict":"reject","reason":"x"}`,
	} {
		if strings.HasSuffix(r.Path, suffix) && r.Method != "GET" && r.Method != "DELETE" {
			body = strings.NewReplacer("ID", g.id, "ENTRY", g.entry).Replace(text)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), r.Method, url+path, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return req
}

// isOfSession reports whether requests of a route name a session.
func isOfSession(r serve.Route) bool {
	return strings.Contains(r.Path, "{id}") || strings.HasSuffix(r.Path, "/chat") || strings.Contains(r.Path, "/chat/") ||
		strings.HasSuffix(r.Path, "/v1/search/search") || r.Path == "/api/v1/tasks/{task}" || r.Path == "/api/v1/fs"
}

// missing returns the status of a request about a missing session. The AI SDK also
// asks for the unfinished answer of a new chat.
func missing(r serve.Route) int {
	if r.Method == "GET" && r.Path == "/api/chat/{id}/stream" {
		return http.StatusNoContent
	}
	return http.StatusNotFound
}

// creates reports whether a route makes a missing session.
func creates(r serve.Route) bool {
	return strings.HasPrefix(r.Path, "/api/v1/sessions/{id}/messages") || r.Path == "/api/chat"
}

// isElsewhere reports whether a route only refuses.
func isElsewhere(r serve.Route) bool { return strings.HasPrefix(r.Summary, "Answer 501") }

// send returns the status, the header and the body, of which times are cut. A stream
// of changes is cut at its first event.
func send(t testing.TB, req *http.Request) (int, http.Header, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var body []byte
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		buffer := make([]byte, 4096)
		n, _ := io.ReadAtLeast(resp.Body, buffer, len(": \n\nid: 1\n"))
		body = buffer[:n]
	} else {
		body, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
	}
	resp.Header.Del("Date")
	resp.Header.Del("Content-Length") // times vary
	return resp.StatusCode, resp.Header, regexp.MustCompile(`"time":[0-9.e-]+`).ReplaceAllString(string(body), "")
}

// state is all that a store has of a session.
func state(t testing.TB, s *session.Session) string {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "%+v\n", infoOf(t, s))
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		text.WriteString(string(e.Line()) + "\n")
	}
	return text.String()
}

// Nothing of another owner's session is seen or changed by any route, and the answer
// is that for a session that there is not.
func TestForeignOwner(t *testing.T) {
	t.Parallel()
	ts, store, sv := withKeys(t)
	s := talk(t, store, "alices")
	_, err := memory.Commit(t.Context(), s, nil)
	require.NoError(t, err)
	entries, err := search.Page(t.Context(), s, "", 2)
	require.NoError(t, err)
	call := transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: "c0", Name: "look", Input: []byte("{}")}}}
	_, err = s.Append(t.Context(), call, transcript.ToolResult("c0", "fruit"))
	require.NoError(t, err)
	held := holdCall(t, s, "c1")
	before := state(t, s)
	about := func(id string, r serve.Route) target {
		if strings.Contains(r.Path, "/calls/") {
			return target{"main", id, held}
		}
		return target{"main", id, entries[1].ID}
	}
	for _, r := range sv.Routes() {
		name := r.Method + " " + r.Path
		req := about("alices", r).fill(t, ts.URL, r)
		req.Header.Set("X-Api-Key", "bob-key")
		status, header, body := send(t, req)
		require.NotContains(t, body, "fruit", name)
		require.NotContains(t, body, `alices"`, name)
		switch {
		case isOfSession(r):
			require.Equal(t, missing(r), status, "%s: %s: give it what it takes in fill", name, body)
			if creates(r) {
				continue
			}
			req = about("two", r).fill(t, ts.URL, r)
			req.Header.Set("X-Api-Key", "bob-key")
			status2, header2, body2 := send(t, req)
			require.Equal(t, []any{status, header, body}, []any{status2, header2, body2}, name)
		case r.Admin:
			require.Equal(t, http.StatusForbidden, status, name)
		case isElsewhere(r):
			require.Equal(t, http.StatusNotImplemented, status, "%s: %s", name, body)
		default:
			require.Equal(t, http.StatusOK, status, "%s: %s", name, body)
		}
	}
	require.Equal(t, before, state(t, s))
	infos, err := store.List(t.Context(), &session.ListOptions{Owner: "alice"})
	require.NoError(t, err)
	require.Len(t, infos, 1)

	// The same requests are good ones: they work for the owner.
	for _, r := range sv.Routes() {
		if r.Method == "DELETE" || !isOfSession(r) || strings.HasSuffix(r.Path, "follow") {
			continue
		}
		req := about("alices", r).fill(t, ts.URL, r)
		req.Header.Set("X-Api-Key", "alice-key")
		status, _, body := send(t, req)
		if isElsewhere(r) {
			require.Equal(t, http.StatusNotImplemented, status, "%s %s: %s", r.Method, r.Path, body)
			continue
		}
		require.Contains(t, []int{200, 204, 409, 412}, status, "%s %s: %s", r.Method, r.Path, body) // 409 while the chat is answered, 412 when it was archived
	}
}

// A logbook keeps log records.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(data)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Guessed and hostile names of agents and sessions are not found, and do not count
// as failures of the server.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	logged := &logbook{}
	ts, store, sv := served(t, &serve.Options{Auth: anyone, Respond: echo, Logger: slog.New(slog.NewTextHandler(logged, nil))})
	s := talk(t, store, "one")
	before := state(t, s)
	valid := []string{"On%65", "one.jsonl", "con"} // for a new session
	names := []string{
		"On%65", "one.jsonl", "one%00", "..", "%2e%2e", "..%2fone", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "one%2f", "one%20", "one%0a", "%c0%ae", "C:%5cone",
		"con", "one:x", strings.Repeat("x", 5000), "%F0%9F%A6%84", "%1b%5b2J", "*", "-", ".", "~",
	}
	for i, r := range sv.Routes() {
		if !isOfSession(r) {
			continue
		}
		for j, name := range names {
			if creates(r) && slices.Contains(valid, name) || testing.Short() && (i+j)%3 > 0 {
				continue
			}
			req := target{"main", name, "e"}.fill(t, ts.URL, r)
			status, _, body := send(t, req)
			require.Contains(t, []int{missing(r), 405, 404, 400}, status, "%s %s %s: %s", r.Method, r.Path, name, body)
			if strings.Contains(r.Path, "{agent}") {
				status, _, body = send(t, target{name, "one", "e"}.fill(t, ts.URL, r))
				require.Contains(t, []int{missing(r), 405, 404, 400}, status, "%s %s %s: %s", r.Method, r.Path, name, body)
			}
		}
	}
	for _, id := range []string{"../x", "a/b", "a\x00b", strings.Repeat("x", 5000), "a\nb"} {
		resp := call(t, "POST", ts.URL+"/api/v1/sessions", map[string]string{"session_id": id})
		require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	}
	require.Equal(t, before, state(t, s))
	require.Empty(t, logged.String())
}

// everyRoute sends a request of every route, which must be refused alike.
func everyRoute(t *testing.T, url string, sv *serve.Server, status int, change func(*http.Request)) {
	t.Helper()
	for _, r := range sv.Routes() {
		if r.Public {
			continue
		}
		req := target{"main", "one", "e"}.fill(t, url, r)
		change(req)
		got, _, body := send(t, req)
		require.Equal(t, status, got, "%s %s: %s", r.Method, r.Path, body)
	}
}

// Pages of other sites can do nothing, except those that were chosen.
func TestCrossSite(t *testing.T) {
	t.Parallel()
	ts, store, sv := served(t, &serve.Options{Auth: anyone, Respond: echo, Origins: []string{"https://app.example.com"}})
	before := state(t, talk(t, store, "one"))
	for _, header := range []map[string]string{
		{"Origin": "https://evil.example"},
		{"Origin": "null"},
		{"Origin": "http://127.0.0.1:1"},
		{"Origin": "https://app.example.com.evil.example"},
		{"Sec-Fetch-Site": "cross-site"},
		{"Sec-Fetch-Site": "same-site"},
		{"Sec-Fetch-Site": "cross-site", "Origin": ts.URL},
	} {
		everyRoute(t, ts.URL, sv, http.StatusForbidden, func(r *http.Request) {
			for name, value := range header {
				r.Header.Set(name, value)
			}
		})
	}
	// A form, and a request without a preflight.
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""} {
		for _, r := range sv.Routes() {
			req := target{"main", "one", "e"}.fill(t, ts.URL, r)
			if req.Header.Get("Content-Type") == "" {
				continue
			}
			if req.Header.Set("Content-Type", media); media == "" {
				req.Header.Del("Content-Type")
			}
			status, _, body := send(t, req)
			require.Equal(t, http.StatusUnsupportedMediaType, status, "%s %s: %s", r.Method, r.Path, body)
		}
	}
	s, err := store.Get(t.Context(), session.Ref{Agent: "main", ID: "one"})
	require.NoError(t, err)
	require.Equal(t, before, state(t, s))

	// The page that was chosen asks first, as browsers do, and may read.
	for _, origin := range []string{"https://app.example.com", "https://evil.example"} {
		allowed := ""
		if origin != "https://evil.example" {
			allowed = origin
		}
		resp := call(t, "OPTIONS", ts.URL+"/api/v1/sessions", nil, "Origin", origin, "Access-Control-Request-Method", "POST")
		require.Equal(t, allowed, resp.Header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, allowed != "", resp.StatusCode == http.StatusNoContent)
		resp = call(t, "POST", ts.URL+"/api/v1/sessions", map[string]string{}, "Origin", origin, "Sec-Fetch-Site", "cross-site")
		require.Equal(t, allowed, resp.Header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, allowed != "", resp.StatusCode == http.StatusOK)
	}
}

// Keys are compared as a whole. An unknown one is useless, and is kept out of the
// log.
func TestKeys(t *testing.T) {
	t.Parallel()
	logged := &logbook{}
	ts, _, sv := served(t, &serve.Options{
		Auth:   serve.Keys(map[string]serve.Principal{"right-key": {Owner: "alice"}, "": {Admin: true}, "nobody-key": {}}),
		Logger: slog.New(slog.NewTextHandler(logged, nil)),
	})
	for _, header := range []map[string]string{
		{},
		{"X-Api-Key": ""},
		{"X-Api-Key": "right-ke"},
		{"X-Api-Key": "right-key2"},
		{"X-Api-Key": "RIGHT-KEY"},
		{"X-Api-Key": "nobody-key"},
		{"Authorization": "Bearer"},
		{"Authorization": "Bearer "},
		{"Authorization": "Basic right-key"},
		{"Authorization": "right-key"},
		{"Cookie": "key=right-key"},
		{"X-Api-Key": "wrong-key", "Authorization": "Bearer right-key"},
	} {
		everyRoute(t, ts.URL, sv, http.StatusUnauthorized, func(r *http.Request) {
			for name, value := range header {
				r.Header.Set(name, value)
			}
		})
	}
	for name, value := range map[string]string{"X-Api-Key": "right-key", "Authorization": "bearer right-key"} {
		resp := call(t, "GET", ts.URL+"/v1/store/sessions", nil, name, value)
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	resp := call(t, "GET", ts.URL+"/v1/store/sessions?key=right-key", nil)
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	require.Equal(t, "Bearer", resp.Header.Get("WWW-Authenticate"))
	for line := range strings.Lines(logged.String()) {
		require.Contains(t, line, "serve: refused")
		require.NotContains(t, line, "right-key")
	}
}

// An idempotency key must be short text, because the transcript keeps it.
func TestHostileIdempotencyKey(t *testing.T) {
	t.Parallel()
	ts, store, _ := served(t, nil)
	talk(t, store, "one")
	for key, want := range map[string]int{"\xff": 400, strings.Repeat("k", 256): 400, strings.Repeat("k", 255): 200, "é": 200} {
		resp := call(t, "POST", ts.URL+"/v1/store/sessions/main/one/entries", map[string]string{"role": "user", "content": "x"}, "Idempotency-Key", key)
		require.Equal(t, want, resp.StatusCode)
		resp = call(t, "POST", ts.URL+"/api/agents/main/chat", map[string]string{"message": "x"}, "Idempotency-Key", key)
		require.Equal(t, want, resp.StatusCode)
	}
}

// Answers and lines of the log never contain a path, a key or a text, after any
// failure.
func TestDiscreet(t *testing.T) {
	t.Parallel()
	logged := &logbook{}
	dir := filepath.Join(t.TempDir(), "secret-folder")
	store, err := session.Open(dir, &session.Options{Sync: session.SyncNever})
	require.NoError(t, err)
	talk(t, store, "one")
	require.NoError(t, store.Close())
	broken := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".jsonl") { // a transcript that cannot be read
			broken++
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.Mkdir(path, 0o700))
			return filepath.SkipDir
		}
		return err
	}))
	require.Positive(t, broken)
	store, err = session.Open(dir, &session.Options{Sync: session.SyncNever})
	require.NoError(t, err)
	defer store.Close()
	sv, err := serve.New(store, &serve.Options{
		Surfaces: everything(), Respond: echo, Logger: slog.New(slog.NewTextHandler(logged, nil)),
		Auth: serve.Keys(map[string]serve.Principal{"secret-key": {Admin: true}}),
	})
	require.NoError(t, err)
	ts := httptest.NewServer(sv)
	defer ts.Close()
	failed := 0
	for _, r := range sv.Routes() {
		req := target{"main", "one", "e"}.fill(t, ts.URL, r)
		req.Header.Set("X-Api-Key", "secret-key")
		status, header, body := send(t, req)
		if status == http.StatusInternalServerError {
			failed++
		}
		all := fmt.Sprint(header, body, logged.String())
		for _, secret := range []string{"secret-", "fruit", dir, "test:one"} {
			require.NotContains(t, all, secret, "%s %s", r.Method, r.Path)
		}
	}
	require.Positive(t, failed)
	require.Contains(t, logged.String(), "a request failed")
	require.NoError(t, sv.Close(t.Context()))
}

// Texts cannot become pages, commands of a terminal or events of a stream.
func TestHostileContent(t *testing.T) {
	t.Parallel()
	ts, store, sv := served(t, nil)
	evil := "<script>alert(1)</script>\x1b[2J\x1b]0;owned\x07\r\rdata: {\"type\":\"done\"}\r\n\r\n\n\nid: forged\nevent: entry\ndata: {\"type\":\"done\"}\n\n\u2028\u0085"
	s := talk(t, store, "one")
	require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Title: &evil, Labels: []string{evil}}))
	for range 2 {
		_, err := s.Append(t.Context(), transcript.UserText(evil), &transcript.Response{Message: transcript.AssistantText(evil), StopReason: transcript.StopEndTurn})
		require.NoError(t, err)
	}
	entries, err := search.Page(t.Context(), s, "", -2)
	require.NoError(t, err)
	require.NoError(t, turn.Pin(t.Context(), s, entries[0].ID))
	_, err = memory.Commit(t.Context(), s, nil)
	require.NoError(t, err)
	media := map[string]bool{}
	for _, r := range sv.Routes() {
		if r.Method == "DELETE" || r.Admin {
			continue
		}
		req := target{"main", "one", entries[0].ID}.fill(t, ts.URL, r)
		_, header, body := send(t, req)
		name := r.Method + " " + r.Path
		require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"), name)
		require.Contains(t, header.Get("Content-Security-Policy"), "default-src 'none'", name)
		require.NotContains(t, header.Get("Content-Type"), "html", name)
		require.NotContains(t, body, "\x1b", name)
		require.NotContains(t, body, "\nid: forged", name)
		require.NotContains(t, body, "\ndata: {\"type\":\"done\"}", name)
		if header.Get("Content-Type") == "application/json" || header.Get("Content-Type") == "text/event-stream" {
			require.NotContains(t, body, "<script", name)
		}
		media[header.Get("Content-Type")] = true
	}
	require.Subset(t, []string{"", "application/json", "application/problem+json", "text/event-stream", "text/plain; charset=utf-8", "application/jsonl"}, keysOf(media))
	req, err := http.NewRequestWithContext(t.Context(), "GET", ts.URL+"/v1/store/sessions/main/one/export?as=markdown", nil)
	require.NoError(t, err)
	_, header, text := send(t, req)
	require.NotContains(t, text, "\x1b")
	require.Equal(t, "attachment; filename=one.md", header.Get("Content-Disposition"))

	// The answer echoes the text, but the text cannot forge an event of the stream.
	all := chat(t, ts.URL, map[string]any{"message": strings.ReplaceAll(evil, " ", "_")})
	for i, f := range all {
		require.NotEqual(t, "forged", f.id)
		require.Equal(t, i == len(all)-1, f.typ() == "done")
	}

	// The ID of an imported entry is untrusted.
	var end int64
	for r, err := range s.Scan(t.Context(), session.ScanOptions{}) {
		require.NoError(t, err)
		end = r.End
	}
	e, err := transcript.ParseEntry([]byte(`{"type":"custom","id":"x\ndata: forged\n\n","ts":"2026-01-01T00:00:00Z","name":"n","data":{}}`))
	require.NoError(t, err)
	if _, err := s.AppendLines(t.Context(), end, e); err == nil {
		resp := call(t, "GET", ts.URL+"/v1/store/sessions/main/one/follow?after="+entries[1].ID, nil)
		buffer := make([]byte, 64<<10)
		n, _ := io.ReadAtLeast(resp.Body, buffer, 200)
		require.NotContains(t, string(buffer[:n]), "\ndata: forged")
	}
}

func keysOf(m map[string]bool) (keys []string) {
	for k := range maps.Keys(m) {
		keys = append(keys, k)
	}
	return keys
}
