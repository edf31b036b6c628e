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
