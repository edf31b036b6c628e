package session_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A store whose last append was refused leaves no doubt about the transcript when it
// is closed: the next writer goes on in the same file.
func TestRefusedAppendLeavesNoDoubt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := open(t, dir, nil)
	s := load(t, st, cli)
	add(t, s, transcript.UserText("one"))
	closed(t, st)
	file := filepath.Join(dir, "agents/main/sessions", s.ID()+".jsonl")
	before, err := os.Stat(file)
	require.NoError(t, err)

	st, other := open(t, dir, nil), open(t, dir, nil)
	_, err = load(t, st, cli).AppendIf(t.Context(), session.Cond{Head: session.NoHead}, transcript.UserText("two"))
	require.ErrorIs(t, err, session.ErrConflict)
	add(t, load(t, other, cli), transcript.UserText("three"))
	closed(t, st)
	closed(t, other)

	st = open(t, dir, nil)
	defer closed(t, st)
	add(t, load(t, st, cli), transcript.UserText("four"))
	after, err := os.Stat(file)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after), "the transcript was copied")
}
