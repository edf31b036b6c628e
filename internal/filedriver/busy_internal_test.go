package filedriver

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A process that was stopped during an append to a session does not keep the lock of the
// index from others: a call that needs both locks gives up.
func TestCallsBesideAStoppedAppend(t *testing.T) {
	line := driver.Line{ID: "a", Data: []byte(`{"type":"session","id":"a","key":"k","gen":1}`)}
	ref := driver.Ref{Agent: "main", ID: "a"}
	for name, call := range map[string]func(ctx context.Context, d *Driver) error{
		"archive":   func(ctx context.Context, d *Driver) error { return d.Archive(ctx, ref, driver.Anywhere) },
		"delete at": func(ctx context.Context, d *Driver) error { return d.Delete(ctx, driver.Cursor(len(line.Data)+1), ref) },
		"set current": func(ctx context.Context, d *Driver) error {
			_, err := d.SetCurrent(ctx, ref, 0, func(int64) driver.Line { return line })
			return err
		},
		"rewrite": func(ctx context.Context, d *Driver) error {
			return d.Rewrite(ctx, ref, func(iter.Seq2[transcript.Record, error], func([]byte) error) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, err := Open(t.TempDir(), &Options{Sync: filelog.SyncNever})
				require.NoError(t, err)
				for _, id := range []string{"a", "b"} { // b is the current one
					_, err = d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, func(int64) (driver.Row, driver.Line) { return driver.Row{ID: id}, line })
					require.NoError(t, err)
				}
				stopped, err := filelog.Open(d.agents["main"].sess, fileName("a"), nil)
				require.NoError(t, err)
				release, err := stopped.Hold(t.Context())
				require.NoError(t, err)
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.ErrorIs(t, call(ctx, d), driver.ErrBusy)
				require.Less(t, time.Since(began), 30*busyWait)
				release()
				require.NoError(t, stopped.Close())
				require.NoError(t, d.Close())
			})
		})
	}
}
