package storetest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// AppendText appends text to a file, as a program does that takes no locks.
func AppendText(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, errors.Join(err, f.Close()))
}

// CutAppend writes only the first n lines of an append to a transcript, like a crash.
func CutAppend(t *testing.T, path, key string, n int, items ...transcript.Item) {
	t.Helper()
	entries, err := transcript.NewBatch(time.Now(), uuid.NewString, items...)
	require.NoError(t, err)
	entries, err = transcript.WithIdem(entries, key)
	require.NoError(t, err)
	for _, e := range entries[:n] {
		AppendText(t, path, string(e.Line())+"\n")
	}
}

// LoseIndex removes the index of the agent main.
func LoseIndex(t testing.TB, dir string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "agents", "main", "sessions.jsonl")))
}

// appendLock is the byte of a transcript that its writers lock.
const appendLock = 1 << 62

// HoldAppends takes the append lock of a session, like a writer in another process, and
// holds it until release is called.
func HoldAppends(t *testing.T, dir string, s *session.Session) (release func()) {
	t.Helper()
	root, err := os.OpenRoot(filepath.Join(dir, "agents", s.Ref().Agent, "sessions"))
	require.NoError(t, err)
	lock, err := filelog.OpenLockFile(root, s.Ref().ID+".jsonl")
	require.NoError(t, err)
	require.NoError(t, lock.Lock(t.Context(), appendLock))
	return func() {
		require.NoError(t, lock.Unlock(appendLock))
		require.NoError(t, lock.Close())
		require.NoError(t, root.Close())
	}
}
