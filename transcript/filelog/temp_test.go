package filelog_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript/filelog"
)

// Leftovers of dead writers go, at the next copy too; files of writers at work,
// of other logs and of nobody stay.
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

	require.NoError(t, filelog.WriteFileAtomic(root, "index", []byte("one"), true))
	require.NoError(t, filelog.WriteFileAtomic(root, "index", []byte("two"), false))
	got, err := root.ReadFile("index")
	require.NoError(t, err)
	require.Equal(t, "two", string(got))
	require.NoError(t, filelog.WriteFileMode(root, "index", []byte("three"), 0o640, false))
	info, err := root.Stat("index")
	require.NoError(t, err)
	require.Equal(t, "-rw-r-----", info.Mode().String())
}

// New content replaces the old if it was written whole and verify has read and
// allowed it; otherwise nothing changes.
func TestWriteAtomic(t *testing.T) {
	root := lockRoot(t)
	refused := errors.New("refused")
	write := func(w io.Writer) error {
		_, err := w.Write([]byte("new"))
		return err
	}
	read := ""
	allow := func(r io.ReaderAt, size int64) error {
		b := make([]byte, size)
		_, err := r.ReadAt(b, 0)
		read = string(b)
		return err
	}
	require.NoError(t, filelog.WriteFileAtomic(root, "a", []byte("old"), false))
	for _, test := range []struct {
		write  func(io.Writer) error
		verify func(io.ReaderAt, int64) error
	}{
		{func(w io.Writer) error { return errors.Join(write(w), refused) }, allow},
		{write, func(io.ReaderAt, int64) error { return refused }},
	} {
		err := filelog.WriteAtomic(root, "a", test.write, test.verify)
		require.ErrorIs(t, err, refused)
		require.ErrorContains(t, err, root.Name()+"/a")
		require.Empty(t, read)
		got, err := root.ReadFile("a")
		require.NoError(t, err)
		require.Equal(t, "old", string(got))
	}
	require.NoError(t, filelog.WriteAtomic(root, "a", write, allow))
	require.Equal(t, "new", read)
	got, err := root.ReadFile("a")
	require.NoError(t, err)
	require.Equal(t, "new", string(got))
	files, err := os.ReadDir(root.Name())
	require.NoError(t, err)
	require.Len(t, files, 1)

	// A temporary file that disappears before it is read is not taken for verified.
	err = filelog.WriteAtomic(root, "a", func(w io.Writer) error {
		temps, err := filepath.Glob(root.Name() + "/a.tmp-*")
		return errors.Join(err, os.Remove(temps[0]))
	}, allow)
	require.ErrorIs(t, err, fs.ErrNotExist)
}
