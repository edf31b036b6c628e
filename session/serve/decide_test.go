package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// careful is echo with a tool that a person has to allow, if the text begins with
// "danger". It returns while the call is held.
func careful(ctx context.Context, s *session.Session, tn *turn.Turn) error {
	h, err := s.History(ctx)
	if err != nil {
		return err
	}
	last := h.Messages[len(h.Messages)-1]
	said := lastSaid(last)
	if strings.HasPrefix(said, "danger") {
		content := []transcript.Block{transcript.ThinkingBlock{Thinking: "is it wise?"}, transcript.TextBlock{Text: "I ask."}}
		for _, id := range strings.Fields(said)[1:] {
			content = append(content, transcript.ToolCallBlock{ID: id, Name: "drop", Input: json.RawMessage(`{"table":"t"}`)})
		}
		ids, err := s.Append(ctx, &transcript.Response{Message: transcript.Message{Role: transcript.RoleAssistant, Content: content}, StopReason: transcript.StopToolUse})
		if err != nil {
			return err
		}
		calls := len(strings.Fields(said)) - 1
		for _, id := range ids[len(ids)-calls:] {
			if err := turn.Decide(ctx, s, id, transcript.Hold, "policy", ""); err != nil {
				return err
			}
		}
		return nil
	}
	pending, err := s.Pending(ctx)
	if err != nil {
		return err
	}
	if len(pending.Calls) > 0 || slices.ContainsFunc(last.Content, func(b transcript.Block) bool { return transcript.BlockType(b) == "tool_result" }) {
		if err := turn.RunTools(ctx, s, 1, func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
			return transcript.ToolResult(c.Call.ID, "dropped"), nil
		}); err != nil {
			return err
		}
		_, err = s.Append(ctx, &transcript.Response{Message: transcript.AssistantText("done"), StopReason: transcript.StopEndTurn})
		return err
	}
	return echo(ctx, s, tn)
}

// lastSaid is the last text of a message: the note of a stopped turn may be before it.
func lastSaid(m transcript.Message) (text string) {
	for _, b := range m.Content {
		if t, ok := b.(transcript.TextBlock); ok {
			text = t.Text
		}
	}
	return text
}

// holdCall appends an answer with a call that a person has to allow.
func holdCall(t testing.TB, s *session.Session, id string) (entry string) {
	t.Helper()
	ids, err := s.Append(t.Context(), &transcript.Response{StopReason: transcript.StopToolUse, Message: transcript.Message{
		Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: id, Name: "drop", Input: []byte("{}")}},
	}})
	require.NoError(t, err)
	entry = ids[len(ids)-1]
	require.NoError(t, turn.Decide(t.Context(), s, entry, transcript.Hold, "policy", ""))
	return entry
}

// A talker is a client of the session one, and reads its transcript.
type talker struct {
	testing.TB
	url   string
	s     *session.Session
	after string // the entry that it has read last
}

// newTalker makes the session one.
func newTalker(t testing.TB, url string, store *session.Store) *talker {
	t.Helper()
	s, err := store.Create(t.Context(), session.Key{Agent: "main", Channel: "test", Peer: "one"}, &session.CreateOptions{ID: "one"})
	require.NoError(t, err)
	return &talker{TB: t, url: url, s: s, after: "one"}
}

// say says a text. The client does not wait for the answer.
func (k *talker) say(text string) {
	k.Helper()
	var queued struct{ Entry string }
	require.NoError(k, json.NewDecoder(k.own(http.StatusOK, "POST", "/queue", map[string]any{"content": text}).Body).Decode(&queued))
	require.NotEmpty(k, queued.Entry)
}

// own calls one of the store's own routes about the session.
func (k *talker) own(status int, method, path string, body any) *http.Response {
	k.Helper()
	resp := call(k, method, k.url+"/v1/store/sessions/main/one"+path, body)
	require.Equal(k, status, resp.StatusCode, path)
	return resp
}

func (k *talker) decide(status int, entry, verdict, reason string) {
	k.Helper()
	k.own(status, "POST", "/calls/"+entry+"/decision", map[string]string{"verdict": verdict, "reason": reason})
}

func (k *talker) interrupt() {
	k.Helper()
	k.own(http.StatusNoContent, "POST", "/interrupt", nil)
}

// calls returns the entries of the calls that are pending, and their states.
func (k *talker) calls() (entries []string, states []string) {
	k.Helper()
	var p rebuild.Pending
	require.NoError(k, json.NewDecoder(k.own(http.StatusOK, "GET", "/pending", nil).Body).Decode(&p))
	for _, c := range p.Calls {
		entries, states = append(entries, c.Entry), append(states, string(c.State))
	}
	return entries, states
}

// until returns the next entries in words, up to the n-th of one word.
func (k *talker) until(word string, n int) (all []string) {
	k.Helper()
	for e, err := range k.s.Follow(k.Context(), k.after) {
		require.NoError(k, err)
		k.after = e.ID
		if w := wordOf(e); w != "" {
			all = append(all, w)
		}
		if wordOf(e) != word {
			continue
		}
		if n--; n == 0 {
			break
		}
	}
	return all
}

// wordOf describes an entry in a word.
func wordOf(e transcript.Entry) string {
	switch b := e.Body.(type) {
	case transcript.Queued:
		return "queued"
	case transcript.Decision:
		return string(b.Verdict)
	case transcript.Dispatch:
		return "dispatch"
	case transcript.Draft:
		return "draft"
	case transcript.Interrupt:
		if b.Ended == "" {
			return "interrupt"
		}
		return b.Ended
	case transcript.MessageLine:
		switch {
		case b.Kind == transcript.TypeUser:
			return "said"
		case b.Kind == transcript.TypeToolResult:
			return "result"
		case b.Kind == transcript.TypeToolUse:
			return "call"
		case b.StopReason == transcript.StopEndTurn || b.StopReason == transcript.StopAborted:
			return string(b.StopReason)
		}
	}
	return ""
}

// last returns the text of the last message of the history.
func (k *talker) last() string {
	k.Helper()
	h, err := k.s.History(k.Context())
	require.NoError(k, err)
	return h.Messages[len(h.Messages)-1].Text()
}

// carefulServer is a server whose responder is careful.
func carefulServer(t *testing.T) *talker {
	t.Helper()
	ts, store, _ := served(t, &serve.Options{Auth: anyone, Respond: careful})
	return newTalker(t, ts.URL, store)
}

// Calls wait in the JSON form of rebuild.Pending; one is allowed, the other is not, and
// the answer continues after the last decision.
func TestDecide(t *testing.T) {
	t.Parallel()
	k := carefulServer(t)
	k.say("danger c1 c2")
	require.Equal(t, []string{"queued", "said", "call", "call", "hold", "hold"}, k.until("hold", 2))
	open := decode(t, k.own(200, "GET", "/pending", nil))
	held := open["calls"].([]any)[0].(map[string]any)
	require.Equal(t, map[string]any{
		"entry": held["entry"], "state": "held", "by": "policy",
		"call": map[string]any{"type": "tool_use", "id": "c1", "name": "drop", "input": map[string]any{"table": "t"}},
	}, held)
	calls, states := k.calls()
	require.Equal(t, []string{"held", "held"}, states)
	k.decide(204, calls[0], "hold", "") // again
	k.decide(204, calls[0], "approve", "")
	k.decide(204, calls[0], "approve", "") // again
	k.decide(409, calls[0], "reject", "")
	_, states = k.calls()
	require.Equal(t, []string{"approved", "held"}, states)
	k.say("meanwhile") // it waits for the end of the turn
	k.decide(204, calls[1], "reject", "not that one")
	require.Equal(t, []string{"approve", "queued", "reject", "dispatch", "result", "end_turn"}, k.until("end_turn", 1))
	require.Equal(t, []string{"said", "end_turn"}, k.until("end_turn", 1))
	h, err := k.s.History(t.Context())
	require.NoError(t, err)
	text, err := json.Marshal(h.Messages)
	require.NoError(t, err)
	require.Contains(t, string(text), "denied, not run: not that one")
	require.Contains(t, string(text), "dropped")
	_, states = k.calls()
	require.Equal(t, []string{"rejected"}, states)
}

// A person decides after the server was stopped, and a turn that waits can be stopped.
func TestDecideLater(t *testing.T) {
	t.Parallel()
	store, err := session.Open(t.TempDir(), &session.Options{Sync: session.SyncNever})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	var server atomic.Pointer[serve.Server]
	start := func() *serve.Server {
		sv, err := serve.New(store, &serve.Options{Surfaces: everything(), Auth: anyone, Respond: careful, Logger: quiet})
		require.NoError(t, err)
		require.NoError(t, sv.Resume(t.Context(), nil))
		server.Store(sv)
		return sv
	}
	sv := start()
	k := newTalker(t, newServer(t, &server), store)
	k.say("danger c1")
	k.until("hold", 1)
	require.NoError(t, sv.Close(t.Context()))

	sv = start()
	calls, states := k.calls()
	require.Equal(t, []string{"held"}, states)
	k.decide(204, calls[0], "approve", "")
	require.Equal(t, []string{"approve", "dispatch", "result", "end_turn"}, k.until("end_turn", 1))
	k.decide(204, calls[0], "approve", "") // repeating succeeds
	k.decide(409, calls[0], "reject", "")
	k.decide(409, calls[0], "hold", "")

	k.say("danger c2")
	k.until("hold", 1)
	k.interrupt()
	require.Equal(t, []string{"interrupt", "stopped"}, k.until("stopped", 1))
	k.say("danger c3")
	k.until("hold", 1)
	resp := call(t, "DELETE", k.url+"/api/agents/main/chat?sessionId=one", nil)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, []string{"interrupt", "stopped"}, k.until("stopped", 1))
	k.own(400, "POST", "/queue", map[string]any{"content": ""})
	k.own(400, "POST", "/queue", map[string]any{"parts": []any{map[string]any{"type": "picture"}}})
	k.say("and now")
	require.Equal(t, []string{"queued", "said", "end_turn"}, k.until("end_turn", 1))
	require.NoError(t, sv.Close(t.Context()))
}

// newServer serves the handler that is there when a request comes.
func newServer(t *testing.T, server *atomic.Pointer[serve.Server]) (url string) {
	t.Helper()
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { server.Load().ServeHTTP(w, r) }))
	t.Cleanup(ts.Close)
	return ts.URL
}

// A decision belongs to its turn: when that was stopped, the next one may fail, and
// reports it.
func TestDecidedAndStopped(t *testing.T) {
	t.Parallel()
	var failures atomic.Int32
	ts, store, _ := served(t, &serve.Options{Auth: anyone, Respond: serve.Responder(func(ctx context.Context, s *session.Session, tn *turn.Turn) error {
		h, err := s.History(ctx)
		if err != nil || lastSaid(h.Messages[len(h.Messages)-1]) == "fail" {
			failures.Add(1)
			return errors.Join(err, errors.New("it fails"))
		}
		return careful(ctx, s, tn)
	})})
	k := newTalker(t, ts.URL, store)
	k.say("danger c1 c2")
	k.until("hold", 2)
	calls, _ := k.calls()
	k.decide(204, calls[0], "approve", "")
	k.interrupt()
	require.Equal(t, []string{"approve", "interrupt", "stopped"}, k.until("stopped", 1))
	k.say("fail")
	require.Equal(t, []string{"queued", "said", "failed"}, k.until("failed", 1))
	require.EqualValues(t, 1, failures.Load())
}

// A server killed after the answer that followed a decision leaves nothing to continue:
// the decision was for the calls before it.
func TestDecidedAndKilled(t *testing.T) {
	t.Parallel()
	asked := false
	ts, store, sv := served(t, &serve.Options{Auth: anyone, Respond: serve.Responder(func(context.Context, *session.Session, *turn.Turn) error {
		asked = true
		return nil
	})})
	k := newTalker(t, ts.URL, store)
	_, err := turn.Queue(t.Context(), k.s, transcript.UserText("danger"))
	require.NoError(t, err)
	tn, err := turn.Begin(t.Context(), k.s)
	require.NoError(t, err)
	_, err = turn.Drain(t.Context(), k.s, 0)
	require.NoError(t, err)
	first := holdCall(t, k.s, "c1")
	require.NoError(t, turn.Decide(t.Context(), k.s, first, transcript.Approve, "anna", ""))
	_, err = k.s.Append(t.Context(), transcript.ToolResult("c1", "dropped"), &transcript.Response{
		StopReason: transcript.StopToolUse, Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.ToolCallBlock{ID: "c2", Name: "drop", Input: []byte("{}")},
		}},
	})
	require.NoError(t, err)
	require.NoError(t, tn.End())
	require.NoError(t, sv.Resume(t.Context(), nil))
	require.Equal(t, []string{"queued", "said", "call", "hold", "approve", "result", "call", "lost"}, k.until("lost", 1))
	require.NoError(t, sv.Close(t.Context()))
	require.False(t, asked)
}

// A request to stop that came when nothing ran is not for the next turn.
func TestStoppedWhenIdle(t *testing.T) {
	t.Parallel()
	k := carefulServer(t)
	k.say("hello")
	k.until("end_turn", 1)
	k.interrupt()
	_, err := k.s.Append(t.Context(), transcript.Interrupt{By: "another program"})
	require.NoError(t, err)
	k.say("danger c1")
	k.until("hold", 1)
	calls, _ := k.calls()
	k.decide(204, calls[0], "approve", "")
	require.Equal(t, []string{"approve", "dispatch", "result", "end_turn"}, k.until("end_turn", 1))

	k.say("danger c1")
	k.until("hold", 1)
	k.say("and this") // while it waits
	k.interrupt()
	require.Equal(t, []string{"queued", "interrupt", "stopped"}, k.until("stopped", 1))
	require.Equal(t, []string{"said", "end_turn"}, k.until("end_turn", 1))
}

// An answer that is cut short, by a person or by the end of its server, stays with the
// text that came, and the turn ends.
func TestCutShort(t *testing.T) {
	t.Parallel()
	store, err := session.Open(t.TempDir(), &session.Options{Sync: session.SyncNever})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	var server atomic.Pointer[serve.Server]
	start := func() *serve.Server {
		sv, err := serve.New(store, &serve.Options{Surfaces: everything(), Auth: anyone, Respond: careful, Logger: quiet})
		require.NoError(t, err)
		server.Store(sv)
		return sv
	}
	sv := start()
	k := newTalker(t, newServer(t, &server), store)
	k.say("so far wait")
	k.until("draft", 2)
	k.own(409, "POST", "/archive", nil)
	k.interrupt()
	require.Equal(t, []string{"interrupt", "aborted"}, k.until("aborted", 1))
	require.Equal(t, "so far", k.last())

	k.say("up to here wait")
	k.until("draft", 3)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, sv.Close(over), context.Canceled)
	sv = start()
	require.NoError(t, sv.Resume(t.Context(), nil))
	require.Equal(t, []string{"aborted"}, k.until("aborted", 1))
	require.Equal(t, "up to here", k.last())
	require.NoError(t, sv.Close(t.Context()))
}

// A problem says whether to wait for a turn or to read the session again.
func TestBusy(t *testing.T) {
	t.Parallel()
	ts, store, _ := withKeys(t)
	s := talk(t, store, "one")
	alice, at := newAsker(t, ts, "alice-key"), "/v1/store/sessions/main/"
	unlock, err := s.LockTurn(t.Context(), true)
	require.NoError(t, err)
	var busy, changed serve.Problem
	alice.ask(409, "POST", at+"one/archive", nil, &busy)
	require.Contains(t, busy.Title, "a running turn")
	require.NoError(t, unlock())
	alice.ask(200, "POST", at+"one/archive", nil, nil)

	held := holdCall(t, talk(t, store, "two"), "c1") // the server may answer once that is decided
	alice.ask(204, "POST", at+"two/calls/"+held+"/decision", map[string]string{"verdict": "reject"}, nil)
	alice.ask(409, "POST", at+"two/calls/"+held+"/decision", map[string]string{"verdict": "approve"}, &changed)
	require.Contains(t, changed.Title, "has changed")
}

// A bad decision changes nothing.
func TestBadDecisions(t *testing.T) {
	t.Parallel()
	ts, store, _ := withKeys(t)
	s := talk(t, store, "one")
	held := holdCall(t, s, "c1")
	before := state(t, s)
	alice, admin := newAsker(t, ts, "alice-key"), newAsker(t, ts, "admin-key")
	at := "/v1/store/sessions/main/one"
	yes := map[string]string{"verdict": "approve"}
	for _, body := range []any{nil, map[string]string{"verdict": "maybe"}, map[string]string{"verdict": "approve", "by": "bob"}} {
		alice.ask(400, "POST", at+"/calls/"+held+"/decision", body, nil)
	}
	var said page
	alice.ask(200, "GET", at+"/entries", nil, &said)
	for _, entry := range []string{"none", "one", said.Entries[0].ID, said.Entries[1].ID} {
		alice.ask(404, "POST", at+"/calls/"+entry+"/decision", yes, nil)
	}
	newAsker(t, ts, "bob-key").ask(404, "POST", at+"/calls/"+held+"/decision", yes, nil)
	newAsker(t, ts, "bob-key").ask(404, "GET", at+"/pending", nil, nil)
	newAsker(t, ts, "bob-key").ask(404, "POST", at+"/interrupt", nil, nil)
	require.Equal(t, before, state(t, s))

	// The owner has decided, and an answer exists, so the call is settled.
	alice.ask(204, "POST", at+"/calls/"+held+"/decision", map[string]string{"verdict": "reject", "reason": "too dear"}, nil)
	var p rebuild.Pending
	alice.ask(200, "GET", at+"/pending", nil, &p)
	require.Equal(t, []any{rebuild.Rejected, "alice", "too dear"}, []any{p.Calls[0].State, p.Calls[0].By, p.Calls[0].Reason})
	_, err := s.Append(t.Context(), transcript.ToolResult("c1", "no"))
	require.NoError(t, err)
	admin.ask(204, "POST", at+"/calls/"+held+"/decision", map[string]string{"verdict": "reject"}, nil)
	admin.ask(409, "POST", at+"/calls/"+held+"/decision", yes, nil)

	// A call that was not held and has a result is not open for a decision.
	ids, err := s.Append(t.Context(), &transcript.Response{StopReason: transcript.StopToolUse, Message: transcript.Message{
		Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: "c3", Name: "look", Input: []byte("{}")}},
	}})
	require.NoError(t, err)
	unheld := ids[len(ids)-1]
	_, err = s.Append(t.Context(), transcript.ToolResult("c3", "seen"))
	require.NoError(t, err)
	admin.ask(409, "POST", at+"/calls/"+unheld+"/decision", yes, nil)
	open := holdCall(t, s, "c4")
	require.Eventually(t, func() bool { // what a decision has started may hold the turn
		return store.SetState(t.Context(), s.Ref(), session.Archived, -1) == nil
	}, time.Minute, time.Millisecond)
	alice.ask(412, "POST", at+"/calls/"+open+"/decision", yes, nil)
}
