package serve_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// replica is a server of its own on a folder that others serve too.
func replica(t *testing.T, dir string) (string, *serve.Server) {
	t.Helper()
	store, err := session.Open(dir, &session.Options{Sync: session.SyncNever})
	require.NoError(t, err)
	sv, err := serve.New(store, &serve.Options{Surfaces: everything(), Auth: anyone, Respond: echo, Logger: quiet})
	require.NoError(t, err)
	ts := httptest.NewServer(sv)
	t.Cleanup(func() {
		require.NoError(t, sv.Close(context.Background()))
		ts.Close()
		require.NoError(t, store.Close())
	})
	return ts.URL, sv
}

// A client may talk to any of the servers of a folder: one streams, stops and
// continues the answers of another.
func TestReplicas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, first := replica(t, dir)
	two, _ := replica(t, dir)
	all := chat(t, one, map[string]any{"message": "hello"})
	id := all[len(all)-1].data["sessionId"].(string)
	at := "?sessionId=" + id

	resp := call(t, "POST", one+"/api/agents/main/chat", map[string]any{"message": "so far wait", "sessionId": id})
	all = nil
	var queued *http.Response
	require.NoError(t, frames(resp.Body, func(f frame) bool {
		if all = append(all, f); len(all) != 2 {
			return true
		}
		// The other server reports the running answer, shows it, takes more, and stops it.
		status := decode(t, call(t, "GET", two+"/api/agents/main/chat/status"+at, nil))
		require.Equal(t, []any{"generating", false}, []any{status["status"], status["hasWorker"]})
		shown := call(t, "GET", two+"/api/agents/main/chat/stream"+at, nil, "Last-Event-ID", all[0].id)
		require.NoError(t, frames(shown.Body, func(f frame) bool {
			require.Equal(t, all[1], f)
			return false
		}))
		require.NoError(t, shown.Body.Close())
		require.Equal(t, http.StatusOK, call(t, "DELETE", two+"/api/agents/main/chat"+at, nil).StatusCode)
		queued = call(t, "POST", two+"/api/agents/main/chat", map[string]any{"message": "and more", "sessionId": id})
		return true
	}))
	require.Equal(t, "so far", text(all))
	require.Equal(t, "done", all[len(all)-1].typ())
	var more []frame
	require.NoError(t, frames(queued.Body, func(f frame) bool { more = append(more, f); return true }))
	require.Equal(t, "and more", text(more))

	// One is closed in the middle of an answer; its clients continue with the other,
	// which may be the one that answers.
	resp = call(t, "POST", one+"/api/agents/main/chat", map[string]any{"message": "up to here wait", "sessionId": id})
	all = nil
	require.NoError(t, frames(resp.Body, func(f frame) bool {
		if all = append(all, f); len(all) == 2 {
			over, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, first.Close(over), context.Canceled)
		}
		return len(all) < 2
	}))
	resp = call(t, "GET", two+"/api/agents/main/chat/stream"+at, nil, "Last-Event-ID", all[1].id)
	require.Equal(t, http.StatusOK, call(t, "DELETE", two+"/api/agents/main/chat"+at, nil).StatusCode)
	require.NoError(t, frames(resp.Body, func(f frame) bool { all = append(all, f); return true }))
	require.Contains(t, []string{"up to", "up to here"}, text(all))
	require.Equal(t, "done", all[len(all)-1].typ())
	require.Equal(t, http.StatusServiceUnavailable, call(t, "POST", one+"/api/agents/main/chat", map[string]any{"message": "x", "sessionId": id}).StatusCode)
	// It does not keep refused texts, which a client sends again elsewhere.
	require.Empty(t, decode(t, call(t, "GET", two+"/v1/store/sessions/main/"+id+"/pending", nil))["queued"])
	for _, m := range decode(t, call(t, "GET", two+"/api/sessions/main/"+id, nil))["messages"].([]any) {
		require.NotEqual(t, "x", m.(map[string]any)["text"])
	}
	more = chat(t, two, map[string]any{"message": "still here", "sessionId": id})
	require.Equal(t, "still here", text(more))
}

// A server that waits for the turn of another one still answers other sessions, and
// ends the turn when the other server ends, for a client that was there before.
func TestServerOutlivesAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := session.Open(dir, &session.Options{Sync: session.SyncNever})
	require.NoError(t, err)
	defer store.Close()
	sv, err := serve.New(store, &serve.Options{Surfaces: everything(), Auth: anyone, Respond: echo, Logger: quiet, Generations: 1})
	require.NoError(t, err)
	ts := httptest.NewServer(sv)
	defer ts.Close()
	defer sv.Close(context.Background())

	// The other one has taken a text and said a part of the answer.
	other, err := session.Open(dir, &session.Options{Sync: session.SyncNever})
	require.NoError(t, err)
	defer other.Close()
	s, err := other.Create(t.Context(), session.Key{Agent: "main", Channel: "http", Peer: "p"}, nil)
	require.NoError(t, err)
	_, err = s.Append(t.Context(), transcript.Queued{Content: []transcript.Block{transcript.TextBlock{Text: "hello"}}})
	require.NoError(t, err)
	tn, err := turn.Begin(t.Context(), s)
	require.NoError(t, err)
	_, err = turn.Drain(t.Context(), s, 1)
	require.NoError(t, err)
	draft := tn.Draft("test", "model", transcript.Made{})
	require.NoError(t, draft.Write(t.Context(), "so far"))
	require.NoError(t, draft.Flush(t.Context()))

	resp := call(t, "GET", ts.URL+"/api/agents/main/chat/stream?sessionId="+s.Ref().ID, nil)
	var all []frame
	require.NoError(t, frames(resp.Body, func(f frame) bool {
		if all = append(all, f); f.typ() == "text_delta" {
			require.Equal(t, "elsewhere", text(chat(t, ts.URL, map[string]any{"message": "elsewhere"})))
			require.NoError(t, tn.End()) // as the end of its process would
		}
		return true
	}))
	require.Equal(t, "so far", text(all))
	require.Equal(t, "done", all[len(all)-1].typ())
}

// A readDriver calls a function before each read of a request.
type readDriver struct {
	driver.Driver
	before func()
}

func (d readDriver) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	if ctx.Value(http.ServerContextKey) != nil {
		d.before()
	}
	return d.Driver.Scan(ctx, ref, from, dir, keep)
}

// Another server drains a text before any read of a request for the stream of its
// answer. The client gets the stream.
func TestDrainRace(t *testing.T) {
	t.Parallel()
	for n := int32(1); ; n++ {
		var reads atomic.Int32
		drain := func() {}
		base := memdriver.New(nil)
		ts, _ := servedOver(t, session.OpenDriver(readDriver{base, func() {
			if reads.Add(1) == n {
				drain()
			}
		}}, nil), nil)
		other := session.OpenDriver(base, nil) // the server closes the driver
		s, err := other.Create(t.Context(), session.Key{Agent: "main", Channel: "http", Peer: "x"}, &session.CreateOptions{ID: "x"})
		require.NoError(t, err)
		tn, err := turn.Begin(t.Context(), s)
		require.NoError(t, err)
		_, err = s.Append(t.Context(), transcript.Queued{Content: transcript.UserText("hello").Content})
		require.NoError(t, err)
		drain = func() {
			if _, err := turn.Drain(t.Context(), s, 1); err != nil {
				t.Error(err)
			}
		}
		resp := call(t, "GET", ts.URL+"/api/chat/x/stream", nil)
		done := reads.Swap(1 << 20) // the stream continues
		require.Equal(t, http.StatusOK, resp.StatusCode, "before read %d", n)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, tn.End())
		if done < n {
			require.Greater(t, n, int32(3))
			return
		}
	}
}
