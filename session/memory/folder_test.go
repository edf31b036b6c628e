package memory

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFolder(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "memory")
	f := Folder(dir)
	files, err := f.List(ctx, "a")
	require.NoError(t, err)
	require.Empty(t, files)
	_, err = f.Read(ctx, "a/x.md")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, f.Remove(ctx, "a/x.md"), "nothing is there")
	require.NoDirExists(t, dir)

	require.NoError(t, f.Create(ctx, "a/b/x.md", []byte("1\n")))
	require.ErrorIs(t, f.Create(ctx, "a/b/x.md", []byte("2\n")), fs.ErrExist)
	require.NoError(t, f.Create(ctx, "a/z.md", []byte("3\n")))
	files, err = f.List(ctx, "a")
	require.NoError(t, err)
	require.Len(t, files, 2)
	require.Equal(t, "a/b/x.md", files[0].Name)
	require.NoError(t, f.Write(ctx, "a/b/x.md", []byte("22\n")))
	data, err := f.Read(ctx, "a/b/x.md")
	require.NoError(t, err)
	require.Equal(t, "22\n", string(data))
	again, err := f.List(ctx, "a")
	require.NoError(t, err)
	require.NotEqual(t, files[0].Version, again[0].Version)
	require.Equal(t, files[1], again[1])

	temp := filepath.Join(dir, "a/b/x.md.tmp-0123456789abcdef")
	require.NoError(t, os.WriteFile(temp, []byte("left"), 0o600))
	unlock, err := f.Lock(ctx, "a")
	require.NoError(t, err)
	unlock()
	require.NoFileExists(t, temp)

	require.NoError(t, f.Remove(ctx, "a/b/x.md"))
	require.NoDirExists(t, filepath.Join(dir, "a/b"))
	require.NoError(t, f.Remove(ctx, "a/z.md"))
	require.NoDirExists(t, filepath.Join(dir, "a"))
}

func TestFolderStaysInside(t *testing.T) {
	ctx, base := t.Context(), t.TempDir()
	dir := filepath.Join(base, "memory")
	f := Folder(dir)
	for _, name := range []string{"../x", "/x", "a/../../x", "", "a//b"} {
		require.ErrorIs(t, f.Create(ctx, name, nil), fs.ErrInvalid, name)
		require.ErrorIs(t, f.Write(ctx, name, nil), fs.ErrInvalid, name)
		require.ErrorIs(t, f.Remove(ctx, name), fs.ErrInvalid, name)
	}
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(base, "out"), 0o700))
	require.NoError(t, os.Symlink("../out", filepath.Join(dir, "a")))
	require.Error(t, f.Create(ctx, "a/x", []byte("1\n")))
	left, err := os.ReadDir(filepath.Join(base, "out"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestFolderLimit(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.md"), []byte(strings.Repeat("x", maxFile+1)), 0o600))
	_, err := Folder(dir).Read(ctx, "x.md")
	require.ErrorContains(t, err, "x.md")
}

// Locks exclude, those of other folders do not, and waiting ends with the context.
func TestFolderLock(t *testing.T) {
	f := Folder(t.TempDir())
	unlock, err := f.Lock(t.Context(), "owners/anna")
	require.NoError(t, err)
	inner, err := f.Lock(t.Context(), "agents/main")
	require.NoError(t, err)
	inner()
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = f.Lock(short, "owners/anna")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	unlock()

	var wg sync.WaitGroup
	var n atomic.Int64 // the race detector does not know these locks
	for range 4 {
		wg.Go(func() {
			for range 5 {
				unlock, err := f.Lock(t.Context(), "owners/anna")
				if err != nil {
					t.Error(err)
					return
				}
				n.Store(n.Load() + 1)
				unlock()
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 20, n.Load())
}
