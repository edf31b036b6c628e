package turn_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// askFor appends an answer with n calls.
func askFor(t *testing.T, s *session.Session, n int) {
	t.Helper()
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprint("call", i))
	}
	storetest.Add(t, s, transcript.UserText("go"), storetest.Answer("", ids...))
}

// results returns the results that the model sees last.
func results(t *testing.T, s *session.Session) (all []transcript.ToolResultBlock) {
	t.Helper()
	h, err := s.History(t.Context())
	require.NoError(t, err)
	for _, b := range h.Messages[len(h.Messages)-1].Content {
		all = append(all, b.(transcript.ToolResultBlock))
	}
	return all
}

// states returns the states of the calls without a result.
func states(t *testing.T, s *session.Session) (all []rebuild.CallState) {
	t.Helper()
	p, err := s.Pending(t.Context())
	require.NoError(t, err)
	for _, c := range p.Calls {
		all = append(all, c.State)
	}
	return all
}

// Calls run at the same time, as many as the limit says, and every result is in
// the history in the order of the calls.
func TestRunTools(t *testing.T) {
	for _, limit := range []int{0, 1, 3} {
		st := storetest.Open(t, t.TempDir(), nil)
		s := storetest.Load(t, st, storetest.CLI)
		const n = 6
		together := limit
		if limit == 0 {
			together = n
		}
		var running, most atomic.Int32
		var met sync.WaitGroup
		met.Add(together)
		askFor(t, s, n)
		err := turn.RunTools(t.Context(), s, limit, func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
			now := running.Add(1)
			defer running.Add(-1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			if c.Call.ID < fmt.Sprint("call", together) { // the first ones wait for each other
				met.Done()
				met.Wait()
			}
			return transcript.ToolResult(c.Call.ID, "result of "+c.Call.ID), nil
		})
		require.NoError(t, err)
		require.EqualValues(t, together, most.Load(), "limit %d", limit)
		p, err := s.Pending(t.Context())
		require.NoError(t, err)
		require.True(t, p.Owed)
		require.Empty(t, p.Calls)
		for i, r := range results(t, s) {
			require.Equal(t, fmt.Sprint("result of call", i), r.Text())
		}
		storetest.Close(t, st)
	}
}

// After a cancellation the call that was running has its result, and a call that had
// not begun is not started: a later RunTools runs it.
func TestRunToolsCancelled(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	askFor(t, s, 3)
	ctx, cancel := context.WithCancel(t.Context())
	ran := 0
	err := turn.RunTools(ctx, s, 1, func(ctx context.Context, c rebuild.PendingCall) (transcript.Message, error) {
		ran++
		cancel()
		<-ctx.Done()
		return transcript.ToolError(c.Call.ID, "stopped half way"), nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, ran)
	storetest.Close(t, st)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	require.Equal(t, []rebuild.CallState{rebuild.NotStarted, rebuild.NotStarted}, states(t, s))
	require.NoError(t, turn.RunTools(t.Context(), s, 1, func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
		return transcript.ToolResult(c.Call.ID, "done"), nil
	}))
	var said []string
	for _, r := range results(t, s) {
		said = append(said, r.Text())
	}
	require.Equal(t, []string{"stopped half way", "done", "done"}, said)
}

// If a result cannot be appended, no other call begins, and the error has the
// reason.
func TestRunToolsNotSaved(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	askFor(t, s, 4)
	ran := 0
	err := turn.RunTools(t.Context(), s, 1, func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
		ran++
		require.NoError(t, st.Delete(t.Context(), s.Ref()))
		return transcript.ToolResult(c.Call.ID, "done"), nil
	})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, 1, ran)
	require.NoError(t, turn.RunTools(t.Context(), storetest.Load(t, st, storetest.CLI), 1, nil), "no calls")
}

// For every behaviour of a tool, its call gets a result, unless the result
// comes later.
func TestToolOutcomes(t *testing.T) {
	var log strings.Builder
	var events []session.Event
	st := storetest.Open(t, t.TempDir(), &session.Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Observe: func(ctx context.Context, e session.Event) context.Context { // only one tool panics
			if e.Kind == session.EventToolPanic {
				events = append(events, e)
			}
			return ctx
		},
	})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("go"), storetest.Answer("", "fails", "panics", "other", "nothing", "both", "later"))
	outcomes := map[string]func() (transcript.Message, error){
		"fails":   func() (transcript.Message, error) { return transcript.Message{}, errors.New("no such file") },
		"panics":  func() (transcript.Message, error) { panic("index out of range") },
		"other":   func() (transcript.Message, error) { return transcript.ToolResult("fails", "x"), nil },
		"nothing": func() (transcript.Message, error) { return transcript.UserText("x"), nil },
		"both": func() (transcript.Message, error) {
			m := transcript.ToolResult("both", "x")
			m.Content = append(m.Content, transcript.ToolResult("fails", "x").Content...)
			return m, nil
		},
		"later": func() (transcript.Message, error) {
			return transcript.Message{}, fmt.Errorf("tomorrow: %w", turn.ErrLater)
		},
	}
	require.NoError(t, turn.RunTools(t.Context(), s, 0, func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
		return outcomes[c.Call.ID]()
	}))
	require.Len(t, events, 1)
	require.Equal(t, s.Ref(), events[0].Session)
	require.ErrorContains(t, events[0].Err, "index out of range")
	require.Contains(t, log.String(), "tools_test.go", "the stack")
	require.Equal(t, []rebuild.CallState{rebuild.Dispatched}, states(t, s))
	storetest.Add(t, s, transcript.ToolResult("later", "it has come"))
	var said []string
	for _, r := range results(t, s) {
		require.Equal(t, r.CallID != "later", r.IsError)
		said = append(said, r.CallID+": "+r.Text())
	}
	none := ": the tool read_file returned no result of the call"
	require.Equal(t, []string{
		"fails: no such file", "panics: the tool read_file panicked: index out of range",
		"other" + none, "nothing" + none, "both" + none, "later: it has come",
	}, said)
}

// Several processes may run the tools of one session, without a turn: each call runs
// once.
func TestRunToolsTogether(t *testing.T) {
	dir := t.TempDir()
	a, b := storetest.Open(t, dir, nil), storetest.Open(t, dir, nil)
	defer storetest.Close(t, a)
	defer storetest.Close(t, b)
	s, other := storetest.Load(t, a, storetest.CLI), storetest.Load(t, b, storetest.CLI)
	const n = 8
	askFor(t, s, n)
	var ran atomic.Int32
	var group sync.WaitGroup
	for _, s := range []*session.Session{s, other, s, other} {
		group.Go(func() {
			err := turn.RunTools(t.Context(), s, 2, func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
				ran.Add(1)
				return transcript.ToolResult(c.Call.ID, "ok"), nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.EqualValues(t, n, ran.Load())
	require.Empty(t, states(t, s))
}
