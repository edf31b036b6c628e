package serve_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A repeated POST names the entry of the first one, and the answer to the first one
// follows that entry. No text is stored twice, and no answer is made twice.
func TestRepeatedPost(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	ts, store, _ := served(t, &serve.Options{
		Auth: serve.Keys(map[string]serve.Principal{"alice-key": {Owner: "alice"}}),
		Respond: func(ctx context.Context, s *session.Session, tn *turn.Turn) error {
			asked.Add(1)
			return echo(ctx, s, tn)
		},
	})
	s, err := store.Create(t.Context(), session.Key{Agent: "main"}, &session.CreateOptions{ID: "s", Owner: "alice"})
	require.NoError(t, err)
	const at = "/v1/store/sessions/main/s"
	post := func(path, key string, body, out any) {
		resp := call(t, "POST", ts.URL+at+path, body, "X-Api-Key", "alice-key", "Idempotency-Key", key)
		defer resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.NoError(t, json.NewDecoder(resp.Body).Decode(out))
	}
	var queued, again, other struct{ Entry string }
	post("/queue", "1", map[string]string{"content": "the first text"}, &queued)
	post("/queue", "2", map[string]string{"content": "another text"}, &other)
	post("/queue", "1", map[string]string{"content": "the first text"}, &again)
	require.Equal(t, queued, again)
	require.NotEqual(t, queued, other)

	// In Go, Follow waits for the answer. Over HTTP, a page has it afterwards.
	answerIn := func(e transcript.Entry, to string, ours *bool) (text string) {
		m, ok := e.Body.(transcript.MessageLine)
		switch {
		case !ok:
		case m.Role == transcript.RoleUser:
			*ours = m.Queued == to
		case *ours:
			return m.Message().Text()
		}
		return ""
	}
	for _, want := range []struct{ entry, text string }{{queued.Entry, "the first text"}, {other.Entry, "another text"}} {
		ours, found := false, ""
		for e, err := range s.Follow(t.Context(), want.entry) {
			require.NoError(t, err)
			if found = answerIn(e, want.entry, &ours); found != "" {
				break
			}
		}
		require.Contains(t, found, want.text)

		a := newAsker(t, ts, "alice-key")
		var p page
		a.ask(200, "GET", at+"/entries?after="+url.QueryEscape(want.entry), nil, &p)
		ours, stored := false, ""
		for _, e := range p.Entries {
			stored += answerIn(e, want.entry, &ours)
		}
		require.Equal(t, found, stored)
	}
	post("/queue", "1", map[string]string{"content": "the first text"}, &again)
	require.Equal(t, queued, again)
	require.EqualValues(t, 2, asked.Load())

	// A message that is appended without the responder names its entries as well.
	var first, second session.Appended
	body := map[string]string{"role": "user", "content": "a note"}
	post("/entries", "3", body, &first)
	post("/entries", "3", body, &second)
	require.Equal(t, session.Appended{IDs: first.IDs, Repeated: true}, second)
	_, err = s.Append(t.Context(), transcript.AssistantText("noted"))
	require.NoError(t, err)
	a := newAsker(t, ts, "alice-key")
	var p page
	a.ask(200, "GET", at+"/entries?after="+second.IDs[0], nil, &p)
	require.Len(t, p.Entries, 1)
	require.Equal(t, "noted", p.Entries[0].Body.(transcript.MessageLine).Message().Text())
}

// The parameter waits selects sessions by the next step of their unfinished work.
func TestListWaits(t *testing.T) {
	t.Parallel()
	ts, store, _ := withKeys(t)
	a := newAsker(t, ts, "alice-key")
	s := talk(t, store, "s")
	talk(t, store, "other")
	list := func(waits string) (ids []string) {
		var got struct{ Sessions []session.Info }
		a.ask(200, "GET", "/v1/store/sessions?waits="+waits, nil, &got)
		for _, i := range got.Sessions {
			ids = append(ids, i.ID)
			require.Equal(t, waits, string(i.Waits))
		}
		return ids
	}
	require.Empty(t, list("approval"))
	ids, err := s.Append(t.Context(), transcript.UserText("go"), transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
		transcript.ToolCallBlock{ID: "c", Name: "rm", Input: json.RawMessage("{}")},
	}})
	require.NoError(t, err)
	require.Equal(t, []string{"s"}, list("tool"))
	require.NoError(t, turn.Decide(t.Context(), s, ids[len(ids)-1], transcript.Hold, "policy", ""))
	require.Equal(t, []string{"s"}, list("approval"))
	require.Empty(t, list("answer"))
	a.ask(400, "GET", "/v1/store/sessions?waits=lunch", nil, nil)
}
