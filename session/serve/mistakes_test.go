package serve_test

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/serve"
)

// A mistake of a client is a 4xx that names the member, and no error in the log.
func TestMistakes(t *testing.T) {
	t.Parallel()
	logged := &logbook{}
	ts, store, _ := served(t, &serve.Options{
		Respond: echo, Logger: slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelError})),
		Auth: serve.Keys(map[string]serve.Principal{"alice-key": {Owner: "alice"}, "bob-key": {Owner: "bob"}, "admin-key": {Admin: true}}),
	})
	talk(t, store, "one")
	const one = "/v1/store/sessions/main/one"
	for _, tt := range []struct {
		key, method, path, body string
		status                  int
		pointer                 string
	}{
		{"bob", "POST", "/v1/store/sessions", `{"owner":"alice"}`, 400, "#/owner"},
		{"alice", "POST", "/v1/store/sessions", `{"titel":"x"}`, 400, "#/titel"},
		{"alice", "POST", "/v1/store/sessions", `{"title":7}`, 400, "#/title"},
		{"alice", "POST", "/v1/store/sessions", `{"labels":["a","` + strings.Repeat("l", 257) + `"]}`, 400, "#/labels/1"},
		{"alice", "POST", "/v1/store/sessions", `{"key":"main:http:` + strings.Repeat("p", 1024) + `"}`, 400, "#/key"},
		{"alice", "GET", "/v1/store/sessions?limit=x", "", 400, "#/limit"},
		{"alice", "GET", "/v1/store/sessions?limit=", "", 400, "#/limit"},
		{"alice", "GET", "/v1/store/sessions?since=yesterday", "", 400, "#/since"},
		{"alice", "POST", "/v1/store/search", `{"text":"a","since":"yesterday"}`, 400, "#/since"},
		{"alice", "POST", "/v1/store/search", `{"text":"a","a/b":1}`, 400, "#/a~1b"},
		{"alice", "GET", "/v1/store/sessions?agent=main;owner=bob", "", 400, ""},
		{"alice", "GET", "/v1/store/sessions?agent=%zz", "", 400, ""},
		{"alice", "POST", "/v1/store/sessions", `{}]`, 400, ""},
		{"alice", "GET", "/v1/store/sessions?lmit=1", "", 400, "#/lmit"},
		{"alice", "PATCH", one, `{}`, 400, ""},
		{"alice", "PATCH", one, `{"title":"` + strings.Repeat("t", 1025) + `"}`, 400, "#/title"},
		{"alice", "POST", one + "/rewind", `{"turns":1000000}`, 400, "#/turns"},
		{"alice", "POST", one + "/rewind", `{"entry":"none"}`, 404, ""},
		{"alice", "POST", one + "/fork", `{"ttl":-1}`, 400, "#/ttl"},
		{"alice", "POST", one + "/search", `{"regexp":"` + strings.Repeat("a?", 50_000) + `b"}`, 400, ""},
		{"alice", "POST", one + "/entries", `{"role":"user","parts":[{"type":"context","uri":"a","context_type":"nonsense"}]}`, 400, ""},
		{"alice", "POST", "/api/v1/sessions/one/used", `{}`, 400, ""},
		{"alice", "POST", "/api/v1/sessions/one/used", `{"contexts":[""]}`, 400, ""},
		{"alice", "POST", "/api/v1/sessions/one/used", `{"skill":{}}`, 400, ""},
		{"alice", "POST", "/api/v1/sessions/one/messages", `{"role":"user","content":7}`, 400, ": #/content"},
		{"alice", "POST", "/api/v1/sessions/one/messages/batch", `{"messages":[{"role":7}]}`, 400, ": #/messages/role"},
		{"alice", "GET", "/api/v1/sessions/one/tool-results?limit=0", "", 400, ""},
		{"alice", "GET", "/api/v1/fs/ls?uri=viking://session/;limit=1", "", 400, ""},
		{"admin", "POST", "/v1/store/erase", `{}`, 400, ""},
		{"admin", "POST", "/v1/store/erase/apply", `{}`, 400, ""},
	} {
		status, answer := (&asker{TB: t, url: ts.URL, key: tt.key + "-key"}).raw(tt.method, tt.path, "application/json", []byte(tt.body))
		require.Equal(t, tt.status, status, "%s %s: %s", tt.method, tt.path, answer)
		require.Equal(t, tt.pointer != "", strings.Contains(string(answer), `#/`), "%s %s: %s", tt.method, tt.path, answer)
		require.Contains(t, string(answer), tt.pointer)
	}
	for _, query := range []string{"limit=-1", "limit=-1&label=nosuch"} { // a limit below 1 is the default
		newAsker(t, ts, "bob-key").ask(http.StatusOK, "GET", "/v1/store/sessions?"+query, nil, nil)
	}
	require.Empty(t, logged.String())
}

// The detail of a mistake is the text of an error, without its paths.
func TestMistakeHidesPaths(t *testing.T) {
	t.Parallel()
	ts, _, _ := served(t, &serve.Options{Auth: anyone, ChannelLogs: func(context.Context, serve.ChannelQuery) (any, error) {
		return nil, &fs.PathError{Op: "open", Path: "/secret-folder/log", Err: fs.ErrInvalid}
	}})
	status, answer := (&asker{TB: t, url: ts.URL}).raw("GET", "/v1/store/channels", "", nil)
	require.Equal(t, http.StatusBadRequest, status, "%s", answer)
	require.Contains(t, string(answer), `"detail":"open ...: invalid`)
}
