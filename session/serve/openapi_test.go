package serve_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/serve"
)

type document struct {
	OpenAPI string `json:"openapi"`
	Info    struct{ Title, Version string }
	Paths   map[string]map[string]struct {
		Summary     string
		Parameters  []struct{ Name, In string }
		RequestBody struct{ Content map[string]any }
		Responses   map[string]struct{ Content map[string]any }
	}
	Components struct {
		Schemas   map[string]any
		Responses map[string]any
	}
}

func readDocument(t testing.TB, data []byte) (d document) {
	t.Helper()
	require.NoError(t, json.Unmarshal(data, &d))
	require.Equal(t, "3.1.0", d.OpenAPI)
	return d
}

// fits reports whether a path is one of a template.
func fits(path, template string) bool {
	is, want := strings.Split(path, "/"), strings.Split(template, "/")
	if len(is) != len(want) {
		return false
	}
	for i := range is {
		if !strings.HasPrefix(want[i], "{") && is[i] != want[i] {
			return false
		}
	}
	return true
}

// check holds an answer against the document.
func (d document) check(t testing.TB, req *http.Request, resp *http.Response) {
	t.Helper()
	for template, operations := range d.Paths {
		op, ok := operations[strings.ToLower(req.Method)]
		if !ok || !fits(req.URL.EscapedPath(), template) {
			continue
		}
		answer, said := op.Responses[strconv.Itoa(resp.StatusCode)]
		require.True(t, said || resp.StatusCode >= 400, "%s %s: %s", req.Method, template, resp.Status)
		if said && resp.StatusCode != http.StatusNoContent {
			require.Contains(t, answer.Content, resp.Header.Get("Content-Type"), "%s %s", req.Method, template)
		}
		if resp.StatusCode < 300 {
			for name := range req.URL.Query() {
				require.True(t, slices.ContainsFunc(op.Parameters, func(p struct{ Name, In string }) bool { return p.Name == name && p.In == "query" }) ||
					!strings.HasPrefix(template, "/v1/store"), "%s %s: %s", req.Method, template, name)
			}
		}
		return
	}
	require.Failf(t, "not documented", "%s %s", req.Method, req.URL.Path)
}

// The document lists exactly the served routes, for every choice.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	all := everything()
	for n := range 1 << len(all) {
		surfaces := []serve.Surface{}
		for i, s := range all {
			if n&(1<<i) != 0 {
				surfaces = append(surfaces, s)
			}
		}
		ts, _, sv := served(t, &serve.Options{Auth: anyone, Surfaces: surfaces})
		resp := call(t, "GET", ts.URL+"/openapi.json", nil)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		raw := decode(t, resp)
		data, err := json.Marshal(raw)
		require.NoError(t, err)
		doc := readDocument(t, data)
		n := 0
		for _, r := range sv.Routes() {
			r.Path = strings.TrimSuffix(r.Path, "{$}")
			op, ok := doc.Paths[r.Path][strings.ToLower(r.Method)]
			require.True(t, ok, "%s %s is not documented", r.Method, r.Path)
			require.Equal(t, r.Summary, op.Summary)
			for media, content := range op.Responses["200"].Content {
				require.NotEmpty(t, content.(map[string]any)["schema"], "%s %s: %s", r.Method, r.Path, media)
			}
			for part := range strings.SplitSeq(r.Path, "/") {
				if name, ok := strings.CutPrefix(part, "{"); ok {
					require.Contains(t, op.Parameters, struct{ Name, In string }{strings.TrimSuffix(name, "}"), "path"})
				}
			}
			n++
		}
		for path, operations := range doc.Paths {
			for method := range operations {
				n--
				req, err := http.NewRequestWithContext(t.Context(), strings.ToUpper(method), ts.URL+strings.NewReplacer("{", "", "}", "").Replace(path), nil)
				require.NoError(t, err)
				resp, err := http.DefaultClient.Do(req)
				require.NoError(t, err)
				if resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed {
					body := decode(t, resp)
					require.NotContains(t, []any{"NO_ROUTE", "METHOD_NOT_ALLOWED"}, body["code"], path)
				}
				require.NoError(t, resp.Body.Close())
			}
		}
		require.Zero(t, n)
		checkRefs(t, raw, raw)
	}
}

// Below a prefix everything works, and the document names it.
func TestPrefix(t *testing.T) {
	t.Parallel()
	_, _, sv := served(t, nil)
	ts := httptest.NewServer(http.StripPrefix("/talks", sv))
	defer ts.Close()
	doc := decode(t, call(t, "GET", ts.URL+"/talks/openapi.json", nil))
	require.Equal(t, []any{map[string]any{"url": "/talks"}}, doc["servers"])
	require.Equal(t, http.StatusOK, call(t, "GET", ts.URL+"/talks/v1/store/sessions?limit=1", nil).StatusCode)
	require.Equal(t, http.StatusNotFound, call(t, "GET", ts.URL+"/v1/store/sessions", nil).StatusCode)
	require.Equal(t, http.StatusMethodNotAllowed, call(t, "PUT", ts.URL+"/talks/v1/store/sessions", nil).StatusCode)
}

// checkRefs finds references to nothing.
func checkRefs(t *testing.T, root map[string]any, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			at := any(root)
			for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
				at = at.(map[string]any)[name]
			}
			require.NotNil(t, at, ref)
		}
		for _, inner := range v {
			checkRefs(t, root, inner)
		}
	case []any:
		for _, inner := range v {
			checkRefs(t, root, inner)
		}
	}
}

// Paths and methods that no route has get problems.
func TestNoRoute(t *testing.T) {
	t.Parallel()
	ts, _, _ := served(t, nil)
	for _, path := range []string{"/", "/x", "/v1/store", "/v1/store/sessions/", "/api//sessions", "/api/v1/../v1/sessions", "/v1/store/sessions/a/b/c/d/e"} {
		resp := call(t, "GET", ts.URL+path, nil)
		require.Equal(t, http.StatusNotFound, resp.StatusCode, path)
		require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
		require.Equal(t, "NO_ROUTE", decode(t, resp)["code"])
	}
	for _, method := range []string{"PUT", "HEAD", "OPTIONS", "TRACE", "FOO"} {
		resp := call(t, method, ts.URL+"/v1/store/usage", nil)
		require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode, method)
		require.Contains(t, resp.Header.Get("Allow"), "GET")
		if method != "HEAD" {
			require.Equal(t, "METHOD_NOT_ALLOWED", decode(t, resp)["code"])
		}
	}
}

// Public routes need no key in the document, and its servers are the prefix alone.
func TestOpenAPIServers(t *testing.T) {
	t.Parallel()
	_, _, sv := served(t, &serve.Options{Surfaces: []serve.Surface{serve.Page()}, Auth: serve.Keys(map[string]serve.Principal{"key": {Admin: true}})})
	for uri, want := range map[string]any{"/below/openapi.json?x=1": []any{map[string]any{"url": "/below"}}, "/openapi.json?x=1": nil} {
		req := httptest.NewRequest(http.MethodGet, uri, http.NoBody)
		req.Header.Set("X-Api-Key", "key")
		answer := httptest.NewRecorder()
		http.StripPrefix(strings.TrimSuffix(req.URL.Path, "/openapi.json"), sv).ServeHTTP(answer, req)
		var doc struct {
			Servers any
			Paths   map[string]map[string]struct{ Security any }
		}
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &doc))
		require.Equal(t, want, doc.Servers)
		require.Equal(t, []any{}, doc.Paths["/"]["get"].Security)
		require.Equal(t, []any{}, doc.Paths["/page"]["get"].Security)
		require.Nil(t, doc.Paths["/page/key"]["post"].Security)
	}
}
