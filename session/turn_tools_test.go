package session_test

import (
	"context"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/transcript"
)

// asked appends an answer with n calls and returns them.
func asked(t *testing.T, s interface {
	Append(context.Context, ...transcript.Item) ([]string, error)
}, n int,
) (all []transcript.ToolCallBlock) {
	t.Helper()
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprint("call", i))
	}
	a := storetest.Answer("", ids...)
	_, err := s.Append(t.Context(), transcript.UserText("go"), a)
	require.NoError(t, err)
	return a.Message.ToolCalls()
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
		err := s.RunTools(t.Context(), asked(t, s, n), limit, func(_ context.Context, c transcript.ToolCallBlock) transcript.Message {
			now := running.Add(1)
			defer running.Add(-1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			if c.ID < fmt.Sprint("call", together) { // the first ones wait for each other
				met.Done()
				met.Wait()
			}
			return transcript.ToolResult(c.ID, "result of "+c.ID)
		})
		require.NoError(t, err)
		require.EqualValues(t, together, most.Load(), "limit %d", limit)
		p, err := s.Pending(t.Context())
		require.NoError(t, err)
		require.True(t, p.Owed)
		require.Empty(t, p.Calls)
		h, err := s.History(t.Context())
		require.NoError(t, err)
		for i, b := range h.Messages[len(h.Messages)-1].Content {
			require.Equal(t, fmt.Sprint("result of call", i), b.(transcript.ToolResultBlock).Text())
		}
		storetest.Close(t, st)
	}
}

// A cancelled turn has a result for every call: what was running says so itself,
// what had not begun was not run.
func TestRunToolsCancelled(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	all := asked(t, s, 3)
	ctx, cancel := context.WithCancel(t.Context())
	ran := 0
	require.NoError(t, s.RunTools(ctx, all, 1, func(ctx context.Context, c transcript.ToolCallBlock) transcript.Message {
		ran++
		cancel()
		<-ctx.Done()
		return transcript.ToolError(c.ID, "stopped half way")
	}))
	require.Equal(t, 1, ran)
	storetest.Close(t, st)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	h, err := s.History(t.Context())
	require.NoError(t, err)
	var said []string
	for _, b := range h.Messages[len(h.Messages)-1].Content {
		r := b.(transcript.ToolResultBlock)
		require.True(t, r.IsError)
		said = append(said, r.Text())
	}
	require.Equal(t, []string{"stopped half way", "read_file was not run: context canceled", "read_file was not run: context canceled"}, said)
}

// If a result cannot be appended nothing further begins, and the error says why.
func TestRunToolsNotSaved(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	all := asked(t, s, 4)
	require.NoError(t, st.Delete(t.Context(), s.Ref()))
	ran := 0
	err := s.RunTools(t.Context(), all, 1, func(_ context.Context, c transcript.ToolCallBlock) transcript.Message {
		ran++
		return transcript.ToolResult(c.ID, "done")
	})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, 1, ran)
	require.NoError(t, s.RunTools(t.Context(), nil, 1, nil))
}
