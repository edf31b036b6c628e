package serve_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// Somebody else answers while an answer is being written: previews go on in the same
// way from wherever a client does.
func TestAgentsAnswerWithinDraft(t *testing.T) {
	t.Parallel()
	ts, store, _ := served(t, &serve.Options{Open: true})
	s := talk(t, store, "one")
	tn, err := turn.Begin(t.Context(), s)
	require.NoError(t, err)
	d := tn.Draft("", "", transcript.Made{})
	write := func(text string) {
		require.NoError(t, d.Write(t.Context(), text))
		require.NoError(t, d.Flush(t.Context()))
	}
	write("a")
	_, err = s.Append(t.Context(), transcript.UserText("and you?"), &transcript.Response{Message: transcript.AssistantText("b")})
	require.NoError(t, err)
	write(" c")
	write(" d")
	_, err = d.Finish(t.Context(), &transcript.Response{Message: transcript.AssistantText("a c d"), StopReason: transcript.StopEndTurn})
	require.NoError(t, err)
	require.NoError(t, tn.End())
	_, err = s.Append(t.Context(), transcript.UserText("last"))
	require.NoError(t, err)
	untilLast := func(f frame) bool {
		content, _ := f.data["content"].([]any)
		return len(content) == 0 || content[0].(obj)["text"] != "last"
	}
	url := ts.URL + "/v1/sessions/one/events/stream?event_deltas=agent.message&after="
	all := follow(t, url+"one", untilLast)
	for i := range all[:len(all)-1] {
		require.Equal(t, all[i+1:], follow(t, url+all[i].id, untilLast), "behind %v", all[i])
	}
}

// The end of a turn is an event of its own as soon as the turn is there, also for a
// client that goes on in the middle of what was appended with it.
func TestAgentsEndOfAppend(t *testing.T) {
	t.Parallel()
	ts, store, _ := served(t, &serve.Options{Open: true})
	s := talk(t, store, "one")
	_, err := s.Append(t.Context(), transcript.UserText("a"), &transcript.Response{Message: transcript.AssistantText("b")},
		transcript.UserText("c"), &transcript.Response{Message: transcript.AssistantText("d")})
	require.NoError(t, err)
	url := ts.URL + "/v1/sessions/one"
	want := listed(t, url, "limit=1000")
	require.Equal(t, "session.status_idle", want[len(want)-1]["type"])
	for limit := range len(want) {
		require.Equal(t, want, listed(t, url, "limit="+string(rune('1'+limit%9))), limit)
	}
}

// A decision belongs to its turn: when that was stopped, the next one may fail, and says
// so.
func TestAgentsDecidedAndStopped(t *testing.T) {
	t.Parallel()
	var failures atomic.Int32
	ts, _, _ := served(t, &serve.Options{Open: true, Respond: serve.Responder(func(ctx context.Context, s *session.Session, tn *turn.Turn) error {
		h, err := s.History(ctx)
		if err != nil || h.Messages[len(h.Messages)-1].Text() == "fail" {
			failures.Add(1)
			return errors.Join(err, errors.New("it fails"))
		}
		return careful(ctx, s, tn)
	})})
	base := ts.URL + "/v1/sessions"
	url := base + "/" + ask(t, http.StatusOK, "POST", base, obj{"agent": "main"})["id"].(string)
	all := sendAndFollow(t, url, says("danger c1 c2"))
	calls := all[len(all)-1].data["stop_reason"].(obj)["event_ids"].([]any)
	ask(t, http.StatusOK, "POST", url+"/events", obj{"events": []obj{{"type": "user.tool_confirmation", "tool_use_id": calls[0], "result": "allow"}}})
	all = sendAndFollow(t, url, obj{"events": []obj{{"type": "user.interrupt"}}})
	require.Equal(t, "end_turn", all[len(all)-1].data["stop_reason"].(obj)["type"])
	all = sendAndFollow(t, url, says("fail"))
	require.Equal(t, "retries_exhausted", all[len(all)-1].data["stop_reason"].(obj)["type"])
	require.EqualValues(t, 1, failures.Load())
}

// A server that was killed behind the answer that followed a decision leaves nothing to
// go on with: the decision was for the calls before it.
func TestAgentsDecidedAndKilled(t *testing.T) {
	t.Parallel()
	asked := false
	ts, store, sv := served(t, &serve.Options{Open: true, Respond: serve.Responder(func(context.Context, *session.Session, *turn.Turn) error {
		asked = true
		return nil
	})})
	s := talk(t, store, "one")
	_, err := turn.Queue(t.Context(), s, transcript.UserText("danger"))
	require.NoError(t, err)
	tn, err := turn.Begin(t.Context(), s)
	require.NoError(t, err)
	_, err = turn.Drain(t.Context(), s, 0)
	require.NoError(t, err)
	call := func(id string) string {
		ids, err := s.Append(t.Context(), &transcript.Response{StopReason: transcript.StopToolUse, Message: transcript.Message{
			Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: id, Name: "drop", Input: []byte("{}")}},
		}})
		require.NoError(t, err)
		return ids[len(ids)-1]
	}
	first := call("c1")
	for _, v := range []transcript.Verdict{transcript.Hold, transcript.Approve} {
		require.NoError(t, turn.Decide(t.Context(), s, first, v, "anna", ""))
	}
	_, err = s.Append(t.Context(), transcript.ToolResult("c1", "dropped"))
	require.NoError(t, err)
	call("c2")
	require.NoError(t, tn.End())
	require.NoError(t, sv.Resume(t.Context(), nil))
	all := listed(t, ts.URL+"/v1/sessions/one", "")
	require.Equal(t, obj{"type": "retries_exhausted"}, all[len(all)-1]["stop_reason"])
	require.NoError(t, sv.Close(t.Context()))
	require.False(t, asked)
}

// A request to stop that came when nothing ran is not for the next turn.
func TestAgentsStoppedWhenIdle(t *testing.T) {
	t.Parallel()
	base, _ := agentsServer(t)
	url := base + "/" + ask(t, http.StatusOK, "POST", base, obj{"agent": "main"})["id"].(string)
	sendAndFollow(t, url, says("hello"))
	stop := obj{"events": []obj{{"type": "user.interrupt"}}}
	ask(t, http.StatusOK, "POST", url+"/events", stop)
	all := sendAndFollow(t, url, says("danger c1"))
	require.Equal(t, "requires_action", all[len(all)-1].data["stop_reason"].(obj)["type"])
	waiting := all[len(all)-1].data["stop_reason"].(obj)["event_ids"].([]any)
	all = sendAndFollow(t, url, obj{"events": []obj{{"type": "user.tool_confirmation", "tool_use_id": waiting[0], "result": "allow"}}})
	require.Equal(t, []string{"user.tool_confirmation", "session.status_running", "agent.tool_result", "agent.message", "session.status_idle"}, names(all))

	sendAndFollow(t, url, says("danger c1"))
	ask(t, http.StatusOK, "POST", url+"/events", says("and this")) // while it waits
	all = sendAndFollow(t, url, stop)
	require.Equal(t, "end_turn", all[len(all)-1].data["stop_reason"].(obj)["type"])
}
