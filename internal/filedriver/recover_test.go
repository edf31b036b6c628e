package filedriver_test

import (
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

// Package filelog tests failures of a log; this tests what the driver does
// then.
func TestRecover(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, &filedriver.Options{Sync: filelog.SyncAlways})
	ref := create(t, d, "a", "k").Ref()
	_, err := d.Append(ctx, ref, notes(1), driver.Anywhere, nil)
	require.NoError(t, err)
	require.NoError(t, d.Flush(ctx, ref, true))

	// If another process's copy took the file's place, one call fails and the
	// next one uses the copy.
	path := d.Path(ref)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".copy", data, 0o600))
	require.NoError(t, os.Rename(path+".copy", path))
	_, err = d.Append(ctx, ref, []driver.Line{note("no")}, driver.Anywhere, nil)
	require.ErrorIs(t, err, driver.ErrReplaced)
	res, err := d.Append(ctx, ref, []driver.Line{note("after")}, driver.Anywhere, nil)
	require.NoError(t, err)
	require.EqualValues(t, len(data), res.Start)

	require.ErrorIs(t, d.Flush(ctx, driver.Ref{Agent: "main", ID: "none"}, true), fs.ErrNotExist)
	require.NoError(t, d.Close())
	require.ErrorIs(t, d.Flush(ctx, ref, true), driver.ErrClosed)
}

// A transcript that bears the mark of a failed sync is cured by the next append or flush.
func TestMarkedTranscript(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, &filedriver.Options{Sync: filelog.SyncAlways})
	ref := create(t, d, "a", "k").Ref()
	lines := keyed("key", 2)
	_, err := d.Append(ctx, ref, lines, driver.Anywhere, nil)
	require.NoError(t, err)
	marked := func() bool {
		info, err := os.Lstat(d.Path(ref))
		require.NoError(t, err)
		return info.Mode()&fs.ModeSticky != 0
	}
	for _, again := range []func() error{
		func() error {
			_, err := d.Append(ctx, ref, []driver.Line{note("after")}, driver.Anywhere, nil)
			return err
		},
		func() error { return d.Flush(ctx, ref, false) },
		func() error { return d.Flush(ctx, ref, true) },
	} {
		require.NoError(t, os.Chmod(d.Path(ref), 0o600|fs.ModeSticky))
		require.NoError(t, again())
		require.False(t, marked())
	}
}
