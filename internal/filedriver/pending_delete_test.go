package filedriver_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

// While a deletion waits for the append lock of a session, no call finds the session
// or makes a row for it that would outlive the deletion.
func TestNothingFindsASessionThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	d := open(t, dir, &filedriver.Options{Sync: driver.SyncNever})
	row := create(t, d, "gone", "a key")
	create(t, d, "kept", "another key")
	root, err := os.OpenRoot(filepath.Join(dir, "agents/main/sessions"))
	require.NoError(t, err)
	l, err := filelog.Open(root, "gone.jsonl", nil)
	require.NoError(t, err)
	release, err := l.Hold(ctx)
	require.NoError(t, err)
	addLine(t, dir, `{"delete":"gone"}`)

	require.ErrorIs(t, d.Put(ctx, row), fs.ErrNotExist)
	_, err = d.Get(ctx, row.Ref())
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = d.Current(ctx, driver.KeyRef{Agent: "main", Key: "a key"})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = d.SetCurrent(ctx, row.Ref(), 0, func(int64) driver.Line { return note("n") })
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, d.Restore(ctx, row.Ref()), fs.ErrNotExist)
	require.Len(t, list(t, d), 1)

	release()
	require.NoError(t, l.Close())
	require.NoError(t, root.Close())
	require.NoError(t, d.Put(ctx, list(t, d)[0])) // the next writer finishes the deletion
	require.NotContains(t, indexText(t, dir), "gone")
	require.NoFileExists(t, filepath.Join(dir, "agents/main/sessions/gone.jsonl"))
}

// After every change of the folders by a writer the index is newer than they are, so
// that other processes do not compare them.
func TestIndexIsNewerThanTheFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir, &filedriver.Options{Sync: driver.SyncNever})
	newer := func(what string) {
		t.Helper()
		index, err := os.Stat(filepath.Join(dir, "agents/main/sessions.jsonl"))
		require.NoError(t, err)
		for _, name := range []string{"sessions", "archive"} {
			folder, err := os.Stat(filepath.Join(dir, "agents/main", name))
			if err == nil { // there is no archive at first
				require.True(t, folder.ModTime().Before(index.ModTime()), what)
			}
		}
	}
	a := create(t, d, "a", "a key")
	newer("after a session was made")
	b := create(t, d, "b", "another key")
	newer("after another one was made")
	require.NoError(t, d.Archive(t.Context(), b.Ref(), driver.Anywhere))
	newer("after one was archived")
	require.NoError(t, d.Restore(t.Context(), b.Ref()))
	newer("after it was restored")
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, a.Ref()))
	newer("after one was deleted")
}
