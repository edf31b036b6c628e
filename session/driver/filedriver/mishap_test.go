package filedriver_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/filedriver"
	"github.com/convolog/convolog/transcript/filelog"
)

// An index that is rewritten while a deletion is under way keeps the mark by
// which Open finds the deletion.
func TestRewriteKeepsTheMarkOfADeletion(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "stays", "k")
	ref := wordy(t, d, "gone")
	// A folder with something in it cannot be removed as a transcript is.
	require.NoError(t, os.Rename(d.Path(ref), d.Path(ref)+".moved"))
	require.NoError(t, os.MkdirAll(filepath.Join(d.Path(ref), "full"), 0o700))
	require.Error(t, d.Delete(t.Context(), ref))
	addLine(t, dir, "damage") // a reason to rewrite the index
	_, err := d.Create(t.Context(), "main", "k", header("x", "k"))
	require.Error(t, err)
	require.Contains(t, indexText(t, dir), `{"delete":"gone"}`)
	info, err := os.Stat(filepath.Join(dir, "agents/main/sessions.jsonl"))
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&fs.ModeSticky)
	require.NoError(t, d.Close())

	require.NoError(t, os.RemoveAll(d.Path(ref)))
	require.NoError(t, os.Rename(d.Path(ref)+".moved", d.Path(ref)))
	require.NoError(t, open(t, dir, nil).Close())
	require.Empty(t, wordsIn(t, dir))
}

// A kill inside Create leaves a temporary file with what the header says. The
// next writer removes it.
func TestKilledCreateLeavesNoWord(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "stays", "k")
	require.NoError(t, d.Close())
	addLine(t, dir, fmt.Sprintf(`{"by":%d,"busy":"half"}`, deadWriter))
	temp := d.Path(driver.Ref{Agent: "main", ID: "half"}) + ".tmp-0123456789abcdef"
	require.NoError(t, os.WriteFile(temp, []byte(strings.Join(words, " ")), 0o600))
	d = open(t, dir, nil)
	create(t, d, "next", "k")
	require.Empty(t, wordsIn(t, dir))
	require.NoError(t, d.Close())
}

// A row that begins well and is damaged behind does not hide its session.
func TestDamagedRow(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	ref := wordy(t, d, "b")
	require.NoError(t, d.Close())
	path := filepath.Join(dir, "agents/main/sessions.jsonl")
	text := strings.ReplaceAll(indexText(t, dir), `"owner":"`, `"owner:"`)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	for _, opts := range []*filedriver.Options{{ReadOnly: true}, {}} {
		d = open(t, dir, opts)
		require.Len(t, list(t, d), 2)
		row, err := d.Current(t.Context(), "main", words[3])
		require.NoError(t, err)
		require.Equal(t, ref.ID, row.ID)
		require.NoError(t, d.Close())
	}
}

// A process that was busy with a session which was deleted and made again under
// the same ID says that it is busy with the new one.
func TestBusyWithASessionMadeAgain(t *testing.T) {
	dir := t.TempDir()
	d, other := open(t, dir, nil), open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	add(t, other, ref, "1")
	require.NoError(t, d.Delete(t.Context(), ref))
	_, err := other.Append(t.Context(), ref, []driver.Line{note("no")}, driver.Cond{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	create(t, d, "a", "k")
	before := indexText(t, dir)
	for range 2 {
		if _, err = other.Append(t.Context(), ref, []driver.Line{note("2")}, driver.Cond{}); err == nil {
			break
		}
		require.ErrorIs(t, err, driver.ErrReplaced)
	}
	require.NoError(t, err)
	require.Contains(t, indexText(t, dir)[len(before):], `"busy":"a"`)
	require.NoError(t, other.Close())
	require.NoError(t, d.Close())
}

// A process that is stopped inside Delete keeps nobody from opening the store.
func TestOpenBesideAStoppedDelete(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	wordy(t, d, "gone")
	require.NoError(t, d.Close())
	require.NoError(t, os.Chmod(filepath.Join(dir, "agents/main/sessions.jsonl"), 0o600|fs.ModeSticky))
	addLine(t, dir, `{"delete":"gone"}`)
	root, err := os.OpenRoot(filepath.Join(dir, "agents/main"))
	require.NoError(t, err)
	stopped, err := filelog.OpenLockFile(root, "sessions.lock")
	require.NoError(t, err)
	require.NoError(t, stopped.Lock(t.Context(), 0))
	opened := make(chan error, 1)
	go func() {
		d, err := filedriver.Open(dir, nil)
		if err == nil {
			err = d.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		require.NoError(t, err)
	case <-hang(t, 10*time.Second).Done():
		t.Error("Open waits for a process that was stopped")
	}
	require.NoError(t, stopped.Close())
	require.NoError(t, root.Close())
	require.NoError(t, open(t, dir, nil).Close())
	require.Empty(t, wordsIn(t, dir))
}
