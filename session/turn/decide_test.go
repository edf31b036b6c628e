package turn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

func begin(t *testing.T, s *session.Session) *turn.Turn {
	t.Helper()
	tn, err := turn.Begin(t.Context(), s)
	require.NoError(t, err)
	return tn
}

// The first approval or rejection holds, over processes, and dispatched calls
// cannot be decided.
func TestFirstDecisionHolds(t *testing.T) {
	dir := t.TempDir()
	a, b := storetest.Open(t, dir, nil), storetest.Open(t, dir, nil)
	defer storetest.Close(t, a)
	defer storetest.Close(t, b)
	s, other := storetest.Load(t, a, storetest.CLI), storetest.Load(t, b, storetest.CLI)
	ctx := t.Context()
	storetest.Add(t, s, transcript.UserText("go"), storetest.Answer("", "x", "y"))
	x, y := storetest.PendingEntry(s, "x"), storetest.PendingEntry(s, "y")
	require.ErrorContains(t, turn.Decide(ctx, s, x, "maybe", "", ""), "want hold, approve or reject")
	require.NoError(t, turn.Decide(ctx, s, x, transcript.Hold, "policy", ""))
	require.ErrorIs(t, turn.Decide(ctx, other, x, transcript.Hold, "policy", ""), session.ErrConflict)

	var wg sync.WaitGroup
	won := make(chan transcript.Verdict, 8)
	for i, s := range []*session.Session{s, other, s, other, s, other, s, other} {
		v := []transcript.Verdict{transcript.Approve, transcript.Reject}[i/2%2]
		wg.Go(func() {
			if err := turn.Decide(ctx, s, x, v, fmt.Sprint("person ", i), "because"); err == nil {
				won <- v
			} else if !errors.Is(err, session.ErrConflict) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	close(won)
	require.Len(t, won, 1)
	p, err := s.Pending(ctx)
	require.NoError(t, err)
	want := map[transcript.Verdict]rebuild.CallState{transcript.Approve: rebuild.Approved, transcript.Reject: rebuild.Rejected}[<-won]
	require.Equal(t, want, p.Calls[0].State)
	require.Equal(t, "because", p.Calls[0].Reason)

	tn := begin(t, s)
	require.NoError(t, turn.Dispatch(ctx, s, y))
	require.ErrorIs(t, turn.Decide(ctx, other, y, transcript.Reject, "late", ""), session.ErrConflict)
	require.ErrorIs(t, turn.Dispatch(ctx, s, y), session.ErrConflict)
	require.ErrorIs(t, turn.Dispatch(ctx, s, "nobody"), session.ErrConflict)
	storetest.Add(t, other, transcript.ToolResult("y", "done"))
	require.ErrorIs(t, turn.Dispatch(ctx, s, y), session.ErrConflict)
	require.NoError(t, tn.End())
}

// The model sees how far a call without a result has come.
func TestShownStates(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	storetest.Add(t, s, transcript.UserText("go"), storetest.Answer("", "new", "held", "approved", "rejected", "dispatched"))
	for id, verdicts := range map[string][]transcript.Verdict{"held": {transcript.Hold}, "approved": {transcript.Hold, transcript.Approve}, "rejected": {transcript.Reject}} {
		for _, v := range verdicts {
			require.NoError(t, turn.Decide(ctx, s, storetest.PendingEntry(s, id), v, "anna", "too dear"))
		}
	}
	tn := begin(t, s)
	require.NoError(t, turn.Dispatch(ctx, s, storetest.PendingEntry(s, "dispatched")))
	h, err := s.History(ctx)
	require.NoError(t, err)
	var got []string
	for _, b := range h.Messages[len(h.Messages)-1].Content {
		r := b.(transcript.ToolResultBlock)
		got = append(got, r.CallID+": "+r.Text())
	}
	require.Equal(t, []string{
		"new: interrupted", "held: not run yet: waiting for approval", "approved: interrupted",
		"rejected: denied, not run: too dear", "dispatched: interrupted: the tool was started and may have run",
	}, got)

	// A decision after the model has answered edits nothing.
	storetest.Add(t, s, &transcript.Response{Message: transcript.AssistantText("I wait."), Made: transcript.Made{After: h.After}})
	before := storetest.History(t, s)
	require.NoError(t, turn.Decide(ctx, s, storetest.PendingEntry(s, "held"), transcript.Reject, "anna", "no"))
	after := storetest.History(t, s)
	require.Equal(t, strings.TrimSuffix(before, "]}"), after[:len(before)-2])
	require.Contains(t, after, "[late error of tool call held")
	require.Contains(t, after, "denied, not run: no")
	require.NoError(t, tn.End())
}

// Tools run once each, except for held ones.
func TestTurnRunTools(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	storetest.Add(t, s, transcript.UserText("go"), storetest.Answer("", "a", "b", "c"))
	require.NoError(t, turn.Decide(ctx, s, storetest.PendingEntry(s, "b"), transcript.Hold, "policy", ""))
	tn := begin(t, s)
	ran := map[string]int{}
	var mu sync.Mutex
	run := func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
		mu.Lock()
		defer mu.Unlock()
		ran[c.Call.ID]++
		return transcript.ToolResult(c.Call.ID, "ok"), nil
	}
	require.NoError(t, turn.RunTools(ctx, s, 1, run))
	require.NoError(t, turn.RunTools(ctx, s, 0, run))
	require.Equal(t, map[string]int{"a": 1, "c": 1}, ran)
	require.NoError(t, turn.Decide(ctx, s, storetest.PendingEntry(s, "b"), transcript.Approve, "anna", ""))
	require.NoError(t, turn.RunTools(ctx, s, 0, run))
	require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, ran)
	require.NoError(t, tn.End())
}

// Several calls in one line, as other programs write them, share an entry ID and
// are still distinct.
func TestCallsInOneLine(t *testing.T) {
	t.Parallel()
	storetest.EachFollowed(t, func(t *testing.T, st *session.Store) {
		defer storetest.Close(t, st)
		s := storetest.Load(t, st, storetest.CLI)
		ctx := t.Context()
		ask := func(id string) {
			storetest.Add(t, s, transcript.UserText("go"))
			e, err := transcript.ParseEntry([]byte(`{"type":"assistant","id":"` + id + `","ts":"2026-01-01T00:00:00Z","content":[` +
				`{"type":"tool_use","id":"a","name":"x","input":{}},{"type":"tool_use","id":"b","name":"y","input":{}}]}`))
			require.NoError(t, err)
			_, err = s.AppendLines(ctx, storetest.End(t, s), e)
			require.NoError(t, err)
		}
		states := func() (list []rebuild.CallState) {
			p, err := s.Pending(ctx)
			require.NoError(t, err)
			for _, c := range p.Calls {
				list = append(list, c.State)
			}
			return list
		}
		tn := begin(t, s)
		var ran sync.Map
		run := func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
			_, again := ran.LoadOrStore(c.Call.ID+c.Call.Name, true)
			require.False(t, again)
			return transcript.ToolResult(c.Call.ID, "ok"), nil
		}
		ask("one")
		require.NoError(t, turn.RunTools(ctx, s, 0, run))
		require.Empty(t, states())
		for _, want := range []string{"ax", "by"} {
			_, ok := ran.Load(want)
			require.True(t, ok)
		}

		ask("two")
		require.NoError(t, turn.Decide(ctx, s, "two", transcript.Hold, "policy", ""))
		require.Equal(t, []rebuild.CallState{rebuild.Held, rebuild.Held}, states())
		require.ErrorIs(t, turn.Dispatch(ctx, s, "two"), session.ErrConflict)
		require.NoError(t, turn.Decide(ctx, s, "two", transcript.Approve, "anna", ""))
		require.NoError(t, turn.Dispatch(ctx, s, "two"))
		require.Equal(t, []rebuild.CallState{rebuild.Dispatched, rebuild.Dispatched}, states())
		require.ErrorIs(t, turn.Dispatch(ctx, s, "two"), session.ErrConflict)
		require.NoError(t, tn.End())
	})
}
