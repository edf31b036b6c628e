package filedriver_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/session/driver"
)

// Transcripts that are put into the folder by hand are listed, and removed ones
// are not.
func TestFilesByHand(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	create(t, d, "b", "k")
	data, err := os.ReadFile(d.Path(ref))
	require.NoError(t, err)
	put := filepath.Join(filepath.Dir(d.Path(ref)), "c.jsonl")
	require.NoError(t, os.WriteFile(put, []byte(strings.Replace(string(data), `"id":"a"`, `"id":"c"`, 1)), 0o600))
	ahead := time.Now().Add(time.Hour) // clocks of file systems count in steps
	require.NoError(t, os.Chtimes(filepath.Dir(put), ahead, ahead))
	require.Len(t, list(t, d), 3)
	require.NoError(t, d.Close())
	require.NoError(t, os.Remove(d.Path(ref)))
	d = open(t, dir, nil)
	require.Len(t, list(t, d), 2)
	_, err = d.Get(t.Context(), ref)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// A transcript that was removed is not listed, though its folder looks untouched.
func TestFileRemovedByHand(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	create(t, d, "b", "k")
	require.NoError(t, d.Close())
	require.NoError(t, os.Remove(d.Path(ref)))
	require.NoError(t, os.Chtimes(filepath.Dir(d.Path(ref)), time.Time{}, time.Unix(1, 0)))
	d = open(t, dir, nil)
	require.Equal(t, []string{"b"}, ids(list(t, d)))
}

// The next writer adds the row of a transcript that was put into the folder, so
// that no process has to read it again.
func TestRowOfAFileByHand(t *testing.T) {
	dir := t.TempDir()
	var asked []string
	d := open(t, dir, described(&asked))
	ref := create(t, d, "a", "k").Ref()
	data, err := os.ReadFile(d.Path(ref))
	require.NoError(t, err)
	put := filepath.Join(filepath.Dir(d.Path(ref)), "c.jsonl")
	require.NoError(t, os.WriteFile(put, []byte(strings.Replace(string(data), `"id":"a"`, `"id":"c"`, 1)), 0o600))
	ahead := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(filepath.Dir(put), ahead, ahead))
	require.Len(t, list(t, d), 2)
	require.Equal(t, []string{"c from 0"}, asked)
	before := indexText(t, dir)
	create(t, d, "b", "other key")
	require.Contains(t, indexText(t, dir)[len(before):], `"row":{"id":"c"`)
	require.NoError(t, d.Close())
	require.NoError(t, os.Chtimes(filepath.Dir(put), ahead, time.Unix(1, 0)))
	asked = nil
	d = open(t, dir, described(&asked))
	require.Len(t, list(t, d), 3)
	require.Empty(t, asked)
}

// A folder with another program's index is refused and stays as it is.
func TestForeignFolders(t *testing.T) {
	for _, name := range []string{"sessions.json", "sessions/sessions.json", "agents/main/sessions.json", "agents/main/sessions/sessions.json"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(`{"agent:main:main":{"sessionId":"x"}}`), 0o600))
		_, err := filedriver.Open(dir, nil)
		require.ErrorIs(t, err, driver.ErrForeign)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, "import")
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
}

// Without an index, a read-only store looks at each transcript once.
func TestReadOnlyWithoutIndex(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	require.NoError(t, d.Close())
	loseIndex(t, dir)
	var asked []string
	opts := described(&asked)
	opts.ReadOnly = true
	d = open(t, dir, opts)
	for range 3 {
		require.Len(t, list(t, d), 1)
	}
	require.Equal(t, []string{"a from 0"}, asked)
}

// Files with names that this package would not give are not sessions.
func TestOtherFiles(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	require.NoError(t, d.Close())
	for _, name := range []string{"UPPER.jsonl", "a b.jsonl", ".jsonl", "a.jsonl.bak"} {
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(d.Path(ref)), name), []byte("words\n"), 0o600))
	}
	loseIndex(t, dir)
	d = open(t, dir, nil)
	require.Equal(t, []string{"a"}, ids(list(t, d)))
	require.Equal(t, "b", load(t, d, "other key", "b"))
}

// A session that another process is just making is found by its key before it
// has a row.
func TestSessionInTheMaking(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	a := create(t, d, "a", "k")
	require.NoError(t, d.Close())
	text, err := os.ReadFile(d.Path(a.Ref()))
	require.NoError(t, err)
	made := d.Path(driver.Ref{Agent: "main", ID: "b"})
	require.NoError(t, os.WriteFile(made, []byte(strings.NewReplacer(`"id":"a"`, `"id":"b"`, `"gen":1`, `"gen":2`).Replace(string(text))), 0o600))
	require.NoError(t, os.Chtimes(filepath.Dir(made), time.Time{}, time.Unix(1, 0)))
	addLine(t, dir, `{"change":"b"}`)
	d = open(t, dir, &filedriver.Options{ReadOnly: true})
	require.Equal(t, "b", load(t, d, "k", ""))
}

// The error names a path where the index cannot be.
func TestIndexThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	require.NoError(t, d.Close())
	loseIndex(t, dir)
	path := filepath.Join(dir, "agents/main/sessions.jsonl")
	require.NoError(t, os.Symlink("sessions.lock", path))
	d = open(t, dir, nil)
	_, err := d.List(t.Context(), "main", driver.Position{}, 0)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "move it away")
	require.NoError(t, os.Remove(path))
	require.Len(t, list(t, d), 1)
}

// A transcript that is being copied into the folder while a list looks at it is listed
// once it is whole.
func TestCopiedWhileListed(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	path := d.Path(create(t, d, "a", "k").Ref())
	create(t, d, "b", "other key")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	require.Len(t, list(t, d), 1)
	for _, part := range [][]byte{nil, text[:10]} {
		require.NoError(t, os.WriteFile(path, part, 0o600))
		require.Len(t, list(t, d), 1)
	}
	require.NoError(t, os.WriteFile(path, text, 0o600))
	require.Len(t, list(t, d), 2)
}
