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
	d := open(t, dir, &filedriver.Options{Sync: filelog.SyncNever})
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
	_, err = d.Load(ctx, driver.KeyRef{Agent: "main", Key: "a key"}, nil)
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
