package filedriver_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

// A log whose file bears the mark of a failed sync is closed by a call that holds the
// index, without looking for other writers in the index.
func TestCloseAMarkedFileUnderTheIndex(t *testing.T) {
	for what, call := range map[string]func(ctx context.Context, d *filedriver.Driver) error{
		"create": func(ctx context.Context, d *filedriver.Driver) error {
			_, err := d.Create(ctx, driver.KeyRef{Agent: "main", Key: "k3"}, header("c", "k3"))
			return err
		},
		"list": func(ctx context.Context, d *filedriver.Driver) error {
			_, err := d.List(ctx, "main", driver.Position{}, 0)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir, ctx := t.TempDir(), t.Context()
			d := open(t, dir, nil)
			a, b := create(t, d, "a", "k").Ref(), create(t, d, "b", "k2").Ref()
			require.NoError(t, d.Close())
			appendText(t, d.Path(a), []byte(`{"type":"user","id":"torn`))
			d = open(t, dir, &filedriver.Options{Sync: filelog.SyncInterval(time.Hour), OpenFiles: 1})
			_, err := settle(ctx, d, a)
			require.NoError(t, err)
			require.NoError(t, os.Chmod(d.Path(a), 0o600|os.ModeSticky))  // the sync of another process has failed
			appendText(t, d.Path(b), []byte(`{"type":"user","id":"torn`)) // it is ended under the index
			require.NoError(t, call(ctx, d))
			require.Len(t, list(t, d), map[string]int{"create": 3, "list": 2}[what])
			info, err := os.Stat(d.Path(a))
			require.NoError(t, err)
			require.NotZero(t, info.Mode()&os.ModeSticky, "whoever appends next cures it")
			add(t, d, a, "1")
			info, err = os.Stat(d.Path(a))
			require.NoError(t, err)
			require.Zero(t, info.Mode()&os.ModeSticky)
		})
	}
}
