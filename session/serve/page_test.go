package serve_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/zyhive/convlog"
)

// pageServed is a server with the page, below a prefix.
func pageServed(t testing.TB, change func(*serve.Options)) (*httptest.Server, *serve.Server) {
	t.Helper()
	opts := &serve.Options{
		Surfaces: []serve.Surface{serve.Page()},
		Auth:     serve.Keys(map[string]serve.Principal{"alice-key": {Owner: "alice"}, "bob; ü": {Owner: "bob"}, "admin-key": {Admin: true}, "agent-key": {Admin: true, Agents: []string{"main"}}}),
	}
	if change != nil {
		change(opts)
	}
	_, store, sv := served(t, opts)
	talk(t, store, "one")
	ts := httptest.NewServer(http.StripPrefix("/talks", sv))
	t.Cleanup(ts.Close)
	return ts, sv
}

// askPage sends a request with headers: names and values in turn.
func askPage(t testing.TB, c *http.Client, method, url string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var body strings.Builder
	_, err = io.Copy(&body, resp.Body)
	require.NoError(t, err)
	return resp, body.String()
}

// The page is off by default. At / and /page it is one file, the same for all clients,
// whose policy allows its own script and style and nothing else.
func TestPage(t *testing.T) {
	t.Parallel()
	ts, _, _ := served(t, nil)
	for _, path := range []string{"/page", "/"} {
		resp := call(t, "GET", ts.URL+path, nil)
		require.Equal(t, http.StatusNotFound, resp.StatusCode)
		require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
	}
	ts, sv := pageServed(t, nil)
	for _, headers := range [][]string{nil, {"X-API-Key", "wrong"}, {"Sec-Fetch-Site", "cross-site"}} {
		for _, path := range []string{"page", ""} {
			resp, body := askPage(t, http.DefaultClient, "GET", ts.URL+"/talks/"+path, headers...)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
			require.NotContains(t, body, "fruit")
			policy := resp.Header.Get("Content-Security-Policy")
			require.Regexp(t, `^default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'sha256-[^ ']+'; script-src 'sha256-[^ ']+'; connect-src 'self'; frame-ancestors 'none'$`, policy)
			require.Empty(t, regexp.MustCompile(`(?i)https?://|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|\son[a-z]+=["']`).FindString(body))
		}
	}
	// Every other path is answered in JSON.
	for _, path := range []string{"/talks/x", "/talks/page/", "/talks/v1/", "/talks/index.html"} {
		resp, body := askPage(t, http.DefaultClient, "GET", ts.URL+path, "X-API-Key", "alice-key", "Accept", "text/html")
		require.Equal(t, http.StatusNotFound, resp.StatusCode, path)
		require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"), path)
		require.Contains(t, body, `"code":"NO_ROUTE"`, path)
		require.Equal(t, "default-src 'none'; frame-ancestors 'none'", resp.Header.Get("Content-Security-Policy"), path)
	}
	resp, body := askPage(t, http.DefaultClient, "POST", ts.URL+"/talks/", "X-API-Key", "alice-key")
	require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
	require.Contains(t, body, `"code"`)
	for _, r := range sv.Routes() { // Page brings Own, and nothing of it is public
		if r.Public {
			require.Contains(t, []string{"/{$}", "/page", "/page/key"}, r.Path)
			continue
		}
		req := target{"main", "one", "e"}.fill(t, ts.URL+"/talks", r)
		status, _, body := send(t, req)
		require.Equal(t, http.StatusUnauthorized, status, "%s %s: %s", r.Method, r.Path, body)
	}
}

// A key is kept in a cookie that no script reads and no other site sends; with it the
// page is who the key is for, also for streams, and until it signs out.
func TestPageKey(t *testing.T) {
	t.Parallel()
	ts, _ := pageServed(t, nil)
	at := ts.URL + "/talks/"
	for key, sees := range map[string]string{"alice-key": `"one"`, "bob; ü": `"sessions":[]`} {
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		c := &http.Client{Jar: jar}
		_, body := askPage(t, c, "GET", at+"page/key")
		require.JSONEq(t, `{"known":false,"cookie":false,"channelLogs":false}`, body)
		resp, _ := askPage(t, c, "POST", at+"page/key", "X-API-Key", "wrong")
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
		resp, _ = askPage(t, c, "POST", at+"page/key", "X-API-Key", key, "Sec-Fetch-Site", "same-site")
		require.Equal(t, http.StatusForbidden, resp.StatusCode)
		require.Empty(t, resp.Header.Values("Set-Cookie"))
		resp, _ = askPage(t, c, "POST", at+"page/key", "X-API-Key", key)
		require.Equal(t, http.StatusNoContent, resp.StatusCode)
		require.Regexp(t, `^convolog-key=[A-Za-z0-9_-]+; Path=/talks/; HttpOnly; SameSite=Strict$`, resp.Header.Get("Set-Cookie"))
		_, body = askPage(t, c, "GET", at+"page/key")
		require.JSONEq(t, `{"known":true,"cookie":true,"channelLogs":false}`, body)
		_, body = askPage(t, c, "GET", at+"v1/store/sessions")
		require.Contains(t, body, sees)
		resp, _ = askPage(t, c, "GET", at+"v1/store/sessions", "X-API-Key", "wrong") // a header counts more
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
		for _, site := range []string{"cross-site", "same-site"} {
			resp, _ = askPage(t, c, "GET", at+"v1/store/sessions", "Sec-Fetch-Site", site)
			require.Equal(t, http.StatusForbidden, resp.StatusCode)
		}
		resp, _ = askPage(t, c, "DELETE", at+"page/key")
		require.Equal(t, http.StatusNoContent, resp.StatusCode)
		resp, _ = askPage(t, c, "GET", at+"v1/store/sessions")
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	}
	// Without the page no cookie is a key.
	ts2, store, _ := withKeys(t)
	talk(t, store, "one")
	resp, _ := askPage(t, http.DefaultClient, "GET", ts2.URL+"/v1/store/sessions", "Cookie", "convolog-key=YWxpY2Uta2V5")
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	resp, _ = askPage(t, http.DefaultClient, "GET", at+"v1/store/sessions", "Cookie", "convolog-key=YWxpY2Uta2V5")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	resp, _ = askPage(t, http.DefaultClient, "GET", at+"v1/store/sessions", "Cookie", "convolog-key=%%")
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
}

// The context of a session shows the content of its window, and an export in HTML
// comes as a file that is saved.
func TestPageRoutes(t *testing.T) {
	t.Parallel()
	ts, _ := pageServed(t, nil)
	a := newAsker(t, &httptest.Server{URL: ts.URL + "/talks"}, "alice-key")
	a.doc.Paths = nil // they are below a prefix
	var c struct {
		Parts []struct {
			Kind   string
			Tokens int
		}
		Entries     int
		Compactions []any
	}
	a.ask(200, "GET", "/v1/store/sessions/main/one/context", nil, &c)
	require.Equal(t, 6, c.Entries)
	require.Equal(t, []string{"user", "assistant"}, []string{c.Parts[0].Kind, c.Parts[1].Kind})
	require.Empty(t, c.Compactions)
	a.ask(404, "GET", "/v1/store/sessions/main/none/context", nil, nil)
	resp, body := askPage(t, http.DefaultClient, "GET", ts.URL+"/talks/v1/store/sessions/main/one/export?as=html", "X-API-Key", "alice-key")
	require.Equal(t, `attachment; filename=one.html`, resp.Header.Get("Content-Disposition"))
	require.Equal(t, "text/plain; charset=utf-8", resp.Header.Get("Content-Type"))
	require.Equal(t, "default-src 'none'; frame-ancestors 'none'", resp.Header.Get("Content-Security-Policy"))
	require.Contains(t, body, "the banana is a fruit")
}

// The logs of channels are for administrators who may use all agents.
func TestChannelLogs(t *testing.T) {
	t.Parallel()
	var asked []serve.ChannelQuery
	before := ""
	ts, _ := pageServed(t, func(o *serve.Options) {
		o.ChannelLogs = func(_ context.Context, q serve.ChannelQuery) (any, error) {
			asked = append(asked, q)
			return []string{"said"}, nil
		}
	})
	at := ts.URL + "/talks/v1/store/channels"
	for _, key := range []string{"alice-key", "agent-key"} {
		for _, path := range []string{"", "/messages?agent=main&type=web&chat=x"} {
			resp, body := askPage(t, http.DefaultClient, "GET", at+path, "X-API-Key", key)
			require.Equal(t, http.StatusForbidden, resp.StatusCode)
			require.NotContains(t, body, "said")
		}
	}
	require.Empty(t, asked)
	_, body := askPage(t, http.DefaultClient, "GET", at+"?agent=main", "X-API-Key", "admin-key")
	require.JSONEq(t, `{"channels":["said"]}`, body)
	_, body = askPage(t, http.DefaultClient, "GET", at+"/messages?"+url.Values{"agent": {"main"}, "type": {"web"}, "chat": {"../x/"}, "before": {"0:9"}}.Encode(), "X-API-Key", "admin-key")
	require.JSONEq(t, `{"messages":["said"]}`, body)
	require.Equal(t, []serve.ChannelQuery{{Agent: "main"}, {Agent: "main", Type: "web", Chat: "../x/", Before: "0:9", Limit: 100}}, asked)
	for _, path := range []string{"/messages", "/messages?agent=main&type=web", "?chat=x"} {
		resp, _ := askPage(t, http.DefaultClient, "GET", at+path, "X-API-Key", "admin-key")
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, path)
	}
	_, body = askPage(t, http.DefaultClient, "GET", ts.URL+"/talks/page/key", "X-API-Key", "admin-key")
	require.JSONEq(t, `{"known":true,"cookie":false,"channelLogs":true}`, body)
	// The reader of the example, over real logs.
	dir := t.TempDir()
	w, err := convlog.OpenWriter(dir, nil)
	require.NoError(t, err)
	require.NoError(t, w.Append(t.Context(), convlog.Channel{Agent: "main", Type: "web", Chat: "a/b"}, convlog.Entry{Role: "user", Content: "one"}, convlog.Entry{Role: "assistant", Content: "two"}))
	require.NoError(t, w.Close())
	logs, err := convlog.Open(dir)
	require.NoError(t, err)
	defer logs.Close()
	ts, _ = pageServed(t, func(o *serve.Options) { o.ChannelLogs = channelLogs(logs) })
	at = ts.URL + "/talks/v1/store/channels"
	_, body = askPage(t, http.DefaultClient, "GET", at, "X-API-Key", "admin-key")
	require.Contains(t, body, `"chat":"a/b"`)
	for _, want := range []string{"two", "one", ""} {
		var page struct {
			Messages []struct{ Content, Place string }
		}
		_, body = askPage(t, http.DefaultClient, "GET", at+"/messages?agent=main&type=web&chat=a%2Fb&limit=1&before="+before, "X-API-Key", "admin-key")
		require.NoError(t, json.Unmarshal([]byte(body), &page))
		if want == "" {
			require.Empty(t, page.Messages)
			break
		}
		require.Equal(t, want, page.Messages[0].Content)
		before = page.Messages[0].Place
	}
	// Without a reader there is nothing to read.
	ts, _ = pageServed(t, nil)
	resp, _ := askPage(t, http.DefaultClient, "GET", ts.URL+"/talks/v1/store/channels", "X-API-Key", "admin-key")
	require.Equal(t, http.StatusNotImplemented, resp.StatusCode)
}

// The document lists the routes of the page.
func TestPageDocument(t *testing.T) {
	t.Parallel()
	ts, _, sv := served(t, &serve.Options{Auth: anyone, Surfaces: []serve.Surface{serve.Page()}})
	raw := decode(t, call(t, "GET", ts.URL+"/openapi.json", nil))
	paths := raw["paths"].(map[string]any)
	for _, r := range sv.Routes() {
		require.Contains(t, paths[strings.TrimSuffix(r.Path, "{$}")], strings.ToLower(r.Method), r.Path)
	}
	require.Contains(t, paths, "/")
	checkRefs(t, raw, raw)
}
