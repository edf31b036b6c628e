package memory

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Lock removes leftovers of killed writers, and Remove removes empty folders.
func TestFolderTidies(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "memory")
	f := Folder(dir)
	require.NoError(t, f.Remove(ctx, "a/x.md"), "nothing is there")
	require.NoDirExists(t, dir)

	require.NoError(t, f.Create(ctx, "a/b/x.md", []byte("1\n")))
	require.NoError(t, f.Create(ctx, "a/z.md", []byte("3\n")))
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

	// A link to memories of another person is refused as well.
	require.NoError(t, f.Write(ctx, "owners/anna/x", []byte("1\n")))
	require.NoError(t, os.Symlink("anna", filepath.Join(dir, "owners/bob")))
	_, read := f.Read(ctx, "owners/bob/x")
	_, listed := f.List(ctx, "owners/bob")
	for _, err := range []error{read, listed, f.Write(ctx, "owners/bob/x", nil), f.Remove(ctx, "owners/bob/x")} {
		require.ErrorContains(t, err, filepath.Join(dir, "owners/bob")+" is a symbolic link")
	}
	data, err := f.Read(ctx, "owners/anna/x")
	require.NoError(t, err)
	require.Equal(t, "1\n", string(data))
}

func TestFolderLimit(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	f, err := os.Create(filepath.Join(dir, "x.md"))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(maxFile+1)) // without blocks
	require.NoError(t, f.Close())
	_, err = Folder(dir).Read(ctx, "x.md")
	require.ErrorContains(t, err, "x.md")

	// A memory that is too large is named, and the others are returned.
	m, c := openStore(t, dir, nil), newTalk(t, "anna")
	learn(t, m, c, candidate(preferences, "a", "Likes a", ""))
	large := filepath.Join(dir, "owners/anna/user/memories/preferences/b.md")
	require.NoError(t, os.WriteFile(large, make([]byte, maxMemory+1), 0o600))
	found := 0
	for mem, err := range m.List(ctx, anna) {
		if err != nil {
			require.ErrorContains(t, err, "b.md")
			continue
		}
		require.Equal(t, "Likes a", mem.Abstract)
		found++
	}
	require.Equal(t, 1, found)
}
