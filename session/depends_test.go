package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// A call goes from pending over running to one end, even within one append; its status
// may be repeated.
func TestStatusOfACall(t *testing.T) {
	const none, pending, running, completed, failed = "", "pending", "running", "completed", "error"
	for was, follow := range map[string][]string{
		none:      {pending, running, completed, failed},
		pending:   {pending, running, completed, failed},
		running:   {running, completed, failed},
		completed: {completed},
		failed:    {failed},
	} {
		for _, now := range []string{pending, running, completed, failed} {
			allowed := false
			for _, f := range follow {
				allowed = allowed || f == now
			}
			for _, together := range []bool{false, true} {
				s := storetest.Load(t, session.OpenDriver(memdriver.New(nil), nil), storetest.CLI)
				storetest.Add(t, s, transcript.UserText("run"), storetest.Answer("", "c", "d"))
				status := func(status string) transcript.Item {
					return transcript.ToolStatus{CallID: "c", Status: status}
				}
				items := []transcript.Item{transcript.ToolStatus{CallID: "d", Status: completed}}
				if was != none {
					items = append(items, status(was))
				}
				if !together {
					storetest.Add(t, s, items...)
					items = nil
				}
				before := len(storetest.Lines(t, s))
				_, err := s.Append(t.Context(), append(items, status(now))...)
				if allowed {
					require.NoError(t, err, "%q to %q", was, now)
					continue
				}
				require.ErrorIs(t, err, session.ErrConflict, "%q to %q", was, now)
				require.Len(t, storetest.Lines(t, s), before)
			}
		}
	}
}

// A rewind goes to any entry of the session, however old, and to its beginning.
func TestRewindTo(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, storetest.Unsynced)
	s := storetest.Load(t, st, storetest.CLI)
	old := storetest.Add(t, s, transcript.UserText("old"))
	answer := storetest.Add(t, s, storetest.Answer("answer"))
	kept := storetest.Add(t, s, transcript.UserText("kept"))
	storetest.Add(t, s, transcript.Compaction{Summary: "so far", FirstKept: kept[0], CoversTo: answer[0]})
	storetest.Close(t, st)
	st = storetest.Open(t, dir, storetest.Unsynced)
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	before := storetest.History(t, s)
	require.ErrorIs(t, s.Rewind(t.Context(), "nobody"), session.ErrNoEntry)
	require.Equal(t, before, storetest.History(t, s))
	require.NoError(t, s.Rewind(t.Context(), old[0]))
	require.Contains(t, storetest.History(t, s), "old")
	require.NotContains(t, storetest.History(t, s), "answer")
}

// A condition is checked with the append, against the session as any process has left it.
func TestConditions(t *testing.T) {
	drv := memdriver.New(nil)
	st, other := session.OpenDriver(drv, nil), session.OpenDriver(memdriver.Reopen(drv), nil)
	defer storetest.Close(t, other)
	s := storetest.Load(t, st, storetest.CLI)
	require.Error(t, storetest.ErrOf(s.Append(t.Context())), "no items")
	one := func(cond session.Cond) error {
		return storetest.ErrOf(s.AppendIf(t.Context(), cond, transcript.UserText("hello")))
	}
	require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Keep: new(true)}))
	require.NoError(t, one(session.Cond{Empty: true}), "metadata are no message")
	require.ErrorIs(t, one(session.Cond{Empty: true}), session.ErrConflict)
	head, err := storetest.Head(t.Context(), s)
	require.NoError(t, err)
	require.ErrorIs(t, one(session.Cond{Head: "x"}), session.ErrConflict)
	require.NoError(t, one(session.Cond{Head: head}))
	require.ErrorIs(t, one(session.Cond{Head: head}), session.ErrConflict)
	head, err = storetest.Head(t.Context(), s)
	require.NoError(t, err)
	storetest.Add(t, storetest.Load(t, other, storetest.CLI), transcript.UserText("from elsewhere"))
	require.ErrorIs(t, one(session.Cond{Head: head}), session.ErrConflict)
	storetest.Close(t, st)
}
