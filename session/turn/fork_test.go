package turn_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A fork takes over the pins, the state and the decisions of its base, without
// queued texts and drafts; the cost of its copied answers counts for the base.
func TestForkOfStandingThings(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	resp := storetest.Answer("paid for")
	resp.Model, resp.Usage = "m", transcript.Usage{Input: 10, Output: 1}
	id := storetest.Add(t, s, transcript.UserText("keep this"), resp)[0]
	require.NoError(t, turn.Pin(ctx, s, id))
	require.NoError(t, storetest.ErrOf(turn.SetValue(ctx, s, "a", json.RawMessage(`1`), "")))
	require.NoError(t, storetest.ErrOf(turn.Queue(ctx, s, transcript.UserText("queued"))))
	tn := begin(t, s)
	d := tn.Draft("anthropic", "m", transcript.Made{})
	require.NoError(t, d.Write(ctx, "half"))
	require.NoError(t, d.Flush(ctx))
	check := func(at string, state string) {
		t.Helper()
		fork, err := s.Fork(ctx, at, nil)
		require.NoError(t, err)
		p, err := fork.Pending(ctx)
		require.NoError(t, err)
		require.Empty(t, p.Queued)
		pins, err := turn.Pins(ctx, fork)
		require.NoError(t, err)
		require.Len(t, pins, 1)
		values, err := turn.Values(ctx, fork)
		require.NoError(t, err)
		require.Len(t, values, 1)
		require.Equal(t, state, string(values[0].Value))
		require.Empty(t, storetest.Info(t, fork).Usage)
		tn := begin(t, fork)
		require.NoError(t, tn.End())
		require.NotContains(t, storetest.History(t, fork), "half")
		storetest.Add(t, fork, transcript.UserText("more"), resp)
		require.Equal(t, 1, storetest.Info(t, fork).Usage["m"].Answers)
	}
	check(storetest.Add(t, s, transcript.UserText("now"))[0], "1")
	hits := 0
	for _, err := range search.Store(ctx, st, search.Query{Text: "keep this"}) {
		require.NoError(t, err)
		hits++
	}
	require.Equal(t, 1, hits, "the fork has a copy")
	require.NoError(t, storetest.ErrOf(turn.SetValue(ctx, s, "a", json.RawMessage(`2`), "")))
	storetest.Talk(t, s, 0, 5)
	require.NoError(t, storetest.ErrOf(s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})))
	head := storetest.Add(t, s, transcript.UserText("after"))[0]
	check(head, "2")
	p, err := s.Pending(ctx)
	require.NoError(t, err)
	require.Len(t, p.Queued, 1)
	require.NoError(t, storetest.ErrOf(d.Finish(ctx, &transcript.Response{Message: transcript.AssistantText("half and half")})))
	require.NoError(t, tn.End())
}
