package filelog_test

import (
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
)

// Leftovers of dead writers are removed, even by the next copy; files of
// writers at work, of other logs and of no log stay.
func TestRemoveTemps(t *testing.T) {
	root := lockRoot(t)
	const dead, alive = "a.jsonl.tmp-0123456789abcdef", "a.jsonl.tmp-0000000000000000"
	stays := []string{
		"a.jsonl", "b.jsonl.tmp-0123456789abcdef", "a.jsonl.tmp-other", alive,
		"a.jsonl.tmp-0123456789abcdef.jsonl", "a.jsonl.tmp-0123456789abcde", "a.jsonl.tmp-0123456789ABCDEF",
		"a.jsonl.tmp-0123456789abcdef0", ".tmp-0123456789abcdef", "tmp-0123456789abcdef", "a.jsonl.tmp-",
	}
	for _, name := range append([]string{dead}, stays...) {
		require.NoError(t, root.WriteFile(name, []byte("words\n"), 0o600))
	}
	writer, err := filelog.Open(root, alive, nil)
	require.NoError(t, err)
	release, err := writer.Hold(t.Context())
	require.NoError(t, err)
	require.NoError(t, filelog.RemoveTemps(root, "a.jsonl"))
	require.NoFileExists(t, root.Name()+"/"+dead)
	for _, name := range stays {
		require.FileExists(t, root.Name()+"/"+name)
	}
	err = filelog.RemoveTemps(root, "missing/a.jsonl")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "no log was changed, try again")
	require.NoError(t, root.WriteFile(dead, []byte("words\n"), 0o600))
	require.NoError(t, filelog.RemoveTempsIn(root, ".", ".jsonl"))
	for _, name := range stays {
		if name == "b.jsonl.tmp-0123456789abcdef" {
			require.NoFileExists(t, root.Name()+"/"+name)
			continue
		}
		require.FileExists(t, root.Name()+"/"+name)
	}
	require.NoFileExists(t, root.Name()+"/"+dead)
	require.ErrorIs(t, filelog.RemoveTempsIn(root, "missing", ".jsonl"), fs.ErrNotExist)
	release()
	require.NoError(t, writer.Close())
	_, err = writer.Hold(t.Context())
	require.ErrorIs(t, err, filelog.ErrClosed)

	l, err := filelog.Open(root, "a.jsonl", nil)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(root.Name()+"/a.jsonl", 0o600|os.ModeSticky))
	require.NoError(t, l.Flush(t.Context()))
	require.NoFileExists(t, root.Name()+"/"+alive)
	require.NoError(t, l.Close())

	require.NoError(t, filelog.WriteFileAtomic(root, "index", []byte("one"), 0o600, true))
	require.NoError(t, filelog.WriteFileAtomic(root, "index", []byte("two"), 0o600, false))
	got, err := root.ReadFile("index")
	require.NoError(t, err)
	require.Equal(t, "two", string(got))
	require.NoError(t, filelog.WriteFileAtomic(root, "index", []byte("three"), 0o640, false))
	info, err := root.Stat("index")
	require.NoError(t, err)
	require.Equal(t, "-rw-r-----", info.Mode().String())
}

// Readers ignore a draft until it is installed, and only RemoveDrafts, which
// removes its words, removes it.
func TestDraft(t *testing.T) {
	root := lockRoot(t)
	files := func() (names []string) {
		t.Helper()
		entries, err := os.ReadDir(root.Name())
		require.NoError(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	draft := func() *filelog.Draft {
		t.Helper()
		d, err := filelog.NewDraft(root, "a")
		require.NoError(t, err)
		_, err = d.Write([]byte("new"))
		require.NoError(t, err)
		size, err := d.Sync()
		require.NoError(t, err)
		got := make([]byte, size)
		_, err = d.ReadAt(got, 0)
		require.NoError(t, err)
		require.Equal(t, "new", string(got))
		return d
	}
	content := func(want string) {
		t.Helper()
		got, err := root.ReadFile("a")
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		require.Equal(t, []string{"a"}, files())
	}
	require.NoError(t, filelog.WriteFileAtomic(root, "a", []byte("old"), 0o600, false))

	d := draft()
	require.NoError(t, filelog.RemoveTemps(root, "a"))
	require.Len(t, files(), 2)
	require.True(t, d.Named())
	d.Discard()
	content("old")

	d = draft()
	require.NoError(t, filelog.RemoveDrafts(root, "a"))
	content("old")
	require.False(t, d.Named())
	err := d.Install()
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, root.Name()+"/a")
	d.Discard()
	content("old")

	d = draft()
	require.NoError(t, d.Install())
	d.Discard()
	content("new")

	_, err = filelog.NewDraft(root, "missing/a")
	require.ErrorIs(t, err, fs.ErrNotExist)
}
