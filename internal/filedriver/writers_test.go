package filedriver_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

// After a writer was killed each process compares all transcripts with their rows once,
// and the next writer adds the rows that the dead one owed.
func TestDeadWriter(t *testing.T) {
	dir := t.TempDir()
	var asked []string
	d := open(t, dir, described(new([]string)))
	ref := create(t, d, "a", "k").Ref()
	create(t, d, "b", "other key")
	require.NoError(t, d.Close())
	reader := described(&asked)
	reader.ReadOnly = true
	ro := open(t, dir, reader)
	page := func() {
		t.Helper()
		_, err := ro.List(t.Context(), "main", driver.Position{ID: "!"}, 1) // an empty page
		require.NoError(t, err)
	}
	page()
	require.Empty(t, asked)
	open := fmt.Sprintf(`{"open":%d}`, deadWriter)
	addLine(t, dir, open)
	appendRaw(t, d.Path(ref), note("1").Data)
	page()
	require.Equal(t, []string{"a from 0"}, asked)
	page()
	require.Equal(t, []string{"a from 0"}, asked)
	require.NoError(t, ro.Close())

	d, err := filedriver.Open(dir, described(&asked))
	require.NoError(t, err)
	text := indexText(t, dir)
	create(t, d, "c", "other key")
	require.Contains(t, indexText(t, dir)[len(text):], `"row":{"id":"a"`)
	require.Contains(t, indexText(t, dir)[len(text):], fmt.Sprintf(`{"closed":%d}`, deadWriter))
	require.NoError(t, d.Close())
	asked = nil
	d, err = filedriver.Open(dir, described(&asked))
	require.NoError(t, err)
	require.Len(t, list(t, d), 3)
	require.Empty(t, asked)
}

// Other processes need not compare all transcripts while a writer lives, or after it has
// closed: then it has added the rows of its sessions.
func TestWriterThatCloses(t *testing.T) {
	dir := t.TempDir()
	var asked []string
	d := open(t, dir, described(new([]string)))
	ref := create(t, d, "a", "k").Ref()
	add(t, d, ref, "1")
	require.Contains(t, indexText(t, dir), `{"open":`)
	other := open(t, dir, described(&asked))
	page := func() {
		t.Helper()
		_, err := other.List(t.Context(), "main", driver.Position{ID: "!"}, 1)
		require.NoError(t, err)
	}
	page()
	require.Empty(t, asked)
	text := indexText(t, dir)
	require.NoError(t, d.Close())
	text = indexText(t, dir)[len(text):]
	require.Contains(t, text, `"row":{"id":"a"`)
	require.Contains(t, text, `{"closed":`)
	page()
	require.Empty(t, asked)
	require.NoError(t, other.Close())

	before := indexText(t, dir)
	d = open(t, dir, nil)
	list(t, d)
	require.NoError(t, d.Close())
	require.Equal(t, before, indexText(t, dir), "a process without an append is no writer")
}

// A writer that finds an index without its name, because the one before was lost, adds it
// again before its next append: others notice if it is killed.
func TestWriterOfALostIndex(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	add(t, d, ref, "1")
	require.NoError(t, os.Remove(filepath.Join(dir, "agents/main/sessions.jsonl")))
	other := open(t, dir, nil)
	create(t, other, "b", "other key")
	require.Zero(t, strings.Count(indexText(t, dir), `{"open":`))
	require.Len(t, list(t, d), 2)
	add(t, d, ref, "2")
	require.Equal(t, 1, strings.Count(indexText(t, dir), `{"open":`))
	add(t, d, ref, "3")
	require.Equal(t, 1, strings.Count(indexText(t, dir), `{"open":`))
	require.NoError(t, d.Close())
	require.Equal(t, 1, strings.Count(indexText(t, dir), `{"closed":`))
}

// A writer that could not write its last rows stays listed in the index, so that others
// find it dead.
func TestWriterThatCannotClose(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, described(new([]string)))
	ref := create(t, d, "a", "k").Ref()
	add(t, d, ref, "1")
	root, err := os.OpenRoot(filepath.Join(dir, "agents/main"))
	require.NoError(t, err)
	stopped, err := filelog.OpenLockFile(root, "sessions.lock")
	require.NoError(t, err)
	require.NoError(t, stopped.Lock(t.Context(), 0))
	require.NoError(t, d.Close())
	require.NotContains(t, indexText(t, dir), `{"closed":`)
	require.NoError(t, stopped.Close())
	require.NoError(t, root.Close())

	d = open(t, dir, described(new([]string)))
	require.Equal(t, 1, list(t, d)[0].Messages)
	create(t, d, "b", "k")
	require.Contains(t, indexText(t, dir), `{"closed":`)
}

// A folder in the place of a transcript keeps no process from finding a dead writer.
func TestDeadWriterOfNoTranscript(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	require.NoError(t, d.Close())
	require.NoError(t, os.Remove(d.Path(ref)))
	require.NoError(t, os.Mkdir(d.Path(ref), 0o700))
	addLine(t, dir, fmt.Sprintf(`{"open":%d}`, deadWriter))
	d = open(t, dir, nil)
	create(t, d, "b", "other key")
	require.Contains(t, indexText(t, dir), fmt.Sprintf(`{"closed":%d}`, deadWriter))
}

// The writers of another boot are dead.
func TestWriterAfterABoot(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	require.NoError(t, d.Close())
	_, rest, _ := strings.Cut(indexText(t, dir), "\n")
	text := `{"index":3,"boot":"another","agent":"main"}` + "\n" + rest + fmt.Sprintf(`{"open":%d}`, deadWriter) + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/main/sessions.jsonl"), []byte(text), 0o600))
	d = open(t, dir, nil)
	add(t, d, row.Ref(), "1")
	require.NoError(t, d.Put(t.Context(), row))
	require.NotContains(t, indexText(t, dir), "another")
	require.NotContains(t, indexText(t, dir), fmt.Sprint(deadWriter))
	require.Equal(t, 1, strings.Count(indexText(t, dir), `{"open":`))
}

// A transcript without a header is named once, however often processes append to it.
func TestWritersOfAnUnknownTranscript(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	bad := driver.Ref{Agent: "main", ID: "bad"}
	require.NoError(t, os.WriteFile(d.Path(bad), append(note("x").Data, '\n'), 0o600))
	for i := range 3 {
		add(t, d, bad, fmt.Sprint(i))
		require.NoError(t, d.Close())
		require.Equal(t, 1, strings.Count(indexText(t, dir), `{"unknown":"bad"}`))
		d = open(t, dir, nil)
		list(t, d)
	}
}

// A store that is read-only notices the death of a writer that lived when it was opened.
func TestDeathBesideAReader(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	require.NoError(t, d.Close())
	root, err := os.OpenRoot(filepath.Join(dir, "agents/main"))
	require.NoError(t, err)
	writer, err := filelog.OpenLockFile(root, "sessions.lock")
	require.NoError(t, err)
	require.NoError(t, writer.Lock(t.Context(), deadWriter))
	addLine(t, dir, fmt.Sprintf(`{"open":%d}`, deadWriter))
	var asked []string
	opts := described(&asked)
	opts.ReadOnly = true
	ro := open(t, dir, opts)
	page := func() {
		t.Helper()
		_, err := ro.List(t.Context(), "main", driver.Position{ID: "!"}, 1) // an empty page
		require.NoError(t, err)
	}
	page()
	require.Empty(t, asked)
	appendRaw(t, d.Path(ref), note("1").Data)
	require.NoError(t, writer.Close())
	page()
	require.Equal(t, []string{"a from 0"}, asked)
	require.ErrorIs(t, ro.Put(t.Context(), driver.Row{ID: "a", Agent: "main"}), driver.ErrReadOnly)
	require.NoError(t, ro.Close())
	require.NoError(t, root.Close())
}
