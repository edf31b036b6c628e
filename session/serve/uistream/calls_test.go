package uistream_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// Held calls end the stream. Each decision continues it after the request that it answers.
func TestApprovals(t *testing.T) {
	t.Parallel()
	k := newTester(t)
	first := k.post(object{"id": "c", "messages": []object{says("m", "two")}})
	requests := first[3:5]
	var ids []string
	for i, call := range []string{"x", "y"} {
		var chunk struct{ Type, ApprovalID, ToolCallID string }
		require.NoError(t, json.Unmarshal([]byte(requests[i]), &chunk))
		require.Equal(t, "tool-approval-request", chunk.Type)
		require.Equal(t, call, chunk.ToolCallID)
		ids = append(ids, chunk.ApprovalID)
	}
	require.Equal(t, finish("tool-calls", 1), first[5:])
	require.Equal(t, first, chunks(t, k.request("ann", "GET", "/c/stream", nil)))
	parts := k.messages()[1]["parts"].([]any)
	require.Equal(t, "approval-requested", parts[1].(object)["state"])

	typed := k.request("ann", "POST", "", object{"id": "c", "messages": []object{says("n", "picture")}})
	require.Equal(t, http.StatusConflict, typed.StatusCode, "a message while a call waits")
	require.Len(t, k.messages(), 2, "it is not stored")
	require.Equal(t, first, k.post(object{"id": "c", "messages": []object{says("m", "two")}}), "the message of the turn")

	decides := func(id string, approved bool) object { // the client shows the refused message
		return object{"id": "c", "messageId": "a", "messages": []object{{"id": "a", "role": "assistant", "parts": []object{
			{"type": "tool-find", "toolCallId": "?", "state": "approval-responded", "approval": object{"id": id, "approved": approved}},
		}}, says("n", "picture")}}
	}
	approved := `{"approvalId":"` + ids[0] + `","approved":true,"reason":"","type":"tool-approval-response"}`
	require.Equal(t, append([]string{requests[1], approved}, finish("tool-calls", 1)...), k.post(decides(ids[0], true)), "the other call waits")
	require.Equal(t, append(append(first[:5:5], approved), finish("tool-calls", 1)...), chunks(t, k.request("ann", "GET", "/c/stream", nil)), "after a reload")
	require.Equal(t, http.StatusBadRequest, k.request("ann", "POST", "", object{"id": "c", "messages": []object{{"role": "assistant"}}}).StatusCode)
	last := k.post(decides(ids[1], false))
	require.Equal(t, approved, last[0])
	require.Contains(t, last, `{"toolCallId":"y","type":"tool-output-denied"}`)
	require.Contains(t, last, `{"output":{"n":1},"toolCallId":"x","type":"tool-output-available"}`)
	require.Equal(t, finish("stop", 2), last[len(last)-3:])
	require.Equal(t, http.StatusConflict, k.request("ann", "POST", "", decides(ids[0], true)).StatusCode, "the turn is over")
	whole := k.post(object{"id": "c", "messages": []object{says("m", "two")}})
	require.Equal(t, append(first[:5:5], last...), whole, "a replay after the decisions")
	parts = k.messages()[1]["parts"].([]any)
	require.Equal(t, "output-available", parts[1].(object)["state"])
	require.Equal(t, "output-denied", parts[2].(object)["state"])
}

// A turn is the turn of a server that does not exist any more.
func (k *tester) turn() (*session.Session, func(calls ...string) []string) {
	k.Helper()
	k.post(object{"id": "c", "messages": []object{says("m", "picture")}})
	s, err := k.store.Get(k.Context(), session.Ref{Agent: "main", ID: "c"})
	require.NoError(k, err)
	_, err = turn.Queue(k.Context(), s, transcript.UserText("two"))
	require.NoError(k, err)
	_, err = turn.Drain(k.Context(), s, 1)
	require.NoError(k, err)
	return s, func(calls ...string) []string {
		k.Helper()
		answer := transcript.Message{Role: transcript.RoleAssistant}
		for _, id := range calls {
			answer.Content = append(answer.Content, transcript.ToolCallBlock{ID: id, Name: "find", Input: json.RawMessage("{}")})
		}
		ids, err := s.Append(k.Context(), &transcript.Response{StopReason: transcript.StopToolUse, Message: answer})
		require.NoError(k, err)
		return ids[len(ids)-len(calls):]
	}
}

// A server that dies while it runs a call leaves a held call of the same answer. The
// stream does not wait for the other call: the client could not decide.
func TestLostCall(t *testing.T) {
	t.Parallel()
	k := newTester(t)
	s, calls := k.turn()
	ids := calls("x", "y")
	require.NoError(t, turn.Decide(t.Context(), s, ids[0], transcript.Hold, "policy", ""))
	require.NoError(t, turn.Dispatch(t.Context(), s, ids[1]))
	request := `{"approvalId":"` + ids[0] + `","toolCallId":"x","type":"tool-approval-request"}`
	all := chunks(t, k.request("ann", "GET", "/c/stream", nil))
	require.Equal(t, append([]string{request}, finish("tool-calls", 0)...), all[len(all)-4:])
	rest := k.post(object{"id": "c", "messages": []object{{"id": "a", "role": "assistant", "parts": []object{
		{"type": "tool-find", "toolCallId": "x", "state": "approval-responded", "approval": object{"id": ids[0], "approved": true}},
	}}}})
	require.Contains(t, rest, `{"output":{"n":1},"toolCallId":"x","type":"tool-output-available"}`)
	require.Contains(t, rest, done)
}

// A replay continues after a request that was decided, up to the call that waits.
func TestHeldTwice(t *testing.T) {
	t.Parallel()
	k := newTester(t)
	s, calls := k.turn()
	ids := calls("x", "y")
	require.NoError(t, turn.Decide(t.Context(), s, ids[0], transcript.Hold, "policy", ""))
	_, err := s.Append(t.Context(), transcript.ToolResult("y", "1"))
	require.NoError(t, err)
	require.NoError(t, turn.Decide(t.Context(), s, ids[0], transcript.Approve, "ann", ""))
	_, err = s.Append(t.Context(), transcript.ToolResult("x", "2"))
	require.NoError(t, err)
	ids = calls("z")
	require.NoError(t, turn.Decide(t.Context(), s, ids[0], transcript.Hold, "policy", ""))
	all := chunks(t, k.request("ann", "GET", "/c/stream", nil))
	require.Contains(t, all, `{"output":"2","toolCallId":"x","type":"tool-output-available"}`)
	require.Contains(t, all, `{"approvalId":"`+ids[0]+`","toolCallId":"z","type":"tool-approval-request"}`)
}

// A late result of an earlier answer is in no stream: the client would refuse it.
func TestLateResult(t *testing.T) {
	t.Parallel()
	k := newTester(t)
	k.post(object{"id": "c", "messages": []object{says("m", "two")}})
	require.Equal(t, http.StatusOK, k.request("ann", "DELETE", "/c/stream", nil).StatusCode)
	resp := k.request("ann", "POST", "", object{"id": "c", "messages": []object{says("n", "waits")}})
	readUntil(t, resp, "so far")
	s, err := k.store.Get(t.Context(), session.Ref{Agent: "main", ID: "c"})
	require.NoError(t, err)
	_, err = s.Append(t.Context(), transcript.ToolResult("x", "late"))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, k.request("ann", "DELETE", "/c/stream", nil).StatusCode)
	all := chunks(t, resp)
	require.Contains(t, all, done)
	require.NotContains(t, strings.Join(all, ""), "toolCallId")
}

// A stopped answer is interrupted, and keeps its text. A server that closes cuts streams
// of texts that wait for the next server.
func TestStop(t *testing.T) {
	t.Parallel()
	k := newTester(t)
	resp := k.request("ann", "POST", "", object{"id": "c", "messages": []object{says("m", "waits")}})
	readUntil(t, resp, "so far")
	require.Equal(t, http.StatusConflict, k.request("ann", "POST", "", object{"id": "c", "trigger": "regenerate-message", "messages": []object{says("m", "waits")}}).StatusCode)
	other := k.request("ann", "GET", "/c/stream", nil)
	require.Equal(t, http.StatusOK, k.request("ann", "DELETE", "/c/stream", nil).StatusCode)
	all := chunks(t, other)
	require.Contains(t, all, `{"reason":"aborted","type":"abort"}`)
	require.Contains(t, all[len(all)-2], `"interrupted"`)
	parts := k.messages()[1]["parts"].([]any)
	require.Equal(t, "so far", parts[1].(object)["text"])

	first := k.request("ann", "POST", "", object{"id": "d", "messages": []object{says("m", "waits")}})
	readUntil(t, first, "so far")
	second := k.request("ann", "POST", "", object{"id": "d", "messages": []object{says("n", "waits")}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = k.sv.Close(ctx)
	require.Contains(t, chunks(t, first), done)
	require.NotContains(t, chunks(t, second), done, "the text waits for the next server")
	var waiting []object
	require.NoError(t, json.NewDecoder(k.request("ann", "GET", "/d", nil).Body).Decode(&waiting))
	require.Equal(t, "n", waiting[len(waiting)-1]["id"], "it is shown all the same")
}

// A stop denies the calls that wait, in the stream and after a reload: nothing asks for a
// decision.
func TestStoppedWaiting(t *testing.T) {
	t.Parallel()
	k := newTester(t)
	k.post(object{"id": "c", "messages": []object{says("m", "two")}})
	waiting := k.messages()[1]["parts"].([]any)
	require.Equal(t, "approval-requested", waiting[1].(object)["state"])
	require.Equal(t, http.StatusOK, k.request("ann", "DELETE", "/c/stream", nil).StatusCode)
	all := k.post(object{"id": "c", "messages": []object{says("m", "two")}})
	require.Equal(t, []string{
		`{"toolCallId":"x","type":"tool-output-denied"}`, `{"toolCallId":"y","type":"tool-output-denied"}`, `{"type":"finish-step"}`, `{"reason":"stopped","type":"abort"}`,
	}, all[len(all)-6:len(all)-2])
	for _, p := range k.messages()[1]["parts"].([]any)[1:] {
		require.Equal(t, "output-denied", p.(object)["state"])
	}
}

// A stop after the start of the stream ends the answer. Without a word, the answer is an
// empty message, as in the client.
func TestStoppedMute(t *testing.T) {
	t.Parallel()
	k := newTester(t)
	resp := k.request("ann", "POST", "", object{"id": "c", "messages": []object{says("m", "mute")}})
	start := readUntil(t, resp, `"start"}`)
	require.Equal(t, http.StatusOK, k.request("ann", "DELETE", "/c/stream", nil).StatusCode)
	require.Contains(t, chunks(t, resp), `{"reason":"stopped","type":"abort"}`)
	all := k.messages()
	require.Len(t, all, 2)
	require.Contains(t, start, all[1]["id"])
	require.Empty(t, all[1]["parts"])
	k.post(object{"id": "c", "messages": []object{says("n", "fails")}})
	k.post(object{"id": "c", "messages": []object{says("o", "picture")}})
	require.Equal(t, all, k.messages()[:2])
	require.Len(t, k.messages(), 6)
	k.post(object{"id": "c", "trigger": "regenerate-message", "messages": []object{says("n", "fails")}})
	require.Len(t, k.messages(), 4)
}
