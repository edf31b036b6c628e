package serve_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A place that no event has, wherever a client has it from, is answered at once: with
// a reset, with an error, but never with silence.
func TestUnknownPlaces(t *testing.T) {
	t.Parallel()
	ts, _, _ := served(t, nil)
	all := chat(t, ts.URL, map[string]any{"message": "a b c"}, "Idempotency-Key", "k")
	id := all[len(all)-1].data["sessionId"].(string)
	other := chat(t, ts.URL, map[string]any{"message": "another session"})
	draft, _, _ := strings.Cut(all[0].id, "/")
	places := []string{
		draft + "/7", draft + "/99999999999999999999", draft + "/-1", draft, "/0", "x", id + "/0",
		other[0].id, "019ffffff-ffff-7fff-bfff-ffffffffffff/0",
	}
	for _, at := range places {
		resp := call(t, "GET", ts.URL+"/api/agents/main/chat/stream?sessionId="+id, nil, "Last-Event-ID", at)
		var got []frame
		require.NoError(t, frames(resp.Body, func(f frame) bool { got = append(got, f); return true }))
		require.Len(t, got, 1, at)
		require.Equal(t, "idle", got[0].typ(), at)

		// A request that is made again begins again.
		got = chat(t, ts.URL, map[string]any{"message": "a b c"}, "Idempotency-Key", "k", "Last-Event-ID", at)
		require.Equal(t, "reset", got[0].typ(), at)
		require.Equal(t, all, got[1:], at)
	}
	for i := range all { // and one with a place continues there, even after the end
		got := chat(t, ts.URL, map[string]any{"message": "a b c"}, "Idempotency-Key", "k", "Last-Event-ID", all[i].id)
		require.Equal(t, len(all)-i-1, len(got), i)
		require.Equal(t, all[i+1:], append([]frame{}, got...), i)
	}

	url := ts.URL + "/v1/store/sessions/main/" + id
	for _, at := range []string{"x", "/0", other[0].id, "019ffffff-ffff-7fff-bfff-ffffffffffff"} {
		require.Equal(t, http.StatusNotFound, call(t, "GET", url+"/follow", nil, "Last-Event-ID", at).StatusCode, at)
		require.Equal(t, http.StatusNotFound, call(t, "GET", url+"/entries?after="+at, nil).StatusCode, at)
		require.Equal(t, http.StatusNotFound, call(t, "GET", url+"/entries?before="+at, nil).StatusCode, at)
	}
}

// A rewind ends the streams of a turn at once, and the answer can still be stopped.
func TestRewindWhileStreaming(t *testing.T) {
	t.Parallel()
	ts, store, _ := served(t, &serve.Options{Auth: anyone, Respond: echo})
	s := talk(t, store, "one")
	page, err := search.Page(t.Context(), s, "", 2)
	require.NoError(t, err)
	resp := call(t, "POST", ts.URL+"/api/agents/main/chat", map[string]any{"message": "so far wait", "sessionId": "one"})
	var types []string
	require.NoError(t, frames(resp.Body, func(f frame) bool {
		if types = append(types, f.typ()); len(types) == 2 {
			require.NoError(t, s.Rewind(t.Context(), page[1].ID))
		}
		return true
	}))
	require.Equal(t, []string{"text_delta", "text_delta", "reset", "done"}, types)
	require.Equal(t, http.StatusOK, call(t, "DELETE", ts.URL+"/api/agents/main/chat?sessionId=one", nil).StatusCode)
}

// Clients drop the text of a stream that failed and is tried again.
func TestRetriedDraft(t *testing.T) {
	t.Parallel()
	var next func(context.Context, *session.Session, *turn.Draft) error
	ts, _, _ := served(t, &serve.Options{Auth: anyone, Respond: serve.Responder(func(ctx context.Context, s *session.Session, tn *turn.Turn) error {
		var d *turn.Draft
		for _, text := range []string{"cut of", "whole"} {
			d = tn.Draft("test", "model", transcript.Made{})
			if err := errors.Join(d.Write(ctx, text), d.Flush(ctx)); err != nil {
				return err
			}
			if next != nil {
				return next(ctx, s, d)
			}
		}
		_, err := d.Finish(ctx, &transcript.Response{Message: transcript.AssistantText("whole"), StopReason: transcript.StopEndTurn})
		return err
	})})
	types := func() (types []string) {
		for _, f := range chat(t, ts.URL, map[string]any{"message": "go"}) {
			types = append(types, f.typ())
		}
		return types
	}
	require.Equal(t, []string{"text_delta", "reset", "text_delta", "done"}, types())
	next = func(ctx context.Context, s *session.Session, _ *turn.Draft) error { // without a draft
		_, err := s.Append(ctx, transcript.AssistantText("whole"))
		return err
	}
	require.Equal(t, []string{"text_delta", "reset", "text_delta", "done"}, types())
	next = func(ctx context.Context, _ *session.Session, d *turn.Draft) error {
		return errors.Join(d.Discard(ctx), errors.New("no"))
	}
	require.Equal(t, []string{"text_delta", "reset", "error"}, types()[:3])
}

// A stream continues where it was, even if the session was archived or restored in
// between.
func TestResumeArchived(t *testing.T) {
	t.Parallel()
	ts, store, sv := served(t, nil)
	all := chat(t, ts.URL, map[string]any{"message": "a b c"})
	id := all[len(all)-1].data["sessionId"].(string)
	ref := session.Ref{Agent: "main", ID: id}
	s, err := store.Get(t.Context(), ref)
	require.NoError(t, err)
	for _, to := range []session.State{session.Archived, session.Live} {
		tn, err := turn.Begin(t.Context(), s) // the answer is there before its turn is over
		if err == nil {
			require.NoError(t, tn.End())
		}
		require.NoError(t, store.SetState(t.Context(), ref, to, -1))
		require.NoError(t, sv.Resume(t.Context(), &session.ListOptions{State: session.AnyState}))
		for i := range all {
			resp := call(t, "GET", ts.URL+"/api/agents/main/chat/stream?sessionId="+id, nil, "Last-Event-ID", all[i].id)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			got := []frame{}
			require.NoError(t, frames(resp.Body, func(f frame) bool { got = append(got, f); return true }))
			require.Equal(t, all[i+1:], got, i)
		}
	}
}
