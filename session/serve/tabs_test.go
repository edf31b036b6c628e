package serve_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
)

// Tabs that post at once get a whole turn each.
func TestTabs(t *testing.T) {
	t.Parallel()
	ts, store, _ := served(t, nil)
	s, err := store.Create(t.Context(), session.Key{Agent: "main", Channel: "web", Peer: "x"}, nil)
	require.NoError(t, err)
	var posting sync.WaitGroup
	for i := range 6 {
		posting.Go(func() {
			said := fmt.Sprintf("tab %d", i)
			all := chat(t, ts.URL, map[string]any{"sessionId": s.Ref().ID, "message": said})
			if got := text(all); got != said || all[len(all)-1].typ() != "done" {
				t.Errorf("%q: %q", said, got)
			}
		})
	}
	posting.Wait()
	require.Equal(t, 6, infoOf(t, s).Turns)
}

// A session in which too much waits takes no more.
func TestFull(t *testing.T) {
	t.Parallel()
	ts, store, _ := served(t, &serve.Options{Auth: anyone, Queue: 1, Respond: echo})
	s, err := store.Create(t.Context(), session.Key{Agent: "main", Channel: "web", Peer: "x"}, nil)
	require.NoError(t, err)
	tn, err := turn.Begin(t.Context(), s) // another user
	require.NoError(t, err)
	url, body := ts.URL+"/api/agents/main/chat", map[string]any{"sessionId": s.Ref().ID, "message": "first"}
	first := call(t, "POST", url, body)
	require.Equal(t, http.StatusOK, first.StatusCode)
	second := call(t, "POST", url, body)
	require.Equal(t, http.StatusServiceUnavailable, second.StatusCode)
	require.NotEmpty(t, second.Header.Get("Retry-After"))
	require.NoError(t, tn.End())
	var last frame
	require.NoError(t, frames(first.Body, func(f frame) bool { last = f; return true }))
	require.Equal(t, "done", last.typ())
	require.True(t, strings.HasPrefix(infoOf(t, s).Title, "first"))
}

// infoOf describes a session.
func infoOf(t testing.TB, s *session.Session) session.Info {
	t.Helper()
	info, err := s.Info(t.Context())
	require.NoError(t, err)
	return info
}
