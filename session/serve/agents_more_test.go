package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// An answer that is cut short, by a person or by the end of its server, ends its
// preview with what there was, and a client that resumes sees the end.
func TestAgentsCutShort(t *testing.T) {
	t.Parallel()
	store, err := session.Open(t.TempDir(), &session.Options{Sync: session.SyncNever})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	var server atomic.Pointer[serve.Server]
	start := func() *serve.Server {
		sv, err := serve.New(store, &serve.Options{Open: true, Respond: careful, Logger: quiet})
		require.NoError(t, err)
		server.Store(sv)
		return sv
	}
	sv := start()
	base := newServer(t, func(w http.ResponseWriter, r *http.Request) { server.Load().ServeHTTP(w, r) }) + "/v1/sessions"
	url := base + "/" + ask(t, 200, "POST", base, obj{"agent": "main"})["id"].(string)

	resp := call(t, "GET", url+"/events/stream?event_deltas[]=agent.message", nil)
	sent := ask(t, 200, "POST", url+"/events", says("so far wait"))
	var all []frame
	require.NoError(t, frames(resp.Body, func(f frame) bool {
		if all = append(all, f); f.name == "event_delta" && len(all) == 5 {
			require.Equal(t, "running", ask(t, 200, "GET", url, nil)["status"])
			ask(t, 409, "POST", url+"/archive", nil)
			ask(t, 200, "POST", url+"/events", obj{"events": []obj{{"type": "user.interrupt"}}})
		}
		return untilIdle(f)
	}))
	require.Equal(t, []string{
		"user.message", "session.status_running", "event_start", "event_delta", "event_delta", "user.interrupt", "agent.message", "session.status_idle",
	}, names(all))
	require.Equal(t, sent["data"].([]any)[0].(obj)["id"], all[0].id)
	require.Equal(t, all[2].data["event"].(obj)["id"], all[6].id)
	require.Equal(t, "so far", all[6].data["content"].([]any)[0].(obj)["text"])
	require.Equal(t, obj{"type": "end_turn"}, all[7].data["stop_reason"])

	resp = call(t, "GET", url+"/events/stream?event_deltas[]=agent.message", nil)
	ask(t, 200, "POST", url+"/events", says("up to here wait"))
	all = nil
	require.NoError(t, frames(resp.Body, func(f frame) bool {
		if all = append(all, f); len(all) == 6 {
			over, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, sv.Close(over), context.Canceled)
		}
		return true
	}))
	seen := all[3]
	require.Equal(t, "event_delta", seen.name)
	sv = start()
	rest := follow(t, url+"/events/stream?event_deltas[]=agent.message", untilIdle, "Last-Event-ID", seen.id)
	require.Equal(t, []string{"event_delta", "event_delta", "agent.message", "session.error", "session.status_idle"}, names(rest))
	require.Equal(t, "up to here", rest[2].data["content"].([]any)[0].(obj)["text"])
	require.Equal(t, obj{"type": "retries_exhausted"}, rest[4].data["stop_reason"])
	require.NoError(t, sv.Close(t.Context()))
}

func names(all []frame) (names []string) {
	for _, f := range all {
		names = append(names, f.name)
	}
	return names
}

// Compactions, rewinds and erased texts leave every event where it was.
func TestAgentsRewritten(t *testing.T) {
	t.Parallel()
	base, store := agentsServer(t)
	id := ask(t, 200, "POST", base, obj{"agent": "main"})["id"].(string)
	url := base + "/" + id
	for _, text := range []string{"one", "secret two", "three"} {
		sendAndFollow(t, url, says(text))
	}
	before := listed(t, url, "")
	s, err := store.Get(t.Context(), session.Ref{Agent: "main", ID: id})
	require.NoError(t, err)
	require.NoError(t, turn.Undo(t.Context(), s, 1))
	second := slices.IndexFunc(before, func(e obj) bool { return strings.Contains(fmt.Sprint(e["content"]), "secret") }) + 1
	kept, _, _ := strings.Cut(before[second]["id"].(string), "/") // the message of the second turn
	_, err = s.Append(t.Context(), transcript.Compaction{Summary: "so far", FirstKept: kept})
	require.NoError(t, err)
	sendAndFollow(t, url, says("four"))
	all := listed(t, url, "limit=2")
	require.Equal(t, before, all[:len(before)])
	require.Equal(t, "agent.thread_context_compacted", all[len(before)]["type"])
	down := listed(t, url, "limit=2&order=desc")
	slices.Reverse(down)
	require.Equal(t, all, down)

	plan, err := erase.Preview(t.Context(), store, erase.Erasure{Match: func(e transcript.Entry) bool {
		return bytes.Contains(e.Line(), []byte("secret"))
	}})
	require.NoError(t, err)
	_, err = erase.Run(t.Context(), store, plan)
	require.NoError(t, err)
	last := all[len(all)-1]["id"]
	for _, e := range all[:len(all)-1] {
		rest := follow(t, url+"/events/stream?after="+e["id"].(string), func(f frame) bool { return f.id != last })
		require.NotEqual(t, e["id"], rest[0].id)
	}
	text, err := json.Marshal(listed(t, url, "limit=3"))
	require.NoError(t, err)
	require.NotContains(t, string(text), "secret")
}

// Whatever is appended, lists in both directions and streams from anywhere have the
// same events.
func TestAgentsAnything(t *testing.T) {
	t.Parallel()
	seeds := uint64(2)
	if *faults != "short" {
		seeds = 150
	}
	ts, store, _ := served(t, &serve.Options{Open: true})
	for seed := range seeds {
		s, err := store.Create(t.Context(), session.Key{Agent: "main", Channel: "test", Peer: fmt.Sprint(seed)}, nil)
		require.NoError(t, err)
		appendAnything(t, s, rand.New(rand.NewPCG(seed, 16)))
		url := ts.URL + "/v1/sessions/" + s.Ref().ID
		want := listed(t, url, "limit=1000")
		require.NotEmpty(t, want)
		ids := map[any]bool{}
		for _, e := range want {
			require.False(t, ids[e["id"]], "seed %d: %v", seed, e)
			ids[e["id"]] = true
		}
		for _, limit := range []int{3, 40} {
			require.Equal(t, want, listed(t, url, fmt.Sprint("limit=", limit)), "seed %d", seed)
			down := listed(t, url, fmt.Sprint("order=desc&limit=", limit))
			slices.Reverse(down)
			require.Equal(t, want, down, "seed %d", seed)
		}
		for n := range uint64(3) {
			i := rand.New(rand.NewPCG(seed, n)).IntN(len(want))
			rest := []obj{}
			for i+len(rest)+1 < len(want) {
				follow(t, url+"/events/stream?after="+want[i]["id"].(string), func(f frame) bool {
					rest = append(rest, f.data)
					return i+len(rest)+1 < len(want)
				})
			}
			require.Equal(t, want[i+1:], rest, "seed %d", seed)
		}
	}
}

// appendAnything appends what clients, agents and people might.
func appendAnything(t *testing.T, s *session.Session, rng *rand.Rand) {
	t.Helper()
	text := func() transcript.Block { return transcript.TextBlock{Text: fmt.Sprint("text ", rng.IntN(100))} }
	answer := func(calls int) *transcript.Response {
		m := transcript.Message{Role: transcript.RoleAssistant}
		for range rng.IntN(3) {
			m.Content = append(m.Content, text())
			if rng.IntN(3) == 0 {
				m.Content = append(m.Content, transcript.ThinkingBlock{Thinking: "hm"})
			}
		}
		for i := range calls {
			m.Content = append(m.Content, transcript.ToolCallBlock{ID: fmt.Sprint("c", i), Name: "look", Input: json.RawMessage(`{}`)})
		}
		stop := []transcript.StopReason{transcript.StopEndTurn, transcript.StopAborted, transcript.StopError, transcript.StopRefusal}[rng.IntN(4)]
		if calls > 0 && rng.IntN(4) > 0 {
			stop = transcript.StopToolUse
		}
		return &transcript.Response{Message: m, StopReason: stop}
	}
	for range 60 {
		tn, err := turn.Begin(t.Context(), s)
		require.NoError(t, err)
		switch rng.IntN(10) {
		case 0:
			_, err = turn.Queue(t.Context(), s, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{text()}})
		case 1:
			_, err = turn.Drain(t.Context(), s, 0)
		case 2:
			_, err = s.Append(t.Context(), transcript.UserText("said"), answer(0), transcript.UserText("more"), answer(rng.IntN(2)))
		case 3, 4:
			_, err = s.Append(t.Context(), answer(rng.IntN(3)))
		case 5:
			d := tn.Draft("", "", transcript.Made{})
			require.NoError(t, d.Write(t.Context(), "text 1"))
			require.NoError(t, d.Flush(t.Context()))
			if rng.IntN(2) == 0 {
				_, err = s.Append(t.Context(), transcript.Interrupt{})
				require.NoError(t, err)
			}
			if rng.IntN(2) == 0 { // otherwise the next turn ends it
				_, err = d.Finish(t.Context(), answer(rng.IntN(2)))
			}
		case 6:
			_, err = s.Append(t.Context(), transcript.Interrupt{Ended: []string{"", "failed", "stopped"}[rng.IntN(3)]})
		default:
			pending, perr := s.Pending(t.Context())
			require.NoError(t, perr)
			if len(pending.Calls) == 0 {
				break
			}
			c := pending.Calls[rng.IntN(len(pending.Calls))]
			if rng.IntN(2) == 0 {
				_, err = s.Append(t.Context(), transcript.ToolResult(c.Call.ID, "seen"))
				break
			}
			verdict := []transcript.Verdict{transcript.Hold, transcript.Approve, transcript.Reject}[rng.IntN(3)]
			if err = turn.Decide(t.Context(), s, c.Entry, verdict, "anna", ""); errors.Is(err, session.ErrConflict) {
				err = nil
			}
		}
		require.NoError(t, err)
		require.NoError(t, tn.End())
	}
}
