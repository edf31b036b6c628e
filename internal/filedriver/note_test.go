package filedriver_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/session/driver"
)

// A note that cannot be removed is an error, and one that is not there is none. A
// store that is only read stays as it is.
func TestNotes(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	require.NoError(t, d.Note(t.Context(), "a", nil))
	inside := filepath.Join(dir, "a.jsonl", "inside")
	require.NoError(t, os.MkdirAll(inside, 0o700))
	require.ErrorContains(t, d.Note(t.Context(), "a", nil), "remove it by hand")
	require.NoError(t, d.Note(t.Context(), "b", []byte("words\n")))
	notes, err := d.Notes(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"b": []byte("words\n")}, notes)
	require.NoError(t, os.RemoveAll(filepath.Dir(inside)))
	require.NoError(t, d.Note(t.Context(), "b", nil))
	require.NoError(t, d.Close())
	temp := filepath.Join(dir, "c.jsonl.tmp-0123456789abcdef") // of a killed process
	require.NoError(t, os.WriteFile(temp, []byte("words\n"), 0o600))
	d = open(t, dir, &filedriver.Options{ReadOnly: true})
	require.ErrorIs(t, d.Note(t.Context(), "b", []byte("more\n")), driver.ErrReadOnly)
	notes, err = d.Notes(t.Context())
	require.NoError(t, err)
	require.Empty(t, notes)
	require.FileExists(t, temp)
	require.NoError(t, d.Close())
	d = open(t, dir, nil)
	_, err = d.Notes(t.Context())
	require.NoError(t, err)
	require.NoFileExists(t, temp)
	require.NoError(t, d.Close())
	require.ErrorIs(t, d.Note(t.Context(), "b", nil), driver.ErrClosed)
	_, err = d.Notes(t.Context())
	require.ErrorIs(t, err, driver.ErrClosed)
}

// At the end of an erase nothing of killed processes is left of any agent, whether or
// not the erase has changed one of its sessions.
func TestNoteLeavesNoWord(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "stays", "k")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/other"), nil, 0o600))
	half(t, dir)
	require.NoError(t, d.Note(t.Context(), "erase-1", []byte("{}")))
	require.NotEmpty(t, wordsIn(t, dir))

	inTheWay := d.Path(driver.Ref{Agent: "main", ID: "x"}) + ".tmp-0123456789abcdef"
	require.NoError(t, os.Mkdir(inTheWay, 0o700))
	require.ErrorContains(t, d.Note(t.Context(), "erase-1", nil), "not a regular file")
	notes, err := d.Notes(t.Context())
	require.NoError(t, err)
	require.Contains(t, notes, "erase-1", "the erase has not ended")
	require.NoError(t, os.Remove(inTheWay))
	require.NoError(t, d.Note(t.Context(), "erase-1", nil))
	require.Empty(t, wordsIn(t, dir))
	require.NoError(t, d.Close())
}
