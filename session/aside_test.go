package session_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A session made Aside does not become the current one of its key, even if the index
// is lost. MakeCurrent does that.
func TestCreateAside(t *testing.T) {
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		current := storetest.Load(t, st, storetest.CLI)
		beside := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{Aside: true})
		h, ok := storetest.Entries(t, beside)[0].Body.(transcript.Header)
		require.True(t, ok)
		require.Zero(t, h.Gen)
		require.False(t, storetest.Info(t, beside).Current)
		require.Equal(t, current.Ref(), storetest.Load(t, st, storetest.CLI).Ref())
		ids := storetest.ListIDs(t, st, &session.ListOptions{Current: true})
		require.Equal(t, []string{current.Ref().ID}, ids)
		require.NoError(t, beside.MakeCurrent(t.Context()))
		require.Equal(t, beside.Ref(), storetest.Load(t, st, storetest.CLI).Ref())
		require.True(t, storetest.Info(t, beside).Current)
		require.False(t, storetest.Info(t, current).Current)
	})
}

// If its base is erased during a fork, that fork fails and the next one works.
func TestForkOfAReplacedSession(t *testing.T) {
	dir := t.TempDir()
	between, st := storetest.OpenBetween(t, dir)
	defer storetest.Close(t, st)
	other := storetest.Open(t, dir, nil)
	defer storetest.Close(t, other)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText(storetest.Word), storetest.Answer("ok"))
	between.BeforeCreate = storetest.Once(func() {
		require.NoError(t, storetest.Load(t, other, storetest.CLI).Rewrite(t.Context(), eraseWord))
	})
	_, err := s.Fork(t.Context(), ids[1], nil)
	require.ErrorIs(t, err, session.ErrReplaced)
	require.ErrorContains(t, err, "no fork was made")
	require.Len(t, storetest.ListIDs(t, st, nil), 1)
	fork := storetest.Fork(t, s, ids[1], nil)
	require.NotContains(t, storetest.History(t, fork), storetest.Word)
}

// A session that takes no append because its format is newer cannot be forked.
func TestForkOfANewerFormat(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	id := storetest.Add(t, s, transcript.UserText("hello"))[0]
	storetest.Close(t, st)
	path := filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bytes.Replace(data, []byte(`"v":1`), []byte(`"v":2`), 1), 0o600))
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	require.ErrorIs(t, storetest.ErrOf(s.Fork(t.Context(), id, nil)), session.ErrNewerFormat)
	require.ErrorIs(t, storetest.ErrOf(s.Append(t.Context(), transcript.UserText("more"))), session.ErrNewerFormat)
	require.Len(t, storetest.ListIDs(t, st, nil), 1)
}
