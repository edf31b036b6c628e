package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/openviking"
	"github.com/convolog/convolog/session/serve/uistream"
	"github.com/convolog/convolog/session/serve/zyhive"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// echo streams the last text of the user, word by word, and calls a tool first if the
// text begins with "tool".
func echo(ctx context.Context, s *session.Session, tn *turn.Turn) error {
	h, err := s.History(ctx)
	if err != nil {
		return err
	}
	said := h.Messages[len(h.Messages)-1].Text()
	if strings.HasPrefix(said, "tool") {
		call := transcript.ToolCallBlock{ID: "c1", Name: "look", Input: json.RawMessage(`{"at":"it"}`)}
		m := transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.TextBlock{Text: "I look."}, call}}
		if _, err := s.Append(ctx, &transcript.Response{Message: m, StopReason: transcript.StopToolUse}); err != nil {
			return err
		}
		if err := turn.RunTools(ctx, s, 1, func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
			return transcript.ToolResult(c.Call.ID, "seen"), nil
		}); err != nil {
			return err
		}
	}
	d := tn.Draft("test", "echo", transcript.Made{})
	var text strings.Builder
	for i, word := range strings.Fields(said) {
		switch word {
		case "fail":
			return fmt.Errorf("no more words")
		case "wait":
			<-ctx.Done()
			return context.Cause(ctx)
		}
		if i > 0 {
			word = " " + word
		}
		text.WriteString(word)
		if err := d.Write(ctx, word); err != nil {
			return err
		}
		if err := d.Flush(ctx); err != nil {
			return err
		}
	}
	_, err = d.Finish(ctx, &transcript.Response{Message: transcript.AssistantText(text.String()), API: "test", Model: "echo", StopReason: transcript.StopEndTurn})
	return err
}

var quiet = slog.New(slog.DiscardHandler)

// anyone lets every request in, as an administrator.
func anyone(*http.Request) (serve.Principal, error) { return serve.Principal{Admin: true}, nil }

// everything returns all surfaces but the page.
func everything() []serve.Surface {
	return []serve.Surface{zyhive.New(), openviking.New("main", nil), serve.Own(), uistream.New("/api/chat", "main")}
}

// served is a server over a store.
func served(t testing.TB, opts *serve.Options) (*httptest.Server, *session.Store, *serve.Server) {
	t.Helper()
	store, err := session.Open(t.TempDir(), &session.Options{Sync: session.SyncNever})
	require.NoError(t, err)
	ts, sv := servedOver(t, store, opts)
	return ts, store, sv
}

// servedOver is a server over a store, which ends with the test.
func servedOver(t testing.TB, store *session.Store, opts *serve.Options) (*httptest.Server, *serve.Server) {
	t.Helper()
	if opts == nil {
		opts = &serve.Options{Auth: anyone, Respond: echo}
	}
	if opts.Surfaces == nil {
		opts.Surfaces = everything()
	}
	if opts.Heartbeat == 0 {
		opts.Heartbeat = 200 * time.Millisecond // streams of later events begin with a comment or two
	}
	if opts.Logger == nil {
		opts.Logger = quiet
	}
	sv, err := serve.New(store, opts)
	require.NoError(t, err)
	ts := httptest.NewServer(sv)
	t.Cleanup(func() {
		require.NoError(t, sv.Close(context.Background()))
		ts.Close()
		require.NoError(t, store.Close())
	})
	return ts, sv
}

// frame is an event as a client sees it.
type frame struct {
	id, name string
	data     map[string]any
}

func (f frame) typ() string { s, _ := f.data["type"].(string); return s }

// frames reads events until the stream ends or f returns false.
func frames(r io.Reader, f func(frame) bool) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	var one frame
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case lines.Text() == "":
			if one.data != nil && !f(one) {
				return nil
			}
			one = frame{}
		case name == "id":
			one.id = value
		case name == "event":
			one.name = value
		case name == "data":
			if err := json.Unmarshal([]byte(value), &one.data); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

func call(t testing.TB, method, url string, body any, header ...string) *http.Response {
	t.Helper()
	var r io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		require.NoError(t, err)
		r = bytes.NewReader(data)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, url, r)
	require.NoError(t, err)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func decode(t testing.TB, resp *http.Response) (v map[string]any) {
	t.Helper()
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&v))
	return v
}

// chat says something and returns all events of the answer.
func chat(t testing.TB, url string, body map[string]any, header ...string) (all []frame) {
	t.Helper()
	resp := call(t, "POST", url+"/api/agents/main/chat", body, header...)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	require.NoError(t, frames(resp.Body, func(f frame) bool { all = append(all, f); return true }))
	return all
}

func text(all []frame) (s string) {
	for _, f := range all {
		switch f.typ() {
		case "text_delta":
			s += f.data["text"].(string)
		case "reset":
			s = ""
		}
	}
	return s
}

func TestChat(t *testing.T) {
	t.Parallel()
	ts, _, _ := served(t, nil)
	all := chat(t, ts.URL, map[string]any{"message": "one two three"})
	require.Equal(t, "one two three", text(all))
	last := all[len(all)-1]
	require.Equal(t, "done", last.typ())
	id := last.data["sessionId"].(string)
	require.NotEmpty(t, id)
	require.Positive(t, last.data["tokenEstimate"])

	all = chat(t, ts.URL, map[string]any{"message": "tool please", "sessionId": id, "history": []string{"ignored"}})
	var types []string
	for _, f := range all {
		types = append(types, f.typ())
		require.NotEmpty(t, f.id)
	}
	require.Equal(t, []string{"text_delta", "tool_call", "tool_result", "text_delta", "text_delta", "done"}, types)

	list := decode(t, call(t, "GET", ts.URL+"/api/agents/main/sessions", nil))
	require.EqualValues(t, 1, list["total"])
	one := decode(t, call(t, "GET", ts.URL+"/api/agents/main/sessions/"+id, nil))
	var said []string
	for _, m := range one["messages"].([]any) {
		m := m.(map[string]any)
		said = append(said, fmt.Sprint(m["role"], ": ", m["text"]))
	}
	require.Equal(t, []string{"user: one two three", "assistant: one two three", "user: tool please", "assistant: I look.", "assistant: tool please"}, said)
	require.Equal(t, http.StatusOK, call(t, "PATCH", ts.URL+"/api/agents/main/sessions/"+id, map[string]string{"title": "T"}).StatusCode)
	require.Equal(t, "T", decode(t, call(t, "GET", ts.URL+"/api/sessions/main/"+id, nil))["session"].(map[string]any)["title"])
	require.Equal(t, http.StatusOK, call(t, "DELETE", ts.URL+"/api/agents/main/sessions/"+id, nil).StatusCode)
	require.Equal(t, http.StatusNotFound, call(t, "GET", ts.URL+"/api/agents/main/sessions/"+id, nil).StatusCode)
	require.Equal(t, http.StatusNotFound, call(t, "POST", ts.URL+"/api/agents/main/chat", map[string]any{"message": "x", "sessionId": id}).StatusCode)
}

// Every path ends with a terminal event.
func TestTerminalEvent(t *testing.T) {
	t.Parallel()
	ts, _, sv := served(t, nil)
	all := chat(t, ts.URL, map[string]any{"message": "fail"})
	require.Equal(t, []string{"error", "done"}, []string{all[0].typ(), all[1].typ()})
	all = chat(t, ts.URL, map[string]any{"message": "some fail"})
	require.Equal(t, "some", text(all))
	require.Equal(t, "done", all[len(all)-1].typ())
	id := all[len(all)-1].data["sessionId"].(string)

	// Stopped by another request, with the text so far.
	resp := call(t, "POST", ts.URL+"/api/agents/main/chat", map[string]any{"message": "so far wait", "sessionId": id})
	all = nil
	require.NoError(t, frames(resp.Body, func(f frame) bool {
		all = append(all, f)
		if len(all) == 2 {
			require.Equal(t, http.StatusOK, call(t, "DELETE", ts.URL+"/api/agents/main/chat?sessionId="+id, nil).StatusCode)
		}
		return true
	}))
	require.Equal(t, "so far", text(all))
	require.Equal(t, "done", all[len(all)-1].typ())

	// Stopped before the first word.
	resp = call(t, "POST", ts.URL+"/api/agents/main/chat", map[string]any{"message": "wait", "sessionId": id})
	go func() {
		time.Sleep(50 * time.Millisecond)
		call(t, "DELETE", ts.URL+"/api/agents/main/chat?sessionId="+id, nil)
	}()
	all = nil
	require.NoError(t, frames(resp.Body, func(f frame) bool { all = append(all, f); return true }))
	require.Equal(t, "stopped", all[0].data["error"])
	require.Equal(t, "done", all[1].typ())
	_ = sv
}

// A client that is cut at any event continues with the next one.
func TestResume(t *testing.T) {
	t.Parallel()
	ts, _, _ := served(t, nil)
	want := chat(t, ts.URL, map[string]any{"message": "tool a b c d e f"})
	id := want[len(want)-1].data["sessionId"].(string)
	chat(t, ts.URL, map[string]any{"message": "something later", "sessionId": id})
	for i := range want {
		resp := call(t, "GET", ts.URL+"/api/agents/main/chat/stream?sessionId="+id, nil, "Last-Event-ID", want[i].id)
		var rest []frame
		require.NoError(t, frames(resp.Body, func(f frame) bool { rest = append(rest, f); return true }))
		if i == len(want)-1 {
			require.Empty(t, rest)
			continue
		}
		require.Equal(t, len(want)-i-1, len(rest), "behind event %d", i)
		for j, f := range rest {
			require.Equal(t, want[i+1+j].id, f.id)
			require.Equal(t, want[i+1+j].data["text"], f.data["text"])
		}
	}
	resp := call(t, "GET", ts.URL+"/api/agents/main/chat/stream?sessionId="+id, nil)
	var idle []frame
	require.NoError(t, frames(resp.Body, func(f frame) bool { idle = append(idle, f); return true }))
	require.Len(t, idle, 1)
	require.Equal(t, "idle", idle[0].typ())
}

// A request that is repeated with its key queues nothing, and shows the same.
func TestRetry(t *testing.T) {
	t.Parallel()
	ts, store, _ := served(t, nil)
	one := chat(t, ts.URL, map[string]any{"message": "only once"}, "Idempotency-Key", "k1")
	two := chat(t, ts.URL, map[string]any{"message": "only once"}, "Idempotency-Key", "k1")
	require.Equal(t, one, two)
	infos, err := store.List(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, infos, 1)
	require.Equal(t, 2, infos[0].Messages)
	resp := call(t, "POST", ts.URL+"/api/agents/main/chat", map[string]any{"message": "another"}, "Idempotency-Key", "k1")
	require.Equal(t, http.StatusConflict, resp.StatusCode)
}
