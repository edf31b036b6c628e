package serve_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/zyhive"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// The context of a chat is for the system prompt of its turn, masked as all texts, and
// neither in the user's words nor in the title.
func TestChatContext(t *testing.T) {
	t.Parallel()
	mask := session.Redact(func(_ context.Context, text string) string { return strings.ReplaceAll(text, "12345", "***") })
	store := session.OpenDriver(memdriver.New(nil), &session.Options{Filters: []session.Filter{mask}})
	prompts := make(chan string, 2)
	opts := &serve.Options{Auth: anyone, Logger: quiet, Surfaces: []serve.Surface{zyhive.New(), serve.Own()}}
	opts.Respond = func(ctx context.Context, s *session.Session, tn *turn.Turn) error {
		prompt, err := serve.TurnPrompt(ctx, s)
		if err != nil {
			return err
		}
		prompts <- prompt
		return echo(ctx, s, tn)
	}
	ts, _ := servedOver(t, store, opts)
	all := chat(t, ts.URL, map[string]any{"message": "look at this code", "context": "page: payment.py 12345"}, "Idempotency-Key", "k")
	again := chat(t, ts.URL, map[string]any{"message": "look at this code", "context": "page: payment.py 12345"}, "Idempotency-Key", "k")
	require.Equal(t, all, again)
	id := all[len(all)-1].data["sessionId"].(string)
	chat(t, ts.URL, map[string]any{"message": "and now?", "sessionId": id})
	require.Equal(t, []string{"page: payment.py ***", ""}, []string{<-prompts, <-prompts})

	one := decode(t, call(t, "GET", ts.URL+"/api/agents/main/sessions/"+id, nil))
	require.Equal(t, "look at this code", one["session"].(map[string]any)["title"])
	require.Equal(t, "look at this code", one["messages"].([]any)[0].(map[string]any)["text"])
	s, err := store.Get(t.Context(), session.Ref{Agent: "main", ID: id})
	require.NoError(t, err)
	h, err := s.History(t.Context())
	require.NoError(t, err)
	require.Equal(t, "look at this code", h.Messages[0].Text())
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		require.NotContains(t, string(e.Line()), "12345")
		if _, ok := e.Body.(transcript.Queued); !ok {
			require.NotContains(t, string(e.Line()), "payment.py")
		}
	}
	require.Equal(t, 400, call(t, "POST", ts.URL+"/api/agents/main/chat", map[string]any{"context": "page"}).StatusCode)
	large := map[string]any{"message": "look", "context": strings.Repeat("x", 16<<10+1)}
	require.Equal(t, 400, call(t, "POST", ts.URL+"/api/agents/main/chat", large).StatusCode)
}
