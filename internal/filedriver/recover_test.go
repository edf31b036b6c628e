package filedriver_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/session/driver"
)

// Failures of a log are tested in package filelog; here is what the driver
// makes of it.
func TestRecover(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, &filedriver.Options{Sync: driver.SyncAlways})
	ref := create(t, d, "a", "k").Ref()
	_, err := d.Append(ctx, ref, notes(1), driver.Cond{})
	require.NoError(t, err)
	require.NoError(t, d.Recover(ctx, ref))

	// If another process's copy took the file's place, one call says so and the
	// next one uses the copy.
	path := d.Path(ref)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".copy", data, 0o600))
	require.NoError(t, os.Rename(path+".copy", path))
	_, err = d.Append(ctx, ref, []driver.Line{note("no")}, driver.Cond{})
	require.ErrorIs(t, err, driver.ErrReplaced)
	res, err := d.Append(ctx, ref, []driver.Line{note("after")}, driver.Cond{})
	require.NoError(t, err)
	require.EqualValues(t, len(data), res.Start)

	require.ErrorIs(t, d.Recover(ctx, driver.Ref{Agent: "main", ID: "none"}), fs.ErrNotExist)
	require.NoError(t, d.Close())
	require.ErrorIs(t, d.Recover(ctx, ref), driver.ErrClosed)
}

// A transcript that bears the mark of a failed sync is cured by the next append,
// and by an idempotent hit.
func TestMarkedTranscript(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, &filedriver.Options{Sync: driver.SyncAlways})
	ref := create(t, d, "a", "k").Ref()
	lines := keyed("key", 2)
	first, err := d.Append(ctx, ref, lines, driver.Cond{Idem: "key", IdemHash: "hash"})
	require.NoError(t, err)
	marked := func() bool {
		info, err := os.Lstat(d.Path(ref))
		require.NoError(t, err)
		return info.Mode()&fs.ModeSticky != 0
	}
	for _, again := range []func() error{
		func() error { _, err := d.Append(ctx, ref, []driver.Line{note("after")}, driver.Cond{}); return err },
		func() error { return d.Flush(ctx, ref) },
		func() error { return d.Recover(ctx, ref) },
		func() error {
			res, err := d.Append(ctx, ref, lines, driver.Cond{Idem: "key", IdemHash: "hash"})
			require.True(t, res.Repeated)
			require.Equal(t, first.Start, res.Start)
			return err
		},
	} {
		require.NoError(t, os.Chmod(d.Path(ref), 0o600|fs.ModeSticky))
		require.NoError(t, again())
		require.False(t, marked())
	}
	require.NoError(t, d.Close())
}

// A remembered place is no proof of an idempotent hit: lines that became NULs are
// appended again.
func TestRepeatedReadsAgain(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, &filedriver.Options{Sync: driver.SyncAlways})
	ref := create(t, d, "a", "k").Ref()
	lines := keyed("key", 2)
	cond := driver.Cond{Idem: "key", IdemHash: "hash"}
	first, err := d.Append(ctx, ref, lines, cond)
	require.NoError(t, err)
	res, err := d.Append(ctx, ref, lines, cond)
	require.NoError(t, err)
	require.True(t, res.Repeated)

	f, err := os.OpenFile(d.Path(ref), os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(make([]byte, first.End-first.Start-1), int64(first.Start))
	require.NoError(t, errors.Join(err, f.Close()))

	res, err = d.Append(ctx, ref, lines, cond)
	require.NoError(t, err)
	require.False(t, res.Repeated)
	require.Equal(t, first.End, res.Start)
	res, err = d.Append(ctx, ref, lines, cond)
	require.NoError(t, err)
	require.True(t, res.Repeated)
	require.NoError(t, d.Close())
}
