package turn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A queued text is taken over once, and stays so.
func TestQueue(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	first := storetest.Add(t, s, transcript.UserText("one"), storetest.Answer("1"))[1]
	id, err := turn.Queue(ctx, s, transcript.UserText("two"))
	require.NoError(t, err)
	_, err = turn.Queue(ctx, s, transcript.UserText("three"))
	require.NoError(t, err)
	_, err = turn.Queue(ctx, s, transcript.AssistantText("no"))
	require.Error(t, err)
	_, err = turn.Queue(ctx, s, transcript.ToolResult("c", "no"))
	require.Error(t, err)
	require.NotContains(t, storetest.History(t, s), "two")
	p, err := s.Pending(ctx)
	require.NoError(t, err)
	require.Len(t, p.Queued, 2)
	require.Equal(t, id, p.Queued[0].Entry)

	// A compaction repeats queued texts.
	storetest.Talk(t, s, 0, 5)
	require.NoError(t, storetest.ErrOf(s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})))
	p, err = s.Pending(ctx)
	require.NoError(t, err)
	require.Len(t, p.Queued, 2)
	require.Equal(t, id, p.Queued[0].Entry)

	tn := begin(t, s)
	ids, err := turn.Drain(ctx, s, 0)
	require.NoError(t, err)
	require.Len(t, ids, 2)
	require.Contains(t, storetest.History(t, s), "two")
	require.NoError(t, s.Rewind(ctx, first))
	require.NotContains(t, storetest.History(t, s), "two")
	ids, err = turn.Drain(ctx, s, 0)
	require.NoError(t, err)
	require.Empty(t, ids)

	// A restart after a rewind to the beginning finds the text taken over.
	_, err = turn.Queue(ctx, s, transcript.UserText("four"))
	require.NoError(t, err)
	ids, err = turn.Drain(ctx, s, 0)
	require.NoError(t, err)
	require.Len(t, ids, 1)
	_, err = turn.Queue(ctx, s, transcript.UserText("five"))
	require.NoError(t, err)
	require.NoError(t, s.Rewind(ctx, s.Ref().ID))
	require.NoError(t, tn.End())
	storetest.Close(t, st)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	p, err = storetest.Load(t, st, storetest.CLI).Pending(ctx)
	require.NoError(t, err)
	require.Len(t, p.Queued, 1)
	require.Equal(t, "five", p.Queued[0].Message.Text())
}
