package serve_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/serve"
)

// Requests made from the document, and mutated ones, of three principals never fail in the
// server: no 5xx but 501 and 503, no panic, no cut connection.
func TestOpenAPIFuzz(t *testing.T) {
	t.Parallel()
	rounds, end := 1, time.Time{}
	if *faults != "short" {
		rounds, end = 1<<30, time.Now().Add(map[string]time.Duration{"gate": 30 * time.Second, "long": 30 * time.Minute}[*faults])
	}
	for seed := 0; seed < rounds && (end.IsZero() || time.Now().Before(end)); seed++ {
		// Each round closes its files before the next one.
		t.Run(fmt.Sprint(seed), func(t *testing.T) { fuzzRound(t, uint64(seed)) })
	}
}

func fuzzRound(t *testing.T, seed uint64) {
	t.Helper()
	var logged logbook
	_, store, sv := served(t, &serve.Options{
		Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelError})), Surfaces: append(everything(), serve.Page()), Respond: echo,
		Auth: serve.Keys(map[string]serve.Principal{"alice-key": {Owner: "alice"}, "bob-key": {Owner: "bob"}, "admin-key": {Admin: true}}),
	})
	ts := httptest.NewUnstartedServer(sv)
	var panics logbook
	ts.Config.ErrorLog = log.New(&panics, "", 0)
	ts.Start()
	s := talk(t, store, "one")
	page, err := search.Page(t.Context(), s, "", 4)
	require.NoError(t, err)
	data, err := json.Marshal(decode(t, call(t, "GET", ts.URL+"/openapi.json", nil, "X-Api-Key", "admin-key")))
	require.NoError(t, err)
	doc := struct {
		Paths map[string]map[string]struct {
			Parameters  []struct{ Name, In string }
			RequestBody struct {
				Content map[string]struct{ Schema map[string]any }
			}
			Responses map[string]struct {
				Content map[string]struct{ Schema map[string]any }
			}
		}
		Components struct{ Schemas map[string]any }
	}{}
	require.NoError(t, json.Unmarshal(data, &doc))
	z := &fuzzer{rand.New(rand.NewPCG(seed, 44)), []string{"main", "one", page[0].ID, page[1].ID, "two", "alice", "bob", "user", "text"}, doc.Components.Schemas}
	var operations []string
	for path, methods := range doc.Paths {
		for method := range methods {
			operations = append(operations, method+" "+path)
		}
	}
	slices.Sort(operations)
	client := &http.Client{Timeout: soon}
	for range 600 {
		method, path, _ := strings.Cut(operations[z.IntN(len(operations))], " ")
		op := doc.Paths[path][method]
		var query strings.Builder
		for _, p := range op.Parameters {
			if p.In == "path" {
				value := map[string]string{"agent": "main", "id": "one", "entry": page[1].ID}[p.Name]
				if value == "" || z.IntN(6) == 0 {
					value = z.text()
				}
				path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(value))
			} else if z.IntN(3) == 0 {
				query.WriteString("&" + p.Name + "=" + url.QueryEscape(fmt.Sprint(z.value(nil, 9))))
			}
		}
		body, media := []byte(nil), ""
		for media = range op.RequestBody.Content {
			body, _ = json.Marshal(z.value(op.RequestBody.Content[media].Schema, 0))
			if z.IntN(10) == 0 && len(body) > 0 {
				body[z.IntN(len(body))] = byte(z.IntN(256))
			}
		}
		what := fmt.Sprintf("seed %d: %s %s?%s %s", seed, method, path, query.String(), body)
		req, err := http.NewRequestWithContext(t.Context(), strings.ToUpper(method), ts.URL+path+"?"+query.String(), bytes.NewReader(body))
		require.NoError(t, err, what)
		req.Header.Set("Content-Type", media)
		req.Header.Set("X-Api-Key", []string{"alice-key", "bob-key", "admin-key"}[z.IntN(3)])
		if z.IntN(4) == 0 {
			req.Header.Set("Idempotency-Key", fmt.Sprint(z.IntN(3)))
		}
		resp, err := client.Do(req)
		require.NoError(t, err, what)
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			var answer []byte
			answer, err = io.ReadAll(resp.Body)
			require.NoError(t, err, what)
			what += "\n" + string(answer)
			if resp.StatusCode == http.StatusOK {
				form, ok := op.Responses["200"].Content[resp.Header.Get("Content-Type")]
				require.True(t, ok, "%s: %s", what, resp.Header.Get("Content-Type"))
				if v := any(nil); resp.Header.Get("Content-Type") == "application/json" {
					require.NoError(t, json.Unmarshal(answer, &v), what)
					require.Empty(t, z.misfit(form.Schema, v), what)
				}
			}
		}
		require.NoError(t, resp.Body.Close())
		if resp.StatusCode == http.StatusBadRequest && !strings.Contains(what, `"detail":`) && !strings.Contains(what, `"pointer":`) && !strings.Contains(what, "invalid: ") {
			t.Errorf("the mistake is not named: %s", what)
		}
		if resp.StatusCode >= 500 && resp.StatusCode != 501 && resp.StatusCode != 503 {
			t.Errorf("%s: %s\n%s", resp.Status, what, &logged)
		}
		if _, err := store.Get(t.Context(), s.Ref()); err != nil { // it was deleted
			s, err = store.Create(t.Context(), session.Key{Agent: "main", Channel: "test", Peer: "one"}, &session.CreateOptions{ID: "one", Owner: "alice"})
			if err != nil {
				break
			}
		}
	}
	ts.Close()
	require.NotContains(t, panics.String(), "panic")
}

// A fuzzer makes values of the schemas of a document, and others.
type fuzzer struct {
	*rand.Rand
	known   []string // texts that mean something
	schemas map[string]any
}

func (z *fuzzer) text() string {
	if z.IntN(3) > 0 {
		return z.known[z.IntN(len(z.known))]
	}
	odd := []string{"", " ", "..", "a/b", "\x00", "\u202e", "main:test:one", "true", "-1", "{", "2026-11-20T08:00:00Z", strings.Repeat("x", 3_000)}
	return odd[z.IntN(len(odd))]
}

func (z *fuzzer) number() any {
	numbers := []any{0, 1, -1, 2, 1_000_000, 1 << 62, -1 << 62, 0.5, 1e300}
	return numbers[z.IntN(len(numbers))]
}

// value returns a value of a schema, or of none.
func (z *fuzzer) value(schema map[string]any, depth int) any {
	if ref, ok := schema["$ref"].(string); ok {
		schema, _ = z.schemas[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
	}
	kind := fmt.Sprint(schema["type"])
	if z.IntN(12) == 0 || schema == nil {
		kind = []string{"string", "integer", "boolean", "array", "null"}[z.IntN(5)]
	}
	switch {
	case strings.Contains(kind, "object"):
		object := map[string]any{}
		properties, _ := schema["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if property, ok := properties[name].(map[string]any); ok && z.IntN(3) == 0 && depth < 6 {
				object[name] = z.value(property, depth+1)
			}
		}
		if z.IntN(20) == 0 {
			object["unknown"] = 1
		}
		return object
	case strings.Contains(kind, "array"):
		list := []any{}
		items, _ := schema["items"].(map[string]any)
		for range z.IntN(3) {
			if depth < 6 {
				list = append(list, z.value(items, depth+1))
			}
		}
		return list
	case strings.Contains(kind, "string"):
		return z.text()
	case kind == "integer", kind == "number":
		return z.number()
	case kind == "boolean":
		return z.IntN(2) == 0
	}
	return nil
}

// misfit returns the part of a value that is not of its schema, or nothing.
func (z *fuzzer) misfit(schema map[string]any, v any) string {
	if ref, ok := schema["$ref"].(string); ok {
		schema, _ = z.schemas[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
	}
	kind, all := "", fmt.Sprint(schema["type"]) // one or a list
	switch v := v.(type) {
	case nil:
		kind = "null"
	case bool:
		kind = "boolean"
	case string:
		kind = "string"
	case float64:
		if kind = "number"; v == float64(int64(v)) && strings.Contains(all, "integer") {
			kind = "integer"
		}
	case []any:
		kind = "array"
		items, _ := schema["items"].(map[string]any)
		for _, item := range v {
			if wrong := z.misfit(items, item); wrong != "" {
				return wrong
			}
		}
	case map[string]any:
		kind = "object"
		properties, _ := schema["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			member, known := properties[name].(map[string]any)
			if !known {
				member, known = schema["additionalProperties"].(map[string]any)
			}
			if !known && schema["type"] != nil {
				return name + " is unknown"
			}
			if wrong := z.misfit(member, v[name]); wrong != "" {
				return name + ": " + wrong
			}
		}
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				return fmt.Sprint(name, " is missing")
			}
		}
	}
	if schema["type"] != nil && !strings.Contains(all, kind) {
		return fmt.Sprintf("%v, want %s", v, all)
	}
	return ""
}
