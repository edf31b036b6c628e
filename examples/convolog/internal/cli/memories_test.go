package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/examples/internal/remember"
	"github.com/convolog/convolog/guard/guardtest"
)

// A server with --memories extracts them at a commit over OpenViking's routes, for the
// user default, and an erase of that owner in the folder removes them.
func TestServeMemories(t *testing.T) {
	model := &guardtest.Model{Answer: func(r guardtest.Request) guardtest.Answer {
		return guardtest.Say(remember.Candidates(r.UserText()))
	}}
	service := httptest.NewServer(model)
	defer service.Close()
	sh := overFolder(t)
	sh.must(0, "session", "new", "--id", "alpha")
	sh.must(exitUsage, "serve", "--memories", service.URL)
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		args := []string{"serve", "--addr", "127.0.0.1:0", "--json", "--token", "k", "--memories", service.URL, "--model", "m"}
		code <- run(ctx, append(args, sh.store...), sh.console(w, io.Discard))
	}()
	var said struct{ URL string }
	require.NoError(t, json.NewDecoder(r).Decode(&said))
	ask := func(method, path, body string) (result map[string]any) {
		req, err := http.NewRequestWithContext(t.Context(), method, said.URL+"/api/v1/"+path, bytes.NewBufferString(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Api-Key", "k")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
		var answer struct{ Result map[string]any }
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
		return answer.Result
	}
	ask("POST", "sessions/one/messages", `{"role":"user","content":"Hello! I prefer green tea."}`)
	done := ask("POST", "sessions/one/commit", ``)
	require.EqualValues(t, 1, done["memories_extracted"], done)
	require.Len(t, ask("POST", "search/search", `{"query":"green tea"}`)["memories"], 1)
	ask("POST", "sessions/alpha/messages", `{"role":"user","content":"I live in Porto."}`)
	done = ask("POST", "sessions/alpha/commit", ``)
	require.Equal(t, "no_owner", done["memories_reason"])
	cancel()
	require.Zero(t, <-code)

	files := func() (found []string) {
		root := filepath.Join(sh.dir, "memories")
		require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				data, readErr := os.ReadFile(name)
				require.NoError(t, readErr)
				if strings.Contains(string(data), "tea") {
					found = append(found, name)
				}
			}
			return err
		}))
		return found
	}
	require.NotEmpty(t, files())
	sh.must(0, "doctor")
	sh.must(0, "erase", "--owner", "default", "--yes")
	require.Empty(t, files())
	sh.must(exitAbsent, "session", "show", "one")
}
