package filedriver

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

// A deletion that finds a copy in the place of a transcript waits for the lock of the
// copy: its holder may be about to put another one in its place.
func TestRemoveLocksACopy(t *testing.T) {
	t.Parallel()
	d, err := Open(t.TempDir(), nil)
	require.NoError(t, err)
	_, err = d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, func(int64) (driver.Row, driver.Line) {
		return driver.Row{ID: "a"}, driver.Line{ID: "a", Data: []byte(`{"type":"session","id":"a","key":"k","gen":1}`)}
	})
	require.NoError(t, err)
	a := d.agents["main"]
	path := d.Path(driver.Ref{Agent: "main", ID: "a"})
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".copy", text, 0o600))
	l, err := filelog.Open(a.sess, "a.jsonl.copy", nil)
	require.NoError(t, err)
	release, err := l.Hold(t.Context())
	require.NoError(t, err)
	copied := false
	d.step = func(step string) {
		if step == "delete: lock" && !copied {
			copied = true
			require.NoError(t, os.Rename(path+".copy", path))
		}
	}
	require.ErrorIs(t, a.remove("a", 100*time.Millisecond), context.DeadlineExceeded)
	require.FileExists(t, path)
	release()
	require.NoError(t, l.Close())
	require.NoError(t, a.remove("a", time.Minute))
	require.NoFileExists(t, path)
	require.NoError(t, d.Close())
}
