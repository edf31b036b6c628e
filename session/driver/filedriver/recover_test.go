package filedriver_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/filedriver"
	"github.com/convolog/convolog/transcript/filelog"
)

// What fails in a log is tested in package filelog; here is what the driver
// makes of it.
func TestRecover(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, &filedriver.Options{Sync: filelog.SyncAlways})
	ref := create(t, d, "a", "k").Ref()
	_, err := d.Append(ctx, ref, notes(1), driver.Cond{})
	require.NoError(t, err)
	require.NoError(t, d.Recover(ctx, ref))

	// If a copy took the file's place, the next call uses that.
	path := d.Path(ref)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".copy", data, 0o600))
	require.NoError(t, os.Rename(path+".copy", path))
	require.NoError(t, d.Recover(ctx, ref))
	res, err := d.Append(ctx, ref, []driver.Line{note("after")}, driver.Cond{})
	if err != nil || int(res.Start) != len(data) {
		t.Errorf("after a copy took the file's place Append = %v, %v", res, err)
	}

	if err := d.Recover(ctx, driver.Ref{Agent: "main", ID: "none"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a session that is not there Recover = %v", err)
	}
	require.NoError(t, d.Close())
	if err := d.Recover(ctx, ref); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("after Close Recover = %v", err)
	}
}
