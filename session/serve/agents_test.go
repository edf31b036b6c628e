package serve_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

var updateAgents = flag.Bool("update-agents", false, "rewrite testdata/agents.txt")

// careful is echo with a tool that a person has to allow, if the text begins with
// "danger". It returns while the call is held.
func careful(ctx context.Context, s *session.Session, tn *turn.Turn) error {
	h, err := s.History(ctx)
	if err != nil {
		return err
	}
	last := h.Messages[len(h.Messages)-1]
	if strings.HasPrefix(last.Text(), "danger") {
		content := []transcript.Block{transcript.ThinkingBlock{Thinking: "is it wise?"}, transcript.TextBlock{Text: "I ask."}}
		for _, id := range strings.Fields(last.Text())[1:] {
			content = append(content, transcript.ToolCallBlock{ID: id, Name: "drop", Input: json.RawMessage(`{"table":"t"}`)})
		}
		ids, err := s.Append(ctx, &transcript.Response{Message: transcript.Message{Role: transcript.RoleAssistant, Content: content}, StopReason: transcript.StopToolUse})
		if err != nil {
			return err
		}
		calls := len(strings.Fields(last.Text())) - 1
		for _, id := range ids[len(ids)-calls:] {
			if err := turn.Decide(ctx, s, id, transcript.Hold, "policy", ""); err != nil {
				return err
			}
		}
		return nil
	}
	pending, err := s.Pending(ctx)
	if err != nil {
		return err
	}
	if len(pending.Calls) > 0 || slices.ContainsFunc(last.Content, func(b transcript.Block) bool { return b.BlockType() == "tool_result" }) {
		if err := turn.RunTools(ctx, s, 1, func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
			return transcript.ToolResult(c.Call.ID, "dropped"), nil
		}); err != nil {
			return err
		}
		_, err = s.Append(ctx, &transcript.Response{Message: transcript.AssistantText("done"), StopReason: transcript.StopEndTurn})
		return err
	}
	return echo(ctx, s, tn)
}

// agentsServer is a server with sessions of managed agents.
func agentsServer(t *testing.T) (url string, store *session.Store) {
	t.Helper()
	ts, store, _ := served(t, &serve.Options{Open: true, Respond: careful})
	return ts.URL + "/v1/sessions", store
}

// ask calls a route and returns what it answers.
func ask(t *testing.T, status int, method, url string, body any, header ...string) map[string]any {
	t.Helper()
	resp := call(t, method, url, body, header...)
	v := decode(t, resp)
	require.Equal(t, status, resp.StatusCode, "%s %s: %v", method, url, v)
	return v
}

type obj = map[string]any

func says(text string) obj {
	return obj{"events": []obj{{"type": "user.message", "content": []obj{{"type": "text", "text": text}}}}}
}

// follow returns the events of a stream until f returns false.
func follow(t *testing.T, url string, f func(frame) bool, header ...string) (all []frame) {
	t.Helper()
	resp := call(t, "GET", url, nil, header...)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.NoError(t, frames(resp.Body, func(f2 frame) bool {
		all = append(all, f2)
		return f(f2)
	}))
	return all
}

func untilIdle(f frame) bool { return f.name != "session.status_idle" }

// listed returns all events of a session by pages.
func listed(t *testing.T, url, query string) (all []obj) {
	t.Helper()
	page := ""
	for {
		one := ask(t, http.StatusOK, "GET", url+"/events?beta=true&"+query+page, nil)
		for _, e := range one["data"].([]any) {
			all = append(all, e.(obj))
		}
		next, _ := one["next_page"].(string)
		if next == "" {
			return all
		}
		page = "&page=" + next
	}
}

var (
	anID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
	aTime  = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)
	golden = "testdata/agents.txt"
)

// named replaces IDs by names in the order of their appearance, and times.
type named map[string]string

func (n named) text(text string) string {
	text = anID.ReplaceAllStringFunc(text, func(id string) string {
		if n[id] == "" {
			n[id] = fmt.Sprint("id-", len(n)+1)
		}
		return n[id]
	})
	return aTime.ReplaceAllString(text, "TIME")
}

// The answers of the routes are those of the golden file, IDs and times aside.
func TestAgentsGolden(t *testing.T) {
	t.Parallel()
	base, _ := agentsServer(t)
	names := named{}
	var got strings.Builder
	put := func(title string, v any) {
		data, err := json.MarshalIndent(v, "", " ")
		require.NoError(t, err)
		fmt.Fprintf(&got, "-- %s --\n%s\n", title, names.text(string(data)))
	}
	put("create", ask(t, 200, "POST", base, obj{"agent": "main", "environment_id": "e", "title": "T", "metadata": obj{"a": "1", "b": "x=y"}}))
	created := ask(t, 200, "GET", base, nil)["data"].([]any)[0].(obj)
	url := base + "/" + created["id"].(string)
	put("update", ask(t, 200, "POST", url, obj{"title": "U", "metadata": obj{"a": nil, "c": "3"}}))

	stream := func(body any) []frame {
		resp := call(t, "GET", url+"/events/stream?event_deltas[]=agent.message", nil)
		put("sent", ask(t, 200, "POST", url+"/events", body))
		var all []frame
		require.NoError(t, frames(resp.Body, func(f frame) bool {
			all = append(all, f)
			return untilIdle(f)
		}))
		return all
	}
	for _, text := range []string{"tool one two", "danger c1", "fail"} {
		for _, f := range stream(says(text)) {
			put("streamed "+names.text(f.id)+" "+f.name, f.data)
			if f.name == "session.status_idle" && f.data["stop_reason"].(obj)["type"] == "requires_action" {
				id := f.data["stop_reason"].(obj)["event_ids"].([]any)[0]
				all := stream(obj{"events": []obj{{"type": "user.tool_confirmation", "tool_use_id": id, "result": "allow"}}})
				for _, f := range all {
					put("confirmed "+names.text(f.id)+" "+f.name, f.data)
				}
			}
		}
	}
	put("sent", ask(t, 200, "POST", url+"/events", obj{"events": []obj{{"type": "user.interrupt"}}}))
	put("listed", listed(t, url, ""))
	info := ask(t, 200, "POST", url+"/archive", nil)
	put("archived", info)
	put("refused", ask(t, 412, "POST", url+"/events", says("more")))
	put("none", ask(t, 404, "GET", base+"/nothing", nil))
	put("deleted", ask(t, 200, "DELETE", url, nil))
	if *updateAgents {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

// Lists and streams have the same events, in every direction, at every size
// of pages, and behind every event.
func TestAgentsSameEvents(t *testing.T) {
	t.Parallel()
	base, store := agentsServer(t)
	id := ask(t, 200, "POST", base, obj{"agent": "main"})["id"].(string)
	url := base + "/" + id
	for _, text := range []string{"one two", "tool three", "danger c1 c2", "four"} {
		all := sendAndFollow(t, url, says(text))
		for i := 0; i < len(all); i++ {
			reason, _ := all[i].data["stop_reason"].(obj)
			if reason["type"] == "requires_action" && len(reason["event_ids"].([]any)) == 2 {
				for n, call := range reason["event_ids"].([]any) {
					result := obj{"type": "user.tool_confirmation", "tool_use_id": call, "result": "allow"}
					if n == 1 {
						result["result"], result["deny_message"] = "deny", "not that one"
					}
					all = append(all, sendAndFollow(t, url, obj{"events": []obj{result}})...)
				}
			}
		}
	}
	// Somebody else writes too: several answers in one append.
	s, err := store.Get(t.Context(), session.Ref{Agent: "main", ID: id})
	require.NoError(t, err)
	_, err = s.Append(t.Context(), transcript.UserText("a"), &transcript.Response{Message: transcript.AssistantText("b")},
		transcript.UserText("c"), &transcript.Response{Message: transcript.AssistantText("d")})
	require.NoError(t, err)
	_, err = s.Append(t.Context(), transcript.UserText("e"), &transcript.Response{Message: transcript.AssistantText("f")})
	require.NoError(t, err)

	want := listed(t, url, "limit=1000")
	require.Equal(t, "session.status_idle", want[len(want)-1]["type"])
	seen := map[string]bool{}
	for _, e := range want {
		require.False(t, seen[e["id"].(string)], "%v", e)
		seen[e["id"].(string)] = true
	}
	for _, limit := range []int{1, 2, 3, 7} {
		require.Equal(t, want, listed(t, url, fmt.Sprint("limit=", limit)))
		down := listed(t, url, fmt.Sprint("order=desc&limit=", limit))
		slices.Reverse(down)
		require.Equal(t, want, down)
	}
	for i, e := range append([]obj{{"id": id}}, want...) {
		if i == len(want) {
			break
		}
		var got []obj
		follow(t, url+"/events/stream?after="+e["id"].(string), func(f frame) bool {
			require.Equal(t, f.id, f.data["id"])
			got = append(got, f.data)
			return len(got) < len(want)-i
		})
		require.Equal(t, want[i:], got)
	}
	only := listed(t, url, "types[]=agent.tool_use&types=user.tool_confirmation&limit=1")
	require.Len(t, only, 5)
	require.Empty(t, listed(t, url, "created_at[lt]="+want[0]["processed_at"].(string)))
}

// sendAndFollow sends events and returns what follows, to the next end of the work.
func sendAndFollow(t *testing.T, url string, body any) (all []frame) {
	t.Helper()
	calls := 0
	if events := body.(obj)["events"].([]obj); events[0]["type"] == "user.message" {
		text := events[0]["content"].([]obj)[0]["text"].(string)
		if strings.HasPrefix(text, "danger") {
			calls = len(strings.Fields(text)) - 1
		}
	}
	resp := call(t, "GET", url+"/events/stream", nil)
	ask(t, 200, "POST", url+"/events", body)
	require.NoError(t, frames(resp.Body, func(f frame) bool {
		all = append(all, f)
		reason, _ := f.data["stop_reason"].(obj)
		return reason == nil || calls > 0 && len(reason["event_ids"].([]any)) < calls
	}))
	return all
}

// Previews resume as events do, and each message has the ID that was announced.
func TestAgentsPreviews(t *testing.T) {
	t.Parallel()
	base, _ := agentsServer(t)
	url := base + "/" + ask(t, 200, "POST", base, obj{"agent": "main"})["id"].(string)
	resp := call(t, "GET", url+"/events/stream?event_deltas=agent.message", nil)
	ask(t, 200, "POST", url+"/events", says("a b c d"))
	var all []frame
	text, announced := "", ""
	require.NoError(t, frames(resp.Body, func(f frame) bool {
		all = append(all, f)
		switch f.name {
		case "event_start":
			announced = f.data["event"].(obj)["id"].(string)
		case "event_delta":
			require.Equal(t, announced, f.data["event_id"])
			text += f.data["delta"].(obj)["content"].(obj)["text"].(string)
		case "agent.message":
			require.Equal(t, announced, f.data["id"])
			require.Equal(t, text, f.data["content"].([]any)[0].(obj)["text"])
		}
		return untilIdle(f)
	}))
	require.Equal(t, "a b c d", text)
	for i := range len(all) - 1 {
		rest := follow(t, url+"/events/stream?event_deltas[]=agent.message", untilIdle, "Last-Event-ID", all[i].id)
		require.Equal(t, all[i+1:], rest)
	}
}

// A person decides after the server was stopped, and a turn that waits can be stopped.
func TestAgentsConfirmLater(t *testing.T) {
	t.Parallel()
	store, err := session.Open(t.TempDir(), &session.Options{Sync: session.SyncNever})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	var url string
	var server http.Handler
	start := func() *serve.Server {
		sv, err := serve.New(store, &serve.Options{Open: true, Respond: careful, Logger: quiet})
		require.NoError(t, err)
		require.NoError(t, sv.Resume(t.Context(), nil))
		server = sv
		return sv
	}
	sv := start()
	ts := newServer(t, func(w http.ResponseWriter, r *http.Request) { server.ServeHTTP(w, r) })
	url = ts + "/v1/sessions"
	url += "/" + ask(t, 200, "POST", url, obj{"agent": "main"})["id"].(string)
	all := sendAndFollow(t, url, says("danger c1"))
	last := all[len(all)-1].data["stop_reason"].(obj)
	require.Equal(t, "idle", ask(t, 200, "GET", url, nil)["status"])
	require.NoError(t, sv.Close(t.Context()))

	sv = start()
	yes := obj{"events": []obj{{"type": "user.tool_confirmation", "tool_use_id": last["event_ids"].([]any)[0], "result": "allow"}}}
	all = sendAndFollow(t, url, yes)
	require.Equal(t, "end_turn", all[len(all)-1].data["stop_reason"].(obj)["type"])
	ask(t, 200, "POST", url+"/events", yes) // again is no error
	no := obj{"events": []obj{{"type": "user.tool_confirmation", "tool_use_id": last["event_ids"].([]any)[0], "result": "deny"}}}
	ask(t, 409, "POST", url+"/events", no)

	sendAndFollow(t, url, says("danger c2"))
	all = sendAndFollow(t, url, obj{"events": []obj{{"type": "user.interrupt"}}})
	require.Equal(t, "end_turn", all[len(all)-1].data["stop_reason"].(obj)["type"])
	all = sendAndFollow(t, url, says("and now"))
	require.Equal(t, "end_turn", all[len(all)-1].data["stop_reason"].(obj)["type"])
	require.NoError(t, sv.Close(t.Context()))
}

// Bad requests change nothing, and errors have Anthropic's shape.
func TestAgentsErrors(t *testing.T) {
	t.Parallel()
	keys := serve.Keys(map[string]serve.Principal{"a": {Owner: "anna"}, "b": {Owner: "ben"}, "m": {Owner: "mia", Agents: []string{"other"}}})
	var turns atomic.Int32
	ts, _, _ := served(t, &serve.Options{Auth: keys, Respond: serve.Responder(func(ctx context.Context, s *session.Session, tn *turn.Turn) error {
		turns.Add(1)
		return echo(ctx, s, tn)
	})})
	base := ts.URL + "/v1/sessions"
	kind := func(status int, want, method, url string, body any, header ...string) {
		t.Helper()
		v := ask(t, status, method, url, body, header...)
		require.Equal(t, "error", v["type"])
		require.Equal(t, want, v["error"].(obj)["type"])
	}
	anna := []string{"X-API-Key", "a"}
	id := ask(t, 200, "POST", base, obj{"agent": obj{"type": "agent", "id": "other"}}, anna...)["id"].(string)
	require.True(t, strings.HasPrefix(id, "other:"))
	url := base + "/" + id
	kind(401, "authentication_error", "GET", base, nil)
	kind(404, "not_found_error", "GET", url, nil, "X-API-Key", "b")
	kind(404, "not_found_error", "GET", url+"/events", nil, "X-API-Key", "b")
	kind(404, "not_found_error", "GET", url+"/events/stream", nil, "X-API-Key", "b")
	kind(404, "not_found_error", "POST", url+"/events", says("x"), "X-API-Key", "b")
	kind(404, "not_found_error", "POST", base, obj{"agent": "main"}, "X-API-Key", "m")
	require.Empty(t, ask(t, 200, "GET", base, nil, "X-API-Key", "b")["data"])
	for _, body := range []any{
		obj{},
		obj{"events": []obj{{"type": "system.message"}}},
		obj{"events": []obj{{"type": "user.message"}}},
		obj{"events": []obj{says("x")["events"].([]obj)[0], {"type": "user.define_outcome"}}},
		obj{"events": []obj{{"type": "user.message", "content": []obj{{"type": "tool_use", "id": "1", "name": "n", "input": obj{}}}}}},
		obj{"events": []obj{{"type": "user.tool_confirmation", "tool_use_id": "x", "result": "allow"}}},
		obj{"events": []obj{{"type": "user.tool_confirmation", "tool_use_id": "x/0", "result": "maybe"}}},
	} {
		kind(400, "invalid_request_error", "POST", url+"/events", body, anna...)
	}
	for _, body := range []any{
		obj{"budget": obj{"type": "limit"}},
		obj{"resources": []obj{{"type": "file"}}},
		obj{"metadata": obj{"a=b": "c"}},
		obj{"metadata": obj{"a": strings.Repeat("x", 513)}},
		obj{"agent": obj{"type": "agent_with_overrides", "id": "x"}},
	} {
		kind(400, "invalid_request_error", "POST", base, body, anna...)
	}
	for _, query := range []string{"limit=0", "limit=x", "order=up", "page=zzz", "created_at[gt]=now"} {
		kind(400, "invalid_request_error", "GET", base+"?"+query, nil, anna...)
		kind(400, "invalid_request_error", "GET", url+"/events?"+query, nil, anna...)
	}
	kind(400, "invalid_request_error", "GET", url+"/events?page=nothing/3", nil, anna...)
	kind(404, "not_found_error", "GET", url+"/events/stream?after=nothing/3", nil, anna...)
	require.Empty(t, ask(t, 200, "GET", url+"/events", nil, anna...)["data"])
	require.Zero(t, turns.Load())

	// A request that is made again is one.
	again := append([]string{"Idempotency-Key", "k"}, anna...)
	one := ask(t, 200, "POST", url+"/events", says("once"), again...)
	require.Equal(t, one, ask(t, 200, "POST", url+"/events", says("once"), again...))
	kind(409, "invalid_request_error", "POST", url+"/events", says("twice"), again...)
	body := obj{"agent": "other", "initial_events": says("hello")["events"]}
	first := ask(t, 200, "POST", base, body, again...)
	require.Equal(t, first["id"], ask(t, 200, "POST", base, body, again...)["id"])
	require.Len(t, ask(t, 200, "GET", base+"?agent_id=other", nil, anna...)["data"], 2)
}

// newServer serves a handler.
func newServer(t *testing.T, h http.HandlerFunc) (url string) {
	t.Helper()
	ts := httptest.NewServer(h)
	t.Cleanup(ts.Close)
	return ts.URL
}
