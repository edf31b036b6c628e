package serve_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// For all entries, a stream that resumes after any event continues with the same
// events.
func TestStreamAnything(t *testing.T) {
	t.Parallel()
	seeds := map[string]uint64{"short": 1, "gate": 2, "long": 25}[*faults]
	ts, store, _ := served(t, &serve.Options{Auth: anyone})
	for seed := range seeds {
		key := session.Key{Agent: "main", Channel: "test", Peer: fmt.Sprint(seed)}
		s, err := store.Create(t.Context(), key, nil)
		require.NoError(t, err)
		appendAnything(t, s, rand.New(rand.NewPCG(seed, 16)), map[string]int{"short": 30, "gate": 60, "long": 60}[*faults])
		_, err = s.Append(t.Context(), transcript.UserText("last"), &transcript.Response{Message: transcript.AssistantText("goodbye")})
		require.NoError(t, err)
		behind := func(id string) (all []frame) {
			resp := call(t, "GET", ts.URL+"/api/agents/main/chat/stream?sessionId="+s.Ref().ID, nil, "Last-Event-ID", id)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.NoError(t, frames(resp.Body, func(f frame) bool { all = append(all, f); return true }))
			return all
		}
		for e, err := range s.Entries(t.Context(), "") {
			require.NoError(t, err)
			if f, ok := e.Body.(transcript.MessageLine); !ok || f.Kind != transcript.TypeUser {
				continue
			}
			want := behind(e.ID + "/0") // a user's text is an event that chats do not show
			require.Equal(t, "done", want[len(want)-1].typ(), "seed %d", seed)
			ids := map[string]bool{}
			for i, f := range want {
				require.False(t, ids[f.id], "seed %d: %v", seed, f)
				ids[f.id] = true
				require.Equal(t, want[i+1:], append([]frame{}, behind(f.id)...), "seed %d: behind %v", seed, f)
			}
		}
	}
}

// appendAnything appends what clients, agents and people might.
func appendAnything(t *testing.T, s *session.Session, rng *rand.Rand, turns int) {
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
	for range turns {
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
