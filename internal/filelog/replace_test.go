package filelog

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
)

// write returns a Replace callback that writes a text.
func write(text string) func(io.Writer, int64) error {
	return func(to io.Writer, _ int64) error {
		_, err := io.WriteString(to, text)
		return err
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	l, err := Create(root, "log", []byte("head 0\nsecret\n"), nil)
	require.NoError(t, err)
	other, err := Open(root, "log", &Options{Sync: SyncNever})
	require.NoError(t, err)
	_, _, err = other.Append(t.Context(), Lines([]byte("kept\nsecret too"+"\n")))
	require.NoError(t, err)

	refused := errors.New("refused")
	err = l.Replace(t.Context(), func(to io.Writer, size int64) error {
		require.Equal(t, int64(len("head 0\nsecret\nkept\nsecret too\n")), size)
		_, err := io.WriteString(to, "half")
		return errors.Join(err, refused)
	})
	require.ErrorIs(t, err, refused)
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, l.Replace(ctx, func(io.Writer, int64) error { cancel(); return ctx.Err() }), context.Canceled)
	_, _, err = l.Append(t.Context(), Lines([]byte("goes on\n")))
	require.NoError(t, err)

	require.NoError(t, l.Replace(t.Context(), write("head 1\nkept\n")))
	for _, old := range []*Log{l, other} {
		_, _, err := old.Append(t.Context(), Lines([]byte("late\n")))
		require.ErrorIs(t, err, ErrReplaced)
		require.NoError(t, old.Close())
	}
	names, err := os.ReadDir(root.Name())
	require.NoError(t, err)
	require.Len(t, names, 1)
	data, err := root.ReadFile("log")
	require.NoError(t, err)
	require.Equal(t, "head 1\nkept\n", string(data))
	again, err := Open(root, "log", nil)
	require.NoError(t, err)
	_, _, err = again.Append(t.Context(), Lines([]byte("more\n")))
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

// While the new lines are written no other Log holds the lock of the old file,
// and all its lines are synced, except under SyncNever. If that sync fails,
// nothing is written, and the error says so.
func TestReplaceSyncsFirst(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncNever, SyncInterval(1e18)} {
		d := new(faultDisk)
		w := newWorkload(t, d)
		w.create()
		l, err := Open(w.root, workName, &Options{Sync: policy, seam: d.seam()})
		require.NoError(t, err)
		mustAppend(t, l, "owed\n")
		synced := d.syncs.Load()
		calls := 0
		check := func(to io.Writer, _ int64) error {
			calls++
			for _, shared := range []bool{true, false} {
				free, err := w.log.file().Lock(shared)
				require.NoError(t, err)
				require.False(t, free, "shared %v", shared)
			}
			require.Equal(t, policy != SyncNever, d.syncs.Load() > synced)
			require.False(t, l.Owes())
			_, err := io.WriteString(to, "head 1\n")
			return err
		}
		if policy != SyncNever {
			d.step = failOnce("sync")
			failed, ok := errors.AsType[*driver.NotDurableError](l.Replace(t.Context(), check))
			require.True(t, ok)
			require.True(t, failed.Refused)
			require.EqualValues(t, len(workFirst), failed.Start)
			require.Zero(t, calls)
			require.Equal(t, workFirst+"owed\n", string(w.content()))
			require.NoError(t, l.Recover(t.Context()))
			closeAll(t, w.log)
			if w.log, err = Open(w.root, workName, nil); err != nil {
				t.Fatal(err)
			}
			mustAppend(t, l, "more\n")
		}
		require.NoError(t, l.Replace(t.Context(), check))
		require.Equal(t, 1, calls)
		require.Equal(t, "head 1\n", string(w.content()))
		closeAll(t, l, w.log)
	}
}

// Each operation of Replace fails once. Then the log holds the old lines or the
// new ones, whole, and the error says which.
func TestReplaceFails(t *testing.T) {
	t.Parallel()
	const before, after = "head 0\nsecret\n", "head 1\n"
	for n := 1; ; n++ {
		root, err := os.OpenRoot(t.TempDir())
		require.NoError(t, err)
		l, err := Create(root, "log", []byte(before), nil)
		require.NoError(t, err)
		require.NoError(t, l.Close())
		d := &faultDisk{failAt: n}
		l, err = Open(root, "log", &Options{seam: d.seam()})
		if err == nil {
			err = l.Replace(t.Context(), write(after))
		}
		data, readErr := root.ReadFile("log")
		require.NoError(t, readErr)
		var lost *driver.NotDurableError
		switch {
		case err == nil:
			require.Equal(t, after, string(data), "operation %d", n)
		case errors.As(err, &lost):
			require.Equal(t, after, string(data), "operation %d: %v", n, err)
			require.False(t, lost.Refused)
			require.EqualValues(t, len(after), lost.End)
		default:
			require.Equal(t, before, string(data), "operation %d: %v", n, err)
		}
		if l != nil {
			_ = l.Close() // its faults were checked
		}
		sound, err := Open(root, "log", nil)
		require.NoError(t, err)
		_, _, err = sound.Append(t.Context(), Lines([]byte("more\n")))
		require.NoError(t, err, "operation %d", n)
		require.NoError(t, sound.Close())
		names, err := os.ReadDir(root.Name())
		require.NoError(t, err)
		for _, name := range names {
			require.False(t, strings.Contains(name.Name(), tempMark), "operation %d left %s", n, name.Name())
		}
		require.NoError(t, root.Close())
		if !d.failed {
			require.Greater(t, n, 5, "the faults are not injected")
			return
		}
	}
}
