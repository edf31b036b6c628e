package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/examples/internal/token"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
)

// started runs the program until the test ends or calls stop.
func started(t *testing.T, dir string, c Config) (url string, stop func() error) {
	t.Helper()
	store, err := session.Open(dir, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	addr, done := make(chan string, 1), make(chan error, 1)
	go func() { done <- errors.Join(Run(ctx, c, store, func(url, _ string) { addr <- url }), store.Close()) }()
	select {
	case a := <-addr:
		return a, func() error { cancel(); return <-done }
	case err := <-done:
		t.Fatal(err)
	}
	return "", nil
}

// say returns the data of the events that answer a text.
func say(t *testing.T, url, body string, header ...string) (events []string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/agents/main/chat", bytes.NewBufferString(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return []string{resp.Status}
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			events = append(events, data)
		}
	}
	return events
}

// A server is stopped while it answers, and the next one continues.
func TestServer(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), Config{Addr: "localhost:0", Token: "your-key", Model: "scripted", Window: 100_000, Grace: time.Minute}
	url, stop := started(t, dir, c)
	all := strings.Join(say(t, url, `{"message":"time"}`, "X-API-Key", "your-key"), "\n")
	require.Contains(t, all, `"tool_call":{"id":`)
	require.Contains(t, all, "UTC")
	require.Contains(t, all, `"type":"done"`)
	require.NoError(t, stop())

	url, stop = started(t, dir, c)
	events := say(t, url, `{"message":"hello"}`, "X-API-Key", "your-key")
	require.Contains(t, events[len(events)-1], `"type":"done"`)
	require.NoError(t, stop())
}

// Without keys a server wants the token that it makes. It is in the link of the page, and
// in the folder while the server runs.
func TestToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link, stop := started(t, dir, Config{Addr: "localhost:0", Dir: dir, Page: true, Model: "scripted", Grace: time.Minute})
	u, err := url.Parse(link)
	require.NoError(t, err)
	made, ok := strings.CutPrefix(u.Fragment, "token=")
	require.True(t, ok, link)
	require.Equal(t, []string{"401 Unauthorized"}, say(t, "http://"+u.Host, `{"message":"x"}`))
	events := say(t, "http://"+u.Host, `{"message":"x"}`, "X-API-Key", made)
	require.Contains(t, events[len(events)-1], `"type":"done"`)
	require.Equal(t, made, token.Find(dir, u))
	require.NoError(t, stop())
	require.Empty(t, token.Find(dir, u))
}

// Files are at the root, without a token, and leave the routes of the store as they are.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "index.html"), []byte("page"), 0o600))
	link, stop := started(t, t.TempDir(), Config{Addr: "localhost:0", Token: "your-key", Files: http.FileServer(http.Dir(dir)), Grace: time.Minute})
	require.True(t, strings.HasSuffix(link, "/#token=your-key"), link)
	url, _, _ := strings.Cut(link, "/#")
	for path, status := range map[string]int{"/": 200, "/x": 404, "/api/chat/c/stream": 401, "/v1/store/sessions": 401, "/openapi.json": 401} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, http.NoBody)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, status, resp.StatusCode, path)
	}
	require.NoError(t, stop())
}

// A server prints the token that it has made, and no given token.
func TestSaid(t *testing.T) {
	t.Parallel()
	const url = "http://localhost/#token=secret"
	require.Equal(t, url+"\ntoken secret\n", (&Config{}).said(url, "secret"))
	for _, c := range []*Config{{Token: "secret"}, {Token: "secret", Keys: "file"}} {
		require.Equal(t, "http://localhost/\n", c.said(url, "secret"))
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte("# who\nsecret anna\n\nroot *\n"), 0o600))
	keys, err := readKeys(file)
	require.NoError(t, err)
	require.Equal(t, map[string]serve.Principal{"secret": {Owner: "anna"}, "root": {Admin: true}}, keys)
	require.NoError(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	_, err = readKeys(file)
	require.ErrorContains(t, err, ":1:")
	require.NoError(t, os.WriteFile(file, []byte("root *\nsecret default\n"), 0o600))
	_, err = readKeys(file)
	require.ErrorContains(t, err, ":2: the sessions of an administrator")
	require.NoError(t, os.WriteFile(file, []byte("secret default\n"), 0o600))
	_, err = readKeys(file)
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(file, []byte("secret anna\n"), 0o600))
	url, stop := started(t, t.TempDir(), Config{Addr: "localhost:0", Keys: file, Model: "scripted"})
	require.Equal(t, []string{"401 Unauthorized"}, say(t, url, `{"message":"x"}`))
	require.NotEmpty(t, say(t, url, `{"message":"x"}`, "X-API-Key", "secret"))

	// Another key replaces it while the server runs. A broken file admits no key, and one
	// that is being written changes nothing.
	for _, step := range []struct {
		content string
		want    [2]int
	}{
		{"new anna\n", [2]int{401, 200}},
		{"", [2]int{401, 200}},
		{"secret ann", [2]int{401, 200}},
		{"secret anna\nnew\n", [2]int{401, 401}},
		{"secret anna\nnew anna\n", [2]int{200, 200}},
	} {
		require.NoError(t, os.WriteFile(file, []byte(step.content), 0o600))
		for i, key := range []string{"secret", "new"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/store/sessions", http.NoBody)
			require.NoError(t, err)
			req.Header.Set("X-Api-Key", key)
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, step.want[i], resp.StatusCode, step.content)
		}
	}
	require.NoError(t, stop())
}

// The context of a chat is in the system prompt of its own turn.
func TestContext(t *testing.T) {
	t.Parallel()
	c := Config{Addr: "localhost:0", Token: "your-key", Model: "scripted", Window: 100_000, Grace: time.Minute}
	url, stop := started(t, t.TempDir(), c)
	all := say(t, url, `{"message":"page","context":"page: payment.py"}`, "X-API-Key", "your-key")
	require.Contains(t, deltas(t, all), "payment.py")
	var done struct{ SessionID string }
	require.NoError(t, json.Unmarshal([]byte(all[len(all)-1]), &done))
	all = say(t, url, `{"message":"page","sessionId":"`+done.SessionID+`"}`, "X-API-Key", "your-key")
	require.NotContains(t, deltas(t, all), "payment.py")
	require.NoError(t, stop())
}

// deltas returns the text of events.
func deltas(t *testing.T, events []string) (text string) {
	t.Helper()
	for _, e := range events {
		var one struct{ Text string }
		require.NoError(t, json.Unmarshal([]byte(e), &one))
		text += one.Text
	}
	return text
}

// A commit extracts memories of the user default, and the next search finds them.
func TestMemories(t *testing.T) {
	t.Parallel()
	c := Config{Addr: "localhost:0", Token: "your-key", Model: "scripted", Window: 100_000, Grace: time.Minute, Memories: t.TempDir()}
	url, stop := started(t, t.TempDir(), c)
	ask := func(path, body string) (result map[string]any) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v1/"+path, bytes.NewBufferString(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-API-Key", "your-key")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
		var answer struct{ Result map[string]any }
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
		return answer.Result
	}
	events := say(t, url, `{"message":"I prefer green tea."}`, "X-API-Key", "your-key")
	var last struct{ SessionID string }
	require.NoError(t, json.Unmarshal([]byte(events[len(events)-1]), &last))
	require.EqualValues(t, 1, ask("sessions/"+last.SessionID+"/commit", `{}`)["memories_extracted"])
	found := ask("search/search", `{"query":"tea"}`)["memories"].([]any)
	require.Len(t, found, 1)
	require.Equal(t, "I prefer green tea.", found[0].(map[string]any)["abstract"])
	require.NoError(t, stop())
	require.DirExists(t, filepath.Join(c.Memories, "owners", "default"))
}
