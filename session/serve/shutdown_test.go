package serve_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A server that is asked to stop lets an answer end. If it may not wait, it ends the
// answer, and its clients see how. They continue at the next server without a loss.
func TestShutdown(t *testing.T) {
	t.Parallel()
	for _, patient := range []bool{true, false} {
		_, store, next := served(t, nil)
		talk(t, store, "one")
		release := make(chan struct{})
		sv, err := serve.New(store, &serve.Options{
			Auth: anyone, Surfaces: everything(), Logger: quiet,
			Respond: func(ctx context.Context, _ *session.Session, tn *turn.Turn) error {
				d := tn.Draft("test", "slow", transcript.Made{})
				for _, word := range []string{"first ", "second"} {
					if err := d.Write(ctx, word); err != nil {
						return err
					}
					if err := d.Flush(ctx); err != nil {
						return err
					}
					select {
					case <-release:
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				}
				_, err := d.Finish(ctx, &transcript.Response{Message: transcript.AssistantText("first second"), StopReason: transcript.StopEndTurn})
				return err
			},
		})
		require.NoError(t, err)
		server := sv.HTTPServer("")
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		go func() { _ = server.Serve(l) }()
		url := "http://" + l.Addr().String()
		const chat = "/api/agents/main/chat"
		body := map[string]any{"message": "go", "sessionId": "one"}

		follow := call(t, "GET", url+"/v1/store/sessions/main/one/follow", nil)
		resp := call(t, "POST", url+chat, body, "Idempotency-Key", "k")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stopped := make(chan error, 1)
		var seen []frame
		_ = frames(resp.Body, func(f frame) bool { // an error if it is cut
			if seen = append(seen, f); len(seen) > 1 {
				return true
			}
			go func() { stopped <- server.Shutdown(ctx) }()
			require.Eventually(t, func() bool {
				w := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodPost, "/v1/store/sessions/main/none/queue", strings.NewReader("{}"))
				r.Header.Set("Content-Type", "application/json")
				sv.ServeHTTP(w, r)
				return w.Code == http.StatusServiceUnavailable
			}, soon, soon/1000)
			if patient {
				close(release)
				return true
			}
			cancel()
			require.ErrorIs(t, <-stopped, context.Canceled)
			require.ErrorIs(t, sv.Close(ctx), context.Canceled)
			return true
		})
		require.NoError(t, frames(follow.Body, func(frame) bool { return true })) // it has ended too
		require.Equal(t, "done", seen[len(seen)-1].typ())
		require.Equal(t, map[bool]string{true: "first second", false: "first "}[patient], text(seen))
		if patient {
			require.NoError(t, <-stopped)
			require.NoError(t, sv.Close(t.Context()))
		}

		ts := httptest.NewServer(next)
		defer ts.Close()
		resp = call(t, "GET", ts.URL+chat+"/stream?sessionId=one", nil, "Last-Event-ID", seen[len(seen)-1].id)
		rest := seen
		require.NoError(t, frames(resp.Body, func(f frame) bool { rest = append(rest, f); return true }))
		resp = call(t, "POST", ts.URL+chat, body, "Idempotency-Key", "k")
		var whole []frame
		require.NoError(t, frames(resp.Body, func(f frame) bool { whole = append(whole, f); return true }))
		require.Equal(t, whole, rest)
		require.Equal(t, "done", whole[len(whole)-1].typ())
	}
}
