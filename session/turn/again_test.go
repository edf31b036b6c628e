package turn_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

func cut(text string, more ...transcript.Block) *transcript.Response {
	m := transcript.AssistantText(text)
	m.Content = append(m.Content, more...)
	return &transcript.Response{Message: m, StopReason: transcript.StopAborted}
}

func texts(t *testing.T, s *session.Session) (all []string) {
	t.Helper()
	h, err := s.History(t.Context())
	require.NoError(t, err)
	for _, m := range h.Messages {
		all = append(all, m.Text())
	}
	return all
}

// After a cut answer the model can be asked again, or to go on.
func TestRetryAndContinue(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	require.ErrorIs(t, turn.Retry(t.Context(), s), session.ErrConflict)
	storetest.Add(t, s, transcript.UserText("q1"))
	require.ErrorIs(t, turn.Continue(t.Context(), s), session.ErrConflict)
	storetest.Add(t, s, transcript.AssistantText("a1"), transcript.UserText("q2"))

	storetest.Add(t, s, cut("half"))
	require.NoError(t, turn.Retry(t.Context(), s))
	require.Equal(t, []string{"q1", "a1", "q2"}, texts(t, s))
	pending, err := s.Pending(t.Context())
	require.NoError(t, err)
	require.True(t, pending.Owed)
	require.ErrorIs(t, turn.Retry(t.Context(), s), session.ErrConflict)

	// A failed compaction or another line after the answer changes nothing.
	storetest.Add(t, s, cut("half", transcript.ToolCallBlock{ID: "c", Name: "n", Input: []byte("{}")}))
	require.NoError(t, turn.Retry(t.Context(), s))
	require.Equal(t, []string{"q1", "a1", "q2"}, texts(t, s))

	storetest.Add(t, s, cut("half"))
	require.NoError(t, turn.Continue(t.Context(), s))
	all := texts(t, s)
	require.Equal(t, []string{"q1", "a1", "q2", "half"}, all[:4])
	require.Contains(t, all[4], "Go on")
	storetest.Add(t, s, transcript.AssistantText("whole"))
	require.ErrorIs(t, turn.Retry(t.Context(), s), session.ErrConflict)
}

// A tool that may have run is not taken back.
func TestRetryAfterATool(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	storetest.Add(t, s, transcript.UserText("q"))
	ids := storetest.Add(t, s, cut("half", transcript.ToolCallBlock{ID: "c", Name: "n", Input: []byte("{}")}))
	storetest.Add(t, s, transcript.Dispatch{Call: ids[len(ids)-1], CallID: "c"})
	require.ErrorIs(t, turn.Retry(t.Context(), s), session.ErrConflict)
	require.ErrorIs(t, turn.Continue(t.Context(), s), session.ErrConflict)
}

// An answer after a compaction is taken back as well, even if nothing else is kept.
func TestRetryBehindACompaction(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	ids := storetest.Add(t, s, transcript.UserText("q1"), transcript.AssistantText("a1"), transcript.UserText("q2"))
	storetest.Add(t, s, transcript.Compaction{Summary: "s", CoversTo: ids[1], FirstKept: ids[2]})
	storetest.Add(t, s, cut("half"))
	before := texts(t, s)
	require.NoError(t, turn.Retry(t.Context(), s))
	require.Equal(t, before[:len(before)-1], texts(t, s))
}

// A system prompt and tools after the cut answer stay in force.
func TestRetryKeepsPrompts(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	storetest.Add(t, s, transcript.UserText("q"))
	storetest.Add(t, s, cut("half"))
	storetest.Add(t, s, transcript.System{Text: "prompt"}, transcript.Tools{Names: []string{"read"}})
	require.NoError(t, turn.Retry(t.Context(), s))
	all := texts(t, s)
	require.Len(t, all, 1)
	require.NotContains(t, all[0], "half")
	require.Contains(t, all[0], "prompt")
	require.Contains(t, all[0], "read")
	pending, err := s.Pending(t.Context())
	require.NoError(t, err)
	require.True(t, pending.Owed)
}

// A hide after the cut answer stays in force; a later one that is taken back does not.
func TestRetryKeepsHides(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	ids := storetest.Add(t, s, transcript.UserText("bad image"), transcript.AssistantText("a1"), transcript.UserText("q2"))
	half := storetest.Add(t, s, cut("half"))
	_, err := turn.Hide(t.Context(), s, ids[0])
	require.NoError(t, err)
	require.NoError(t, turn.Retry(t.Context(), s))
	want := []string{"[conversation continues]", "a1", "q2"}
	require.Equal(t, want, texts(t, s))

	require.NoError(t, s.Rewind(t.Context(), half[0]))
	_, err = turn.Hide(t.Context(), s, ids[1])
	require.NoError(t, err)
	require.NoError(t, s.Rewind(t.Context(), half[0]))
	_, err = turn.Hide(t.Context(), s, ids[0])
	require.NoError(t, err)
	require.NoError(t, turn.Retry(t.Context(), s))
	require.Equal(t, want, texts(t, s))
}

// A rewind keeps a whole append, so Retry cannot part an answer from a question in the
// same one. It must not report success and leave the answer.
func TestRetryOfOneAppend(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	storetest.Add(t, s, transcript.UserText("q1"), cut("half"))
	require.ErrorIs(t, turn.Retry(t.Context(), s), session.ErrConflict)
	require.Equal(t, []string{"q1", "half"}, texts(t, s))
	require.NoError(t, turn.Continue(t.Context(), s))

	storetest.Add(t, s, cut("more"))
	require.NoError(t, turn.Retry(t.Context(), s))
	require.Len(t, texts(t, s), 3)
}

// A call that was approved and run after the cut answer does not run again.
func TestRetryAfterADecision(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("pay"), storetest.Answer("", "pay"))
	entry := storetest.PendingEntry(s, "pay")
	require.NoError(t, turn.Decide(t.Context(), s, entry, transcript.Hold, "policy", ""))
	storetest.Add(t, s, transcript.UserText("meanwhile"))
	storetest.Add(t, s, &transcript.Response{Message: transcript.AssistantText("Once"), StopReason: transcript.StopAborted})
	require.NoError(t, turn.Decide(t.Context(), s, entry, transcript.Approve, "anna", ""))
	runs := 0
	tool := func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
		runs++
		return transcript.ToolResult(c.Call.ID, "paid"), nil
	}
	require.NoError(t, turn.RunTools(t.Context(), s, 1, tool))
	require.ErrorIs(t, turn.Retry(t.Context(), s), session.ErrConflict)
	require.NoError(t, turn.RunTools(t.Context(), s, 1, tool))
	require.Equal(t, 1, runs)
	require.NoError(t, turn.Continue(t.Context(), s))
}

// A call before the cut answer that is held or rejected does not prevent that it is retried or continued.
func TestContinueWhileACallWaits(t *testing.T) {
	for _, verdict := range []transcript.Verdict{transcript.Hold, transcript.Reject} {
		st := session.OpenDriver(memdriver.New(nil), nil)
		s := storetest.Load(t, st, storetest.CLI)
		storetest.Add(t, s, transcript.UserText("pay"), storetest.Answer("", "pay"))
		entry := storetest.PendingEntry(s, "pay")
		require.NoError(t, turn.Decide(t.Context(), s, entry, verdict, "policy", "no"))
		storetest.Add(t, s, transcript.UserText("meanwhile"))
		storetest.Add(t, s, cut("Once"))
		require.NoError(t, turn.Retry(t.Context(), s))
		p, err := s.Pending(t.Context())
		require.NoError(t, err)
		require.Len(t, p.Calls, 1)
		require.True(t, p.Owed)
		storetest.Add(t, s, cut("Once"))
		require.NoError(t, turn.Continue(t.Context(), s))
	}
}

// After a stop by the user no further tool of the turn starts.
func TestStopBetweenTools(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("go"), storetest.Answer("", "x", "y"))
	storetest.Add(t, s, transcript.ToolResult("x", "done"), transcript.Interrupt{Ended: "stopped"})
	for _, text := range []string{"", "next"} {
		if text != "" {
			storetest.Add(t, s, transcript.UserText(text))
		}
		p, err := s.Pending(t.Context())
		require.NoError(t, err)
		require.Empty(t, p.Calls)
		require.Equal(t, text != "", p.Owed)
		require.NoError(t, turn.RunTools(t.Context(), s, 1, func(context.Context, rebuild.PendingCall) (transcript.Message, error) {
			require.Fail(t, "a tool of a stopped turn")
			return transcript.Message{}, nil
		}))
	}
}

// A stop ends the calls of its turn that have not started, whatever was decided. A decision
// after the stop comes too late. A started call and one of an earlier turn still wait.
func TestStopEndsDecisions(t *testing.T) {
	ctx := t.Context()
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	entryOf := func(id string) string {
		p, err := s.Pending(ctx)
		require.NoError(t, err)
		return p.Calls[slices.IndexFunc(p.Calls, func(c rebuild.PendingCall) bool { return c.Call.ID == id })].Entry
	}
	storetest.Add(t, s, transcript.UserText("go"), storetest.Answer("", "earlier"))
	require.NoError(t, turn.Decide(ctx, s, entryOf("earlier"), transcript.Hold, "", ""))
	storetest.Add(t, s, transcript.UserText("Why?"), transcript.Interrupt{Ended: "stopped"})
	storetest.Add(t, s, transcript.UserText("Why?"), storetest.Answer("Because."), transcript.UserText("go on"))
	storetest.Add(t, s, storetest.Answer("", "held", "approved", "started", "none"))
	held, none := entryOf("held"), entryOf("none")
	require.NoError(t, turn.Decide(ctx, s, held, transcript.Hold, "", ""))
	require.NoError(t, turn.Decide(ctx, s, entryOf("approved"), transcript.Approve, "ana", ""))
	require.NoError(t, turn.Dispatch(ctx, s, entryOf("started")))
	storetest.Add(t, s, transcript.Interrupt{Ended: "stopped"})
	require.ErrorIs(t, turn.Decide(ctx, s, held, transcript.Approve, "ana", ""), session.ErrConflict)
	storetest.Add(t, s, transcript.Decision{Call: none, CallID: "none", Verdict: transcript.Approve}) // by another program
	for _, items := range [][]transcript.Item{nil, {transcript.UserText("next"), transcript.Interrupt{Ended: "stopped"}}, {storetest.Answer("Well.")}} {
		if items != nil {
			storetest.Add(t, s, items...)
		}
		p, err := s.Pending(ctx)
		require.NoError(t, err)
		var calls []string
		for _, c := range p.Calls {
			calls = append(calls, c.Call.ID+" "+string(c.State))
		}
		require.Equal(t, []string{"earlier held", "started dispatched"}, calls)
		require.NoError(t, turn.RunTools(ctx, s, 1, func(context.Context, rebuild.PendingCall) (transcript.Message, error) {
			require.Fail(t, "a tool of a stopped turn")
			return transcript.Message{}, nil
		}))
	}
}
