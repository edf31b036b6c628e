package turn_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

func init() { storetest.Register("turn", turnChild) }

// turnChild runs one turn: two parallel tools, one that a person has to approve,
// and a text that is queued during it. It announces each tool that it starts. At
// the n-th step it announces that it is there and waits to be killed; steps are
// the beginning and the end of each append, and the start and the end of each
// tool.
func turnChild(args []string, stdin io.Reader, stdout io.Writer) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	out := json.NewEncoder(stdout)
	steps := make(chan struct{}, 1)
	step := func() {
		steps <- struct{}{}
		if n--; n == 0 {
			_ = out.Encode(storetest.Report{Did: "here", Here: true}) // if it fails, there is no waiter
			_, _ = io.Copy(io.Discard, stdin)                         // ends with the parent
		}
		<-steps
	}
	st, err := session.Open(args[0], &session.Options{
		Now: func() time.Time { step(); return time.Now() },
		Observe: func(ctx context.Context, e session.Event) context.Context {
			if e.Kind == session.EventAppend {
				step()
			}
			return ctx
		},
	})
	if err != nil {
		return err
	}
	s, err := st.Load(storetest.Background, storetest.CLI)
	if err != nil {
		return err
	}
	if _, err := turn.Begin(storetest.Background, s); err != nil {
		return err
	}
	add := func(items ...transcript.Item) func() error {
		return func() error { _, err := s.Append(storetest.Background, items...); return err }
	}
	run := func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
		_ = out.Encode(storetest.Report{Did: "started", Text: c.Call.ID})
		step()
		return transcript.ToolResult(c.Call.ID, "result of "+c.Call.ID), nil
	}
	return storetest.Chain(nil,
		add(transcript.UserText("do it")),
		add(storetest.Answer("", "a", "b", "careful")),
		func() error {
			return turn.Decide(storetest.Background, s, storetest.PendingEntry(s, "careful"), transcript.Hold, "policy", "")
		},
		func() error { return turn.RunTools(storetest.Background, s, 0, run) },
		func() error {
			_, err := turn.Queue(storetest.Background, s, transcript.UserText("and be quick"))
			return err
		},
		func() error {
			return turn.Decide(storetest.Background, s, storetest.PendingEntry(s, "careful"), transcript.Approve, "anna", "")
		},
		func() error { return turn.RunTools(storetest.Background, s, 0, run) },
		func() error { _, err := turn.Drain(storetest.Background, s, 0); return err },
		add(storetest.Answer("done")),
		func() error { return out.Encode(storetest.Report{Did: "over"}) },
	)
}

// Killed at any step of a turn, the next process finds every call in the state it
// was in: a started call never counts as not started, and held calls cannot be
// started. The queued text is there once.
func TestKilledTurn(t *testing.T) {
	t.Parallel()
	wanted := []rebuild.CallState{rebuild.NotStarted, rebuild.Held, rebuild.Approved, rebuild.Dispatched}
	states := map[rebuild.CallState]int{}
	all := func() bool {
		return !slices.ContainsFunc(wanted, func(s rebuild.CallState) bool { return states[s] == 0 })
	}
	// Dispatches of parallel tools are tried again, so the n-th step is not always
	// the same one.
	over := false
	for n := 1; !over || !all(); n++ {
		if over {
			n = 1
		}
		dir := t.TempDir()
		started := map[string]bool{}
		cmd := storetest.Child(t, "turn", dir, fmt.Sprint(n))
		_, err := cmd.StdinPipe()
		require.NoError(t, err)
		pipe, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		for events := json.NewDecoder(bufio.NewReader(pipe)); ; {
			var e storetest.Report
			require.NoError(t, events.Decode(&e), "step %d", n)
			if e.Did == "started" {
				started[e.Text] = true
			}
			if over = e.Did == "over"; e.Here || over {
				break
			}
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed

		st := storetest.Open(t, dir, nil)
		s := storetest.Load(t, st, storetest.CLI)
		tn, err := turn.Begin(t.Context(), s)
		require.NoError(t, err)
		h, err := s.History(t.Context())
		require.NoError(t, err)
		p, err := s.Pending(t.Context())
		require.NoError(t, err)
		text := storetest.JSON(t, h)
		for _, id := range []string{"a", "b", "careful"} {
			state, pending := rebuild.CallState("has a result"), false
			for _, c := range p.Calls {
				if c.Call.ID == id {
					state, pending = c.State, true
				}
			}
			states[state]++
			if started[id] {
				require.True(t, !pending || state == rebuild.Dispatched, "step %d: the tool of %s was started, it is %s", n, id, state)
			}
			if state == rebuild.Dispatched {
				require.Contains(t, text, "interrupted: the tool was started and may have run")
				require.ErrorIs(t, turn.Dispatch(t.Context(), s, storetest.PendingEntry(s, id)), session.ErrConflict)
			}
			if state == rebuild.Held {
				require.Contains(t, text, "not run yet: waiting for approval")
				require.ErrorIs(t, turn.Dispatch(t.Context(), s, storetest.PendingEntry(s, id)), session.ErrConflict)
			}
		}
		ids, err := turn.Drain(t.Context(), s, 0)
		require.NoError(t, err)
		require.Len(t, ids, len(p.Queued), "step %d", n)
		require.Empty(t, second2(turn.Drain(t.Context(), s, 0)))
		said := 0
		for e, err := range s.Entries(t.Context(), "") {
			require.NoError(t, err)
			if f, ok := e.Body.(transcript.MessageLine); ok && f.Queued != "" {
				said++
			}
		}
		require.LessOrEqual(t, said, 1, "step %d", n)
		require.True(t, !over || said == 1)
		require.NoError(t, tn.End())
		storetest.Close(t, st)
	}
}

func second2[T any](v T, _ error) T { return v }
