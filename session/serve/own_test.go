package serve_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/convolog/convolog/session/retain"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/transcript"
)

// withKeys is a server for alice, bob and an administrator.
func withKeys(t testing.TB) (*httptest.Server, *session.Store, *serve.Server) {
	t.Helper()
	return served(t, &serve.Options{
		Respond: echo,
		Auth: serve.Keys(map[string]serve.Principal{
			"alice-key": {Owner: "alice"}, "bob-key": {Owner: "bob"}, "admin-key": {Admin: true},
			"agent-key": {Owner: "alice", Agents: []string{"other"}},
		}),
		Renderers: map[string]exchange.Renderer{"anthropic": anthropic.Format{}},
	})
}

// asker makes requests with a key, and checks the answers against the document.
type asker struct {
	testing.TB
	url, key string
	doc      document
}

func newAsker(t testing.TB, ts *httptest.Server, key string) *asker {
	a := &asker{TB: t, url: ts.URL, key: key}
	status, body := a.raw("GET", "/openapi.json", "", nil)
	require.Equal(t, 200, status)
	a.doc = readDocument(t, body)
	return a
}

func (a *asker) raw(method, path, media string, body []byte) (int, []byte) {
	a.Helper()
	req, err := http.NewRequestWithContext(a.Context(), method, a.url+path, bytes.NewReader(body))
	require.NoError(a, err)
	req.Header.Set("X-Api-Key", a.key)
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(a, err)
	defer resp.Body.Close()
	require.Equal(a, "nosniff", resp.Header.Get("X-Content-Type-Options"))
	require.Equal(a, "no-store", resp.Header.Get("Cache-Control"))
	data, err := io.ReadAll(resp.Body)
	require.NoError(a, err)
	if a.doc.Paths != nil {
		a.doc.check(a, req, resp)
	}
	return resp.StatusCode, data
}

// ask sends JSON and decodes the answer, which must have a status.
func (a *asker) ask(status int, method, path string, body, out any) {
	a.Helper()
	media, data := "", []byte(nil)
	if body != nil {
		var err error
		media = "application/json"
		data, err = json.Marshal(body)
		require.NoError(a, err)
	}
	got, answer := a.raw(method, path, media, data)
	require.Equal(a, status, got, "%s %s: %s", method, path, answer)
	if out != nil {
		require.NoError(a, json.Unmarshal(answer, out), "%s", answer)
	}
}

type described struct {
	Info    session.Info
	Stats   memory.Stats
	Pending struct{ Owed bool }
}

type page struct{ Entries []transcript.Entry }

// talk makes a session of alice with three turns.
func talk(t testing.TB, store *session.Store, id string) *session.Session {
	t.Helper()
	s, err := store.Create(t.Context(), session.Key{Agent: "main", Channel: "test", Peer: id}, &session.CreateOptions{ID: id, Owner: "alice"})
	require.NoError(t, err)
	for _, word := range []string{"apple", "banana", "cherry"} {
		_, err := s.Append(t.Context(), transcript.UserText("tell me of the "+word), &transcript.Response{
			Message: transcript.AssistantText("the " + word + " is a fruit"), API: "test", Model: "m", StopReason: transcript.StopEndTurn,
			Usage: transcript.Usage{Input: 10, Output: 5},
		})
		require.NoError(t, err)
	}
	return s
}

func TestOwnRoutes(t *testing.T) {
	t.Parallel()
	ts, store, _ := withKeys(t)
	talk(t, store, "one")
	talk(t, store, "two")
	alice, admin := newAsker(t, ts, "alice-key"), newAsker(t, ts, "admin-key")
	at := "/v1/store/sessions/main/one"

	// Lists, a page at a time.
	var list struct {
		Sessions []session.Info
		Next     string
	}
	alice.ask(200, "GET", "/v1/store/sessions?limit=1&channel=test", nil, &list)
	require.Equal(t, "two", list.Sessions[0].ID)
	alice.ask(200, "GET", "/v1/store/sessions?limit=1&after="+list.Next, nil, &list)
	require.Equal(t, "one", list.Sessions[0].ID)
	alice.ask(200, "GET", "/v1/store/sessions?until=2001-01-01T00:00:00Z", nil, &list)
	require.Empty(t, list.Sessions)
	for _, query := range []string{"limit=x", "limit=-1&x=1", "ownr=bob", "state=none", "after=%20", "since=yesterday", "limit=1.5"} {
		alice.ask(400, "GET", "/v1/store/sessions?"+query, nil, nil)
	}
	usage := session.Usage{}
	alice.ask(200, "GET", "/v1/store/usage", nil, &usage)
	require.Equal(t, 60, usage["m"].Input)
	for _, test := range []struct { // the trash costs what it has cost
		to                 session.State
		live, trashed, any int
	}{{session.Trashed, 30, 30, 60}, {session.Live, 60, 0, 60}} {
		require.NoError(t, store.SetState(t.Context(), session.Ref{Agent: "main", ID: "two"}, test.to, -1))
		for query, want := range map[string]int{"": test.live, "?state=trashed": test.trashed, "?state=any": test.any} {
			usage := session.Usage{}
			alice.ask(200, "GET", "/v1/store/usage"+query, nil, &usage)
			require.Equal(t, want, usage["m"].Input, "%q %s", test.to, query)
		}
	}

	// One session.
	var one described
	alice.ask(200, "GET", at, nil, &one)
	require.Equal(t, []any{"one", 6, 3, false}, []any{one.Info.ID, one.Info.Messages, one.Stats.Turns, one.Pending.Owed})
	require.Equal(t, 30, one.Info.Usage["m"].Input)
	alice.ask(200, "GET", at+"/health", nil, &session.Health{})
	var all, back, window page
	alice.ask(200, "GET", at+"/entries", nil, &all)
	require.Len(t, all.Entries, 6)
	alice.ask(200, "GET", at+"/entries?limit=2&after="+all.Entries[1].ID, nil, &window)
	require.Equal(t, all.Entries[2].ID, window.Entries[0].ID)
	alice.ask(200, "GET", at+"/entries?limit=2&before="+all.Entries[4].ID, nil, &back)
	require.Equal(t, all.Entries[3].ID, back.Entries[1].ID)
	alice.ask(200, "GET", at+"/entries?limit=2&last=true", nil, &back)
	require.Equal(t, all.Entries[5].ID, back.Entries[1].ID)
	alice.ask(200, "GET", at+"/entries/"+all.Entries[2].ID+"?before=1&after=1", nil, &window)
	require.Equal(t, []string{all.Entries[1].ID, all.Entries[2].ID, all.Entries[3].ID}, entryIDs(window.Entries))
	alice.ask(404, "GET", at+"/entries/none", nil, nil)
	alice.ask(404, "GET", at+"/entries?after=none", nil, nil)

	// Search.
	for _, path := range []string{"/v1/store/search", at + "/search"} {
		status, lines := alice.raw("POST", path, "application/json", []byte(`{"text":"banana fruit"}`))
		require.Equal(t, 200, status)
		var hit search.Hit
		require.NoError(t, json.NewDecoder(bytes.NewReader(lines)).Decode(&hit))
		require.Equal(t, "assistant", hit.Role)
		alice.ask(400, "POST", path, map[string]string{"text": "x", "typo": "x"}, nil)
		alice.ask(400, "POST", path, map[string]string{"regexp": "("}, nil)
	}

	// Changes.
	var info session.Info
	alice.ask(200, "PATCH", at, map[string]any{"title": "Fruit", "labels": []string{"a"}, "keep": true, "ttl": 60}, &info)
	require.Equal(t, []any{"Fruit", []string{"a"}, true, time.Minute}, []any{info.Title, info.Labels, info.Keep, info.TTL})
	alice.ask(400, "PATCH", at, map[string]string{"owner": "bob"}, nil) // it never changes

	// Values are the program's alone.
	values := map[string]any{"entry": all.Entries[1].ID, "values": map[string]any{"plan": "gold"}}
	alice.ask(400, "POST", at+"/fork", values, nil)
	delete(values, "entry")
	alice.ask(400, "POST", "/v1/store/sessions", values, nil)
	alice.ask(204, "PUT", at+"/pins/"+all.Entries[1].ID, nil, nil)
	alice.ask(404, "PUT", at+"/pins/none", nil, nil)
	var pins []struct{ Entry, Text string }
	alice.ask(200, "GET", at+"/pins", nil, &pins)
	require.Equal(t, "the apple is a fruit", pins[0].Text)
	alice.ask(204, "DELETE", at+"/pins/"+all.Entries[1].ID, nil, nil)
	alice.ask(200, "GET", at+"/pins", nil, &pins)
	require.Empty(t, pins)
	alice.ask(200, "POST", at+"/fork", map[string]string{"entry": all.Entries[3].ID, "id": "three", "title": "T"}, &info)
	require.Equal(t, []any{"three", 4, "one", "alice"}, []any{info.ID, info.Messages, info.Base.Session, info.Owner})
	alice.ask(409, "POST", at+"/fork", map[string]string{"entry": all.Entries[3].ID, "id": "three"}, nil)
	var hidden struct{ Entries []string }
	alice.ask(200, "POST", at+"/hide", map[string]any{"entries": []string{all.Entries[1].ID}}, &hidden)
	require.Equal(t, []string{all.Entries[1].ID}, hidden.Entries)
	alice.ask(200, "POST", at+"/hide", map[string]any{"entries": []string{all.Entries[1].ID}, "off": true}, &hidden)
	require.Equal(t, []string{all.Entries[1].ID}, hidden.Entries)
	alice.ask(404, "POST", at+"/hide", map[string]any{"entries": []string{"nowhere"}}, nil)
	alice.ask(200, "POST", at+"/rewind", map[string]int{"turns": 1}, &info)
	require.Equal(t, 2, info.Turns)
	alice.ask(200, "POST", at+"/rewind", map[string]string{"entry": all.Entries[1].ID}, &info)
	require.Equal(t, 1, info.Turns)
	alice.ask(400, "POST", at+"/rewind", nil, nil)
	alice.ask(200, "POST", at+"/archive", nil, &info)
	require.Equal(t, session.Archived, info.State)
	alice.ask(412, "POST", at+"/rewind", map[string]int{"turns": 1}, nil)
	info = session.Info{}
	alice.ask(200, "POST", at+"/restore", nil, &info)
	require.Equal(t, session.Live, info.State)
	alice.ask(204, "DELETE", "/v1/store/sessions/main/three", nil, nil)
	alice.ask(404, "GET", "/v1/store/sessions/main/three", nil, nil)

	// A session from its beginning.
	info = session.Info{}
	alice.ask(200, "POST", "/v1/store/sessions", map[string]string{"key": "main:test:four", "id": "four", "title": "T"}, &info)
	require.Equal(t, []any{"four", "main:test:four", "T", "alice"}, []any{info.ID, info.Key, info.Title, info.Owner})
	alice.ask(409, "POST", "/v1/store/sessions", map[string]string{"key": "main:test:four", "id": "four"}, nil)
	for _, bad := range []map[string]string{{"key": "four"}, {"key": "main:test:four", "id": "../four"}, {"agent": "other", "key": "main:test:five"}} {
		alice.ask(400, "POST", "/v1/store/sessions", bad, nil)
	}
	newAsker(t, ts, "agent-key").ask(404, "POST", "/v1/store/sessions", map[string]string{"key": "main:test:five"}, nil)
	alice.ask(404, "POST", "/v1/store/sessions", map[string]string{"agent": "_erase"}, nil)
	_, err := store.Create(t.Context(), session.Key{Agent: "_erase"}, &session.CreateOptions{ID: "plan", Owner: "alice"})
	require.NoError(t, err)
	alice.ask(404, "GET", "/v1/store/sessions/_erase/plan", nil, nil)
	info = session.Info{}
	alice.ask(200, "POST", "/v1/store/sessions", map[string]string{"id": "alone"}, &info)
	require.Equal(t, []any{"alone", "main::alone", "alice"}, []any{info.ID, info.Key, info.Owner})
	var added session.Appended
	alice.ask(200, "POST", "/v1/store/sessions/main/four/entries", map[string]string{"role": "user", "content": "hi"}, &added)
	alice.ask(200, "GET", "/v1/store/sessions/main/four/entries?last=true&limit=1", nil, &back)
	require.Equal(t, added.IDs, entryIDs(back.Entries))
	alice.ask(400, "POST", "/v1/store/sessions/main/four/entries", map[string]string{"role": "system", "content": "hi"}, nil)
	newAsker(t, ts, "bob-key").ask(404, "POST", "/v1/store/sessions/main/four/entries", map[string]string{"role": "user", "content": "hi"}, nil)
	alice.ask(200, "POST", "/v1/store/sessions/main/four/entries", map[string]string{"role": "assistant", "content": "hello"}, nil)
	var committed memory.Committed
	alice.ask(200, "POST", "/v1/store/sessions/main/four/commit", nil, &committed)
	require.Equal(t, "chapter_001", committed.Chapter)

	// Exports, of which one can be imported.
	status, lines := alice.raw("GET", at+"/export", "", nil)
	require.Equal(t, 200, status)
	require.True(t, bytes.HasPrefix(lines, []byte(`{"type":"session"`)), "%s", lines)
	status, text := alice.raw("GET", at+"/export?as=markdown", "", nil)
	require.Equal(t, 200, status)
	require.Contains(t, string(text), "apple")
	status, text = alice.raw("GET", at+"/export?as=anthropic&model=claude", "", nil)
	require.Equal(t, 200, status)
	require.Contains(t, string(text), `"model":"claude"`)
	alice.ask(400, "GET", at+"/export?as=pdf", nil, nil)
	var imported []struct {
		Session  session.Ref
		Appended int
		Failed   *serve.Problem
	}
	foreign := bytes.ReplaceAll(lines, []byte(`"one"`), []byte(`"ten"`))
	status, answer := admin.raw("POST", "/v1/store/import", "application/jsonl", foreign)
	require.Equal(t, 200, status, "%s", answer)
	require.NoError(t, json.Unmarshal(answer, &imported))
	require.Positive(t, imported[0].Appended, "%s", answer)
	_, answer = admin.raw("POST", "/v1/store/import", "application/jsonl", foreign)
	require.NoError(t, json.Unmarshal(answer, &imported))
	require.Zero(t, imported[0].Appended, "%s", answer)
	status, _ = admin.raw("POST", "/v1/store/import", "text/plain", foreign)
	require.Equal(t, 415, status)
	status, _ = admin.raw("POST", "/v1/store/import", "application/jsonl", []byte("nonsense"))
	require.Equal(t, 400, status)
}

func entryIDs(entries []transcript.Entry) (ids []string) {
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids
}

// Retention and erasing are a plan first, which is sent back.
func TestOwnPlans(t *testing.T) {
	t.Parallel()
	ts, store, _ := withKeys(t)
	for _, id := range []string{"one", "two", "three", "four", "five"} {
		talk(t, store, id)
	}
	alice, admin := newAsker(t, ts, "alice-key"), newAsker(t, ts, "admin-key")
	var plan retain.Plan
	admin.ask(200, "POST", "/v1/store/retention", retain.Policy{MaxSessions: 2, Delete: true}, &plan)
	require.Len(t, plan.Items, 3)
	for i := range plan.Items {
		require.Equal(t, "current", plan.Items[i].Protected)
		plan.Items[i].Protected = "" // a changed plan protects as many
	}
	admin.ask(412, "POST", "/v1/store/retention/apply", plan, nil)
	admin.ask(400, "POST", "/v1/store/retention", retain.Policy{MaxSessions: -2}, nil)
	admin.ask(200, "POST", "/v1/store/retention", retain.Policy{MaxSessions: 2, Delete: true, Force: true}, &plan)
	var report retain.Report
	admin.ask(200, "POST", "/v1/store/retention/apply", plan, &report)
	require.Equal(t, "protected", report.Items[0].Outcome)

	s, err := store.Get(t.Context(), session.Ref{Agent: "main", ID: "one"})
	require.NoError(t, err)
	entries, err := search.Page(t.Context(), s, "", 2)
	require.NoError(t, err)
	var toErase erase.Plan
	admin.ask(200, "POST", "/v1/store/erase", map[string]any{
		"sessions": []session.Ref{{Agent: "main", ID: "two"}},
		"entries":  []erase.Selection{{Session: s.Ref(), Entries: []string{entries[0].ID}}},
	}, &toErase)
	require.NotEmpty(t, toErase.Places)
	var receipt erase.Receipt
	admin.ask(200, "POST", "/v1/store/erase/apply", toErase, &receipt)
	require.NotEmpty(t, receipt.Beyond)
	alice.ask(404, "GET", "/v1/store/sessions/main/two", nil, nil)
	status, text := alice.raw("GET", "/v1/store/sessions/main/one/export", "", nil)
	require.Equal(t, 200, status)
	require.NotContains(t, string(text), "tell me of the apple")
	admin.ask(404, "POST", "/v1/store/erase", map[string]any{"sessions": []session.Ref{{Agent: "main", ID: "two"}}}, nil)
}

// Entries are followed exactly over a reconnect, and changes are hinted at.
func TestOwnFollow(t *testing.T) {
	t.Parallel()
	ts, store, _ := withKeys(t)
	s := talk(t, store, "one")
	at := ts.URL + "/v1/store/sessions/main/one/follow"
	var want []string
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		want = append(want, e.ID)
	}
	var got []string
	read := func(url string, n int, header ...string) {
		resp := call(t, "GET", url, nil, append(header, "X-Api-Key", "alice-key")...)
		require.Equal(t, 200, resp.StatusCode)
		require.NoError(t, frames(resp.Body, func(f frame) bool {
			require.Equal(t, "entry", f.name)
			got = append(got, f.id)
			n--
			return n > 0
		}))
		require.NoError(t, resp.Body.Close())
	}
	read(at, 3)
	read(at+"?after="+want[0], 2, "Last-Event-ID", got[2])
	require.Equal(t, want[:5], got)
	ids, err := s.Append(t.Context(), transcript.UserText("more"))
	require.NoError(t, err)
	read(at+"?lastEventId="+got[4], len(want)-5+1)
	require.Equal(t, append(want, ids...), got)
	require.Equal(t, 404, call(t, "GET", at+"?after=none", nil, "X-Api-Key", "alice-key").StatusCode)

	// A stream ends with its session, and reports it.
	resp := call(t, "GET", at+"?after="+got[len(got)-1], nil, "X-Api-Key", "alice-key")
	changes := call(t, "GET", ts.URL+"/v1/store/changes", nil, "X-Api-Key", "alice-key")
	first := true
	require.NoError(t, frames(changes.Body, func(f frame) bool {
		if first {
			first = false
			require.Equal(t, "", f.data["id"])
			require.NoError(t, store.Delete(t.Context(), s.Ref()))
			return true
		}
		return f.data["id"] != "one" && f.data["id"] != ""
	}))
	var last frame
	require.NoError(t, frames(resp.Body, func(f frame) bool { last = f; return true }))
	require.Equal(t, []any{"end", "NOT_FOUND"}, []any{last.name, last.data["code"]})
}

// A principal for some agents sees no others.
func TestAgents(t *testing.T) {
	t.Parallel()
	ts, store, _ := withKeys(t)
	talk(t, store, "one")
	key := session.Key{Agent: "other", Channel: "test", Peer: "x"}
	s, err := store.Create(t.Context(), key, &session.CreateOptions{ID: "mine", Owner: "alice"})
	require.NoError(t, err)
	_, err = s.Append(t.Context(), transcript.UserText("a fruit of another agent"))
	require.NoError(t, err)
	a := newAsker(t, ts, "agent-key")
	for _, path := range []string{"/v1/store/sessions", "/v1/store/search", "/api/sessions", "/v1/store/usage"} {
		method, body := "GET", ""
		if strings.HasSuffix(path, "search") {
			method, body = "POST", `{"text":"fruit"}`
		}
		status, text := a.raw(method, path, "application/json", []byte(body))
		require.Equal(t, 200, status)
		require.NotContains(t, string(text), `"one"`)
		require.Equal(t, !strings.HasSuffix(path, "usage"), strings.Contains(string(text), `"mine"`), path)
	}
	a.ask(200, "GET", "/v1/store/sessions/other/mine", nil, nil)
	a.ask(404, "GET", "/v1/store/sessions/main/one", nil, nil)
	a.ask(404, "POST", "/v1/store/search", search.Query{Text: "fruit", Sessions: session.ListOptions{Key: session.Key{Agent: "main"}}}, nil)
	a.ask(404, "POST", "/api/v1/sessions", nil, nil)
	a.ask(403, "POST", "/v1/store/erase", nil, nil)
}
