package uistream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/uistream"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// object is one of JSON.
type object = map[string]any

// scripted answers by the last text of the user.
func scripted(ctx context.Context, s *session.Session, t *turn.Turn) error {
	h, err := s.History(ctx)
	if err != nil {
		return err
	}
	last := h.Messages[len(h.Messages)-1]
	text := ""
	for _, b := range last.Content {
		if b, ok := b.(transcript.TextBlock); ok {
			text = b.Text
		}
	}
	usage := transcript.Usage{Input: 3, CacheRead: 2, Output: 1}
	answer := func(stop transcript.StopReason, content ...transcript.Block) ([]string, error) {
		return s.Append(ctx, &transcript.Response{Message: transcript.Message{Role: transcript.RoleAssistant, Content: content}, StopReason: stop, Usage: usage})
	}
	call := func(id, input string) transcript.Block {
		return transcript.ToolCallBlock{ID: id, Name: "find", Input: json.RawMessage(input)}
	}
	switch text {
	case "": // the calls are decided
		err := turn.RunTools(ctx, s, 1, func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
			switch c.Call.ID {
			case "fails":
				return transcript.ToolError(c.Call.ID, "no luck"), nil
			case "shows":
				return transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.ToolResultBlock{CallID: "shows", Content: []transcript.Block{
					transcript.TextBlock{Text: "seen"}, transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: "AAAA"}},
				}}}}, nil
			}
			return transcript.ToolResult(c.Call.ID, `{"n":1}`), nil
		})
		if err != nil {
			return err
		}
		_, err = answer(transcript.StopEndTurn, transcript.TextBlock{Text: "found"})
		return err
	case "tools":
		if _, err := answer(transcript.StopToolUse, transcript.ThinkingBlock{Thinking: "hm"}, call("a", `{"q":1}`), call("fails", ""), call("shows", "{}")); err != nil {
			return err
		}
		return scripted(ctx, s, t)
	case "two":
		ids, err := answer(transcript.StopToolUse, call("x", "{}"), call("y", "{}"))
		for _, id := range ids[max(0, len(ids)-2):] {
			err = errors.Join(err, turn.Decide(ctx, s, id, transcript.Hold, "policy", ""))
		}
		return err
	case "picture":
		_, err := answer(transcript.StopMaxTokens, transcript.ImageBlock{Source: transcript.Source{Type: "url", URL: "https://a.example/x.png"}}, transcript.TextBlock{Text: "a "}, transcript.TextBlock{Text: "b"})
		return err
	case "void":
		for _, text := range []string{"wrong", "right"} {
			draft := t.Draft("", "", transcript.Made{})
			if err := errors.Join(draft.Write(ctx, text), draft.Flush(ctx)); err != nil || text == "wrong" {
				continue
			}
			_, err := draft.Finish(ctx, &transcript.Response{Message: transcript.AssistantText(text), StopReason: transcript.StopEndTurn})
			return err
		}
	case "waits":
		draft := t.Draft("", "", transcript.Made{})
		err := errors.Join(draft.Write(ctx, "so far"), draft.Flush(ctx))
		<-ctx.Done()
		return err
	case "mute":
		<-ctx.Done()
	}
	return errors.New("no answer")
}

// A tester is a client of a server.
type tester struct {
	testing.TB
	url   string
	store *session.Store
	sv    *serve.Server
	web   *http.Client // of its own: the end of another test closes idle connections of the default one
}

func newTester(t testing.TB) *tester {
	t.Helper()
	return newTesterOf(t, scripted, memdriver.New(nil), nil)
}

func newTesterOf(t testing.TB, respond serve.Responder, d driver.Driver, opts *session.Options) *tester {
	t.Helper()
	store := session.OpenDriver(d, opts)
	sv, err := serve.New(store, &serve.Options{
		Respond: respond, Surfaces: []serve.Surface{uistream.New("/api/chat", "main")}, Logger: slog.New(slog.DiscardHandler),
		Auth: serve.Keys(map[string]serve.Principal{"ann": {Owner: "ann"}, "bob": {Owner: "bob"}, "root": {Admin: true}, "op": {Admin: true, Owner: "op"}}),
	})
	require.NoError(t, err)
	web := httptest.NewServer(sv)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = sv.Close(ctx)
		web.Close()
		require.NoError(t, store.Close())
	})
	return &tester{t, web.URL, store, sv, web.Client()}
}

func (k *tester) request(key, method, path string, body any) *http.Response {
	k.Helper()
	data, err := json.Marshal(body)
	require.NoError(k, err)
	req, err := http.NewRequestWithContext(k.Context(), method, k.url+"/api/chat"+path, strings.NewReader(string(data)))
	require.NoError(k, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := k.web.Do(req)
	require.NoError(k, err)
	k.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// post returns the chunks that answer a body, without their IDs of entries.
func (k *tester) post(body object) []string {
	k.Helper()
	resp := k.request("ann", "POST", "", body)
	require.Equal(k, http.StatusOK, resp.StatusCode)
	require.Equal(k, "v1", resp.Header.Get("X-Vercel-Ai-Ui-Message-Stream"))
	return chunks(k, resp)
}

func chunks(t testing.TB, resp *http.Response) (all []string) {
	t.Helper()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var chunk object
		if data != "[DONE]" {
			require.NoError(t, json.Unmarshal([]byte(data), &chunk))
			if chunk["type"] == "start" {
				continue
			}
		}
		all = append(all, data)
	}
	return all
}

func readUntil(t testing.TB, resp *http.Response, text string) (all string) {
	t.Helper()
	for b := make([]byte, 1); !strings.Contains(all, text); all += string(b) {
		_, err := resp.Body.Read(b)
		require.NoError(t, err)
	}
	return all
}

func says(id, text string) object {
	return object{"id": id, "role": "user", "parts": []object{{"type": "text", "text": text}}}
}

func (k *tester) messages() (all []object) {
	k.Helper()
	require.NoError(k, json.NewDecoder(k.request("ann", "GET", "/c", nil).Body).Decode(&all))
	return all
}

const done = "[DONE]"

// finish returns the last chunks of a stream with n model calls.
func finish(reason string, n int) []string {
	usage, _ := json.Marshal(map[string]int{"inputTokens": 5 * n, "outputTokens": n, "totalTokens": 6 * n, "cachedInputTokens": 2 * n})
	var ordered struct {
		Input  int `json:"inputTokens"`
		Output int `json:"outputTokens"`
		Total  int `json:"totalTokens"`
		Cached int `json:"cachedInputTokens"`
	}
	_ = json.Unmarshal(usage, &ordered)
	text, _ := json.Marshal(ordered)
	return []string{`{"type":"finish-step"}`, `{"finishReason":"` + reason + `","messageMetadata":{"usage":` + string(text) + `},"type":"finish"}`, done}
}

// Each answer gives the chunks of the protocol, and a repeated post gives the same ones.
func TestChunks(t *testing.T) {
	t.Parallel()
	found := []string{`{"type":"start-step"}`, `{"id":"text-1","type":"text-start"}`, `{"delta":"found","id":"text-1","type":"text-delta"}`, `{"id":"text-1","type":"text-end"}`}
	for _, tt := range []struct {
		text string
		want []string
		end  []string
	}{
		{"tools", append([]string{
			`{"type":"start-step"}`,
			`{"id":"reasoning-1","type":"reasoning-start"}`, `{"delta":"hm","id":"reasoning-1","type":"reasoning-delta"}`, `{"id":"reasoning-1","type":"reasoning-end"}`,
			`{"input":{"q":1},"toolCallId":"a","toolName":"find","type":"tool-input-available"}`,
			`{"input":{},"toolCallId":"fails","toolName":"find","type":"tool-input-available"}`,
			`{"input":{},"toolCallId":"shows","toolName":"find","type":"tool-input-available"}`,
			`{"output":{"n":1},"toolCallId":"a","type":"tool-output-available"}`,
			`{"errorText":"no luck","toolCallId":"fails","type":"tool-output-error"}`,
			`{"output":[{"type":"text","text":"seen"},{"type":"file","url":"data:image/png;base64,AAAA","mediaType":"image/png"}],"toolCallId":"shows","type":"tool-output-available"}`,
			`{"type":"finish-step"}`,
		}, strings.Split(strings.ReplaceAll(strings.Join(found, "\n"), "text-1", "text-2"), "\n")...), finish("stop", 2)},
		{"picture", []string{
			`{"type":"start-step"}`, `{"mediaType":"image/*","type":"file","url":"https://a.example/x.png"}`,
			`{"id":"text-1","type":"text-start"}`, `{"delta":"a ","id":"text-1","type":"text-delta"}`, `{"delta":"b","id":"text-1","type":"text-delta"}`, `{"id":"text-1","type":"text-end"}`,
		}, finish("length", 1)},
		{"void", []string{
			`{"type":"start-step"}`, `{"id":"text-1","type":"text-start"}`, `{"delta":"wrong","id":"text-1","type":"text-delta"}`, `{"type":"reset-step"}`,
			`{"id":"text-2","type":"text-start"}`, `{"delta":"right","id":"text-2","type":"text-delta"}`, `{"id":"text-2","type":"text-end"}`,
		}, finish("stop", 0)},
		{"fails", []string{`{"errorText":"no complete answer: failed","type":"error"}`}, finish("error", 0)[1:]},
	} {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			k := newTester(t)
			body := object{"id": "c", "trigger": "submit-message", "messages": []object{says("m", tt.text)}}
			want := append(tt.want, tt.end...)
			require.Equal(t, want, k.post(body))
			require.Equal(t, want, k.post(body), "the same post")
			require.Equal(t, "m", k.messages()[0]["id"])
			require.Equal(t, http.StatusNoContent, k.request("ann", "GET", "/c/stream", nil).StatusCode)
			require.Equal(t, http.StatusNoContent, k.request("bob", "GET", "/c/stream", nil).StatusCode)
			require.Equal(t, http.StatusNotFound, k.request("bob", "GET", "/c", nil).StatusCode)
			require.Equal(t, http.StatusNotFound, k.request("bob", "POST", "", body).StatusCode)
		})
	}
}

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

// The files of a user are stored and returned.
func TestFiles(t *testing.T) {
	t.Parallel()
	k := newTester(t)
	parts := []object{
		{"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"},
		{"type": "file", "mediaType": "application/pdf", "url": "https://a.example/x.pdf", "filename": "x.pdf"},
		{"type": "text", "text": "picture"},
	}
	k.post(object{"id": "c", "messages": []object{{"id": "m", "role": "user", "parts": parts}}})
	got := k.messages()[0]["parts"].([]any)
	require.Equal(t, "data:image/png;base64,AAAA", got[0].(object)["url"])
	require.Equal(t, "image/png", got[0].(object)["mediaType"])
	require.Equal(t, object{"type": "file", "mediaType": "application/octet-stream", "url": "https://a.example/x.pdf", "filename": "x.pdf"}, got[1])
}

// Bodies that are not of the protocol are refused, and append nothing.
func TestRefuses(t *testing.T) {
	t.Parallel()
	k := newTester(t)
	file := func(url string) object {
		return object{"id": "m", "role": "user", "parts": []object{{"type": "file", "mediaType": "image/png", "url": url}}}
	}
	for _, body := range []object{
		{},
		{"id": "c"},
		{"messages": []object{says("m", "x")}},
		{"id": "../c", "messages": []object{says("m", "x")}},
		{"id": "c", "messages": []object{says("m", "")}},
		{"id": "c", "messages": "x"},
		{"id": "c", "messages": []object{says("a\nb", "x")}},
		{"id": "c", "messages": []object{says(strings.Repeat("x", 200), "x")}},
		{"id": "c", "messages": []object{file("data:image/png,AAAA")}},
		{"id": "c", "messages": []object{file("data:image/png;base64,?")}},
		{"id": "c", "messages": []object{file("data:;base64,")}},
		{"id": "c", "messages": []object{file("")}},
		{"id": "c", "messages": []object{file("javascript:alert(1)")}},
		{"id": "c", "messages": []object{file("https:")}},
		{"id": "c", "messages": []object{says("m", " \n\t")}},
	} {
		require.Equal(t, http.StatusBadRequest, k.request("ann", "POST", "", body).StatusCode, body)
	}
	require.Equal(t, http.StatusNotFound, k.request("ann", "GET", "/c", nil).StatusCode, "no chat was made")
}

// An edited message and an answer that is asked for anew take the place of the old ones.
func TestAgain(t *testing.T) {
	t.Parallel()
	k := newTester(t)
	edit := object{"id": "c", "messageId": "m1", "messages": []object{says("m1", "picture")}}
	k.post(edit) // the message never arrived
	k.post(object{"id": "c", "messages": []object{says("m2", "tools")}})
	all := k.messages()
	require.Len(t, all, 4)
	k.post(object{"id": "c", "trigger": "regenerate-message", "messageId": all[3]["id"], "messages": []object{says("m2", "ignored")}})
	again := k.messages()
	require.Equal(t, all[:3], again[:3])
	require.NotEqual(t, all[3]["id"], again[3]["id"])
	require.Equal(t, all[3]["parts"], again[3]["parts"])

	// A kill between the rewind and the message leaves the message out. The client asks anew.
	s, err := k.store.Get(t.Context(), session.Ref{Agent: "main", ID: "c"})
	require.NoError(t, err)
	require.NoError(t, s.Rewind(t.Context(), "c"))
	require.Empty(t, k.messages())
	k.post(object{"id": "c", "trigger": "regenerate-message", "messages": []object{says("m1", "picture")}})
	require.Equal(t, all[1]["parts"], k.messages()[1]["parts"])
	edit["messages"] = []object{says("m1", "void")}
	first := k.post(edit)
	all = k.messages()
	require.Equal(t, first, k.post(edit), "the same edit")
	require.Equal(t, all, k.messages())
	require.Len(t, all, 2)
	require.Equal(t, "m1", all[0]["id"])
	require.Equal(t, "right", all[1]["parts"].([]any)[1].(object)["text"])

	// An edit that changes no word takes back later messages all the same.
	k.post(object{"id": "c", "messages": []object{says("m3", "picture")}})
	k.post(edit)
	require.Len(t, k.messages(), 2)
	require.NotEqual(t, all[1]["id"], k.messages()[1]["id"])
}

// An answer that is asked for anew takes back its turn alone: a prompt and a stop before
// the message stay.
func TestAgainBetween(t *testing.T) {
	t.Parallel()
	k := newTester(t)
	k.post(object{"id": "c", "messages": []object{says("m1", "two")}})
	require.Equal(t, http.StatusOK, k.request("ann", "DELETE", "/c/stream", nil).StatusCode)
	k.post(object{"id": "c", "messageId": "m1", "messages": []object{says("m1", "two")}}) // until the end of the turn
	s, err := k.store.Get(t.Context(), session.Ref{Agent: "main", ID: "c"})
	require.NoError(t, err)
	_, err = s.Append(t.Context(), transcript.System{Text: "be brief"})
	require.NoError(t, err)
	k.post(object{"id": "c", "messages": []object{says("m2", "picture")}})
	before := k.messages()
	k.post(object{"id": "c", "trigger": "regenerate-message", "messages": []object{says("m2", "picture")}})
	require.Equal(t, before[:3], k.messages()[:3])
	h, err := s.History(t.Context())
	require.NoError(t, err)
	text, err := json.Marshal(h)
	require.NoError(t, err)
	require.Contains(t, string(text), "be brief")
}

// A user who takes an ID first reads no message of an administrator.
func TestAdministrators(t *testing.T) {
	t.Parallel()
	for key, ops := range map[string]int{"root": http.StatusNotFound, "op": http.StatusOK} {
		k := newTester(t)
		send := func(key, id string) int {
			resp := k.request(key, "POST", "", object{"id": id, "messages": []object{says("m-"+key, "picture")}})
			chunks(t, resp)
			return resp.StatusCode
		}
		require.Equal(t, http.StatusOK, send("ann", "c"))
		before := k.messages()
		require.Equal(t, http.StatusNotFound, send(key, "c"), key)
		require.Equal(t, before, k.messages())
		require.Equal(t, http.StatusOK, k.request(key, "GET", "/c", nil).StatusCode, "an administrator reads all chats")
		require.Equal(t, http.StatusOK, send(key, "own"))
		require.Equal(t, http.StatusOK, send(key, "own"))
		require.Equal(t, http.StatusNotFound, send("ann", "own"))
		require.Equal(t, http.StatusOK, send("root", "free"))
		require.Equal(t, http.StatusOK, send(key, "free"), "it has no owner")
		require.Equal(t, http.StatusOK, send("op", "ops"))
		require.Equal(t, ops, send(key, "ops"))
	}
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

// Metadata, parts of the application and earlier messages have any form.
func TestForeign(t *testing.T) {
	t.Parallel()
	k := newTester(t)
	earlier := object{"id": "a", "role": "assistant", "metadata": "x", "parts": []object{{"type": "text", "text": 1}}}
	for _, metadata := range []any{"x", object{"usage": "none"}, object{"usage": object{"inputTokens": 1.5}}} {
		last := object{"id": "m", "role": "user", "metadata": metadata, "parts": []object{{"type": "data-x", "text": 1}, {"type": "text", "text": "picture"}}}
		k.post(object{"id": "c", "messages": []object{earlier, last}})
	}
	require.Len(t, k.messages(), 2)
	wrong := object{"id": "n", "role": "user", "parts": []object{{"type": "text", "text": 1}}}
	require.Equal(t, http.StatusBadRequest, k.request("ann", "POST", "", object{"id": "c", "messages": []object{wrong}}).StatusCode)
}
