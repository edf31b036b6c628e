package serve_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
)

// As many slow answers of one owner as may be made at once leave room for an answer of
// another.
func TestSlowAnswersOfOneOwner(t *testing.T) {
	t.Parallel()
	ctx, release := context.WithCancel(t.Context())
	const most = 8
	ts, store, _ := served(t, &serve.Options{
		Generations: most,
		Auth:        serve.Keys(map[string]serve.Principal{"bob-key": {Owner: "bob"}, "alice-key": {Owner: "alice"}}),
		Respond: func(answering context.Context, s *session.Session, tn *turn.Turn) error {
			info, err := s.Info(answering)
			if err != nil {
				return err
			}
			if info.Owner == "bob" {
				select {
				case <-ctx.Done():
				case <-answering.Done():
				}
			}
			return echo(answering, s, tn)
		},
	})
	defer release()
	say := func(owner, id string) {
		a := newAsker(t, ts, owner+"-key")
		a.ask(200, "POST", "/v1/store/sessions", map[string]string{"id": id}, nil)
		a.ask(200, "POST", "/v1/store/sessions/main/"+id+"/queue", map[string]string{"content": "hello"}, nil)
	}
	for i := range most + 1 {
		say("bob", fmt.Sprint("bob", i))
	}
	say("alice", "alice")
	s, err := store.Get(t.Context(), session.Ref{ID: "alice"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return infoOf(t, s).Messages == 2 }, soon, 5*time.Millisecond)
}

// Options.Admit gets the route and the size, refuses in its own words, and is not asked
// for senders who are unknown. Before each new session it is asked again.
func TestAdmit(t *testing.T) {
	t.Parallel()
	var got []string
	ts, _, _ := served(t, &serve.Options{
		Auth: serve.Keys(map[string]serve.Principal{"key": {Owner: "alice"}}),
		Admit: func(_ context.Context, who serve.Principal, d serve.Demand) error {
			got = append(got, fmt.Sprintln(who.Owner, d.Route.Method, d.Route.Path, d.Body, d.Creates))
			if d.Creates && d.Route.Method == http.MethodGet {
				return errors.New("too many sessions")
			}
			switch d.Body {
			case 2:
				return errors.New("no words of this are sent")
			case 3:
				return &serve.Problem{Status: http.StatusPaymentRequired, Code: "PAY"}
			}
			return nil
		},
	})
	raw := func(key, body string) (int, string) {
		status, answer := (&asker{TB: t, url: ts.URL, key: key}).raw("POST", "/v1/store/sessions", "application/json", []byte(body))
		return status, string(answer)
	}
	status, answer := raw("key", "{}")
	require.Equal(t, http.StatusTooManyRequests, status)
	require.NotContains(t, answer, "words")
	status, answer = raw("key", "{ }")
	require.Equal(t, http.StatusPaymentRequired, status)
	require.Contains(t, answer, "PAY")
	status, _ = raw("key", "{  }")
	require.Equal(t, http.StatusOK, status)
	status, _ = raw("other", "{}")
	require.Equal(t, http.StatusUnauthorized, status)
	require.Equal(t, []string{
		"alice POST /v1/store/sessions 2 false\n", "alice POST /v1/store/sessions 3 false\n",
		"alice POST /v1/store/sessions 4 false\n", "alice POST /v1/store/sessions 4 true\n",
	}, got)

	// Any route may create a session, and none of them does for a refused request.
	const one = "/api/v1/sessions/one"
	for _, request := range []struct {
		method, path string
		body         any
		status       int
		creates      bool
	}{
		{"GET", one + "?auto_create=true", nil, 429, true},
		{"GET", one, nil, 404, false},
		{"POST", one + "/messages", userText("tea"), 200, true},
		{"GET", one + "?auto_create=true", nil, 200, false},
		{"POST", one + "/messages", userText("tea"), 200, false},
	} {
		got = nil
		require.Equal(t, request.status, call(t, request.method, ts.URL+request.path, request.body, "X-API-Key", "key").StatusCode, request)
		require.Equal(t, request.creates, strings.Contains(strings.Join(got, ""), "true"), request)
	}
}
