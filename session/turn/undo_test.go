package turn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

func TestUndo(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	empty := storetest.History(t, s)
	storetest.Add(t, s, transcript.UserText("one"), storetest.Answer("1"))
	one := storetest.History(t, s)
	storetest.Add(t, s, transcript.UserText("two"))
	storetest.Add(t, s, storetest.Answer("", "c"))
	storetest.Add(t, s, transcript.ToolResult("c", "r"))
	steering := storetest.Add(t, s, transcript.UserText("steer"))
	two := storetest.History(t, s)
	require.NoError(t, turn.Undo(t.Context(), s, 1))
	require.Equal(t, one, storetest.History(t, s))
	require.NoError(t, s.Rewind(t.Context(), steering[0]))
	require.Equal(t, two, storetest.History(t, s))
	require.Error(t, turn.Undo(t.Context(), s, 3), "three of two turns were taken back")
	require.NoError(t, turn.Undo(t.Context(), s, 2))
	require.Equal(t, empty, storetest.History(t, s))
	require.Error(t, s.Rewind(t.Context(), "nothing"), "a rewind to an entry that is not there was written")
}

// If the beginning of the last turn is in a summary, it is still taken back,
// even by a program that has read only the lines of the history.
func TestUndoBehindCompaction(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("one"), storetest.Answer("1"))
	one := storetest.History(t, s)
	storetest.Add(t, s, transcript.UserText("two"))
	storetest.Add(t, s, storetest.Answer("", "c"))
	covered := storetest.Add(t, s, transcript.ToolResult("c", "r"))
	kept := storetest.Add(t, s, storetest.Answer("", "d"))
	storetest.Add(t, s, transcript.ToolResult("d", "r"))
	storetest.Add(t, s, transcript.Compaction{Summary: "they began", FirstKept: kept[0], CoversTo: covered[0]})
	storetest.Add(t, s, storetest.Answer("2"))
	storetest.Close(t, st)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	require.NoError(t, turn.Undo(t.Context(), s, 1))
	require.Equal(t, one, storetest.History(t, s))
}

// A program that has read only the lines of the history also takes back summarised
// turns.
func TestUndoSummarizedTurns(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 1)
	one := storetest.History(t, s)
	storetest.Talk(t, s, 1, 4)
	summarize(t, s)
	storetest.Close(t, st)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	require.ErrorIs(t, turn.Undo(t.Context(), s, 6), rebuild.ErrFewTurns)
	require.NoError(t, turn.Undo(t.Context(), s, 4))
	require.Equal(t, one, storetest.History(t, s))
}

// summarize compacts all of a session but its last turn.
func summarize(t *testing.T, s *session.Session) {
	t.Helper()
	done, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})
	require.NoError(t, err)
	require.NotEmpty(t, done.Entry)
}
