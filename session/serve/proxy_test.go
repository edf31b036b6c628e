package serve_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/serve"
)

// proxied runs nginx with only a proxy_pass to a server, and returns the URL of nginx.
func proxied(t *testing.T, server string) (url string) {
	t.Helper()
	const program = "/usr/sbin/nginx"
	if _, err := os.Stat(program); err != nil {
		if *faults == "gate" {
			t.Fatal("nginx is not installed")
		}
		t.Skip("nginx is not installed (Debian: apt-get install nginx)")
	}
	dir, addr, temporary := t.TempDir(), freeAddr(t), ""
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temporary += fmt.Sprintf("%s_temp_path %s/%[1]s; ", name, dir)
	}
	config := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `daemon off; pid %s/pid; error_log stderr; events {}
http { access_log off; %s server { listen %s; location / { proxy_pass %s; } } }`, dir, temporary, addr, server), 0o600))
	var said strings.Builder
	cmd := exec.Command(program, "-e", "stderr", "-p", dir, "-c", config)
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait()
		t.Log(said.String())
	})
	url = "http://" + addr
	require.Eventually(t, func() bool {
		resp, err := http.Get(url)
		return err == nil && resp.Body.Close() == nil
	}, soon, soon/1000)
	return url
}

// A plain proxy makes nobody an administrator: to the server its requests come from this
// machine, and it wants the token for each. With the token all is as without a proxy,
// and streams come event by event.
func TestProxy(t *testing.T) {
	t.Parallel()
	ts, store, sv := served(t, &serve.Options{
		Respond: echo, Surfaces: append(everything(), serve.Page()), Auth: serve.Keys(map[string]serve.Principal{"token": {Admin: true}}),
	})
	before := talk(t, store, "one")
	was := state(t, before)
	url := proxied(t, ts.URL)
	for _, r := range sv.Routes() {
		if r.Public {
			continue
		}
		req := target{"main", "one", "e"}.fill(t, url, r)
		req.Host = "convolog.public.example"
		status, _, body := send(t, req)
		require.Equal(t, http.StatusUnauthorized, status, "%s %s: %s", r.Method, r.Path, body)
	}
	require.Equal(t, was, state(t, before))

	const chat = "/api/agents/main/chat"
	resp := call(t, "POST", url+chat, map[string]any{"message": "so far wait", "sessionId": "one"}, "X-Api-Key", "token")
	var types []string
	require.NoError(t, frames(resp.Body, func(f frame) bool {
		if types = append(types, f.typ()); len(types) == 2 {
			stop := call(t, "DELETE", url+chat+"?sessionId=one", nil, "X-Api-Key", "token")
			require.Equal(t, http.StatusOK, stop.StatusCode)
		}
		return true
	}))
	require.Equal(t, []string{"text_delta", "text_delta", "error", "done"}, types)
}
