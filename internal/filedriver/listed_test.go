package filedriver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

// Sessions whose transcripts are there are listed, and Load finds them, however old or
// new the index and the folder look.
func TestNamesAreCompared(t *testing.T) {
	const index, folder = "agents/main/sessions.jsonl", "agents/main/sessions"
	read := func(t *testing.T, name string) []byte {
		t.Helper()
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		return data
	}
	write := func(t *testing.T, name string, data []byte) {
		t.Helper()
		require.NoError(t, os.WriteFile(name, data, 0o600))
	}
	// gone removes the transcript of b by hand, and lets a writer notice it.
	gone := func(t *testing.T, d *filedriver.Driver) (restore func()) {
		t.Helper()
		name := d.Path(driver.Ref{Agent: "main", ID: "b"})
		data := read(t, name)
		require.NoError(t, os.Remove(name))
		create(t, d, "c", "other key")
		require.Len(t, list(t, d), 2)
		require.NoError(t, d.Delete(t.Context(), driver.Anywhere, driver.Ref{Agent: "main", ID: "c"}))
		return func() { write(t, name, data) }
	}
	for what, change := range map[string]func(t *testing.T, dir string) string{
		"transcripts come back with their times": func(t *testing.T, dir string) string {
			info, err := os.Stat(filepath.Join(dir, folder))
			require.NoError(t, err)
			d := open(t, dir, nil)
			gone(t, d)()
			require.NoError(t, os.Chtimes(filepath.Join(dir, folder), time.Time{}, info.ModTime()))
			require.NoError(t, d.Close())
			return dir
		},
		"transcripts come back, and the clock was fast": func(t *testing.T, dir string) string {
			d := open(t, dir, nil)
			restore := gone(t, d)
			later := time.Now().Add(time.Hour)
			require.NoError(t, os.Chtimes(filepath.Join(dir, index), time.Time{}, later))
			restore()
			require.NoError(t, d.Close())
			return dir
		},
		"an older index comes back": func(t *testing.T, dir string) string {
			old, _, _ := strings.Cut(indexText(t, dir), `{"change":"b"}`)
			write(t, filepath.Join(dir, "old"), []byte(old))
			require.NoError(t, os.Rename(filepath.Join(dir, "old"), filepath.Join(dir, index)))
			return dir
		},
		"the disk was away and has lost the rows": func(t *testing.T, dir string) string {
			info, err := os.Stat(filepath.Join(dir, index))
			require.NoError(t, err)
			old, _, _ := strings.Cut(indexText(t, dir), `{"change":"b"}`)
			write(t, filepath.Join(dir, index), []byte(old))
			require.NoError(t, os.Chtimes(filepath.Join(dir, index), time.Time{}, info.ModTime()))
			return dir
		},
		"the store was copied while in use": func(t *testing.T, dir string) string {
			info, err := os.Stat(filepath.Join(dir, folder))
			require.NoError(t, err)
			other := t.TempDir()
			d := open(t, dir, nil)
			require.NoError(t, d.Delete(t.Context(), driver.Anywhere, driver.Ref{Agent: "main", ID: "b"}))
			copied := []byte(indexText(t, dir))
			create(t, d, "b", "k2")
			require.NoError(t, d.Close())
			require.NoError(t, os.CopyFS(other, os.DirFS(dir)))
			write(t, filepath.Join(other, index), copied)
			require.NoError(t, os.Chtimes(filepath.Join(other, folder), time.Time{}, info.ModTime()))
			return other
		},
		"in the tick of the clock": func(t *testing.T, dir string) string {
			d := open(t, dir, nil)
			restore := gone(t, d)
			restore()
			require.NoError(t, d.Close())
			return dir
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := open(t, dir, nil)
			create(t, d, "a", "k")
			create(t, d, "b", "k2")
			require.NoError(t, d.Close())
			expectBoth(t, change(t, dir))
		})
	}
}

// expectBoth expects the sessions a and b in a store, and that Load makes no other one.
func expectBoth(t *testing.T, dir string) {
	t.Helper()
	for _, readOnly := range []bool{true, false} {
		d := open(t, dir, &filedriver.Options{ReadOnly: readOnly})
		require.Equal(t, []string{"a", "b"}, ids(list(t, d)))
		require.Equal(t, "b", load(t, d, "k2", "new"))
		require.NoError(t, d.Close())
	}
}

// An index that is cut anywhere hides no session.
func TestIndexThatIsCut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	create(t, d, "b", "k2")
	require.NoError(t, d.Close())
	text := indexText(t, dir)
	info, err := os.Stat(filepath.Join(dir, "agents/main/sessions.jsonl"))
	require.NoError(t, err)
	for n := range text {
		if *faults == "short" && n%3 > 0 && text[n-1] != '\n' {
			continue
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/main/sessions.jsonl"), []byte(text[:n]), 0o600))
		require.NoError(t, os.Chtimes(filepath.Join(dir, "agents/main/sessions.jsonl"), time.Time{}, info.ModTime()))
		expectBoth(t, dir)
	}
}

// Before Load makes a session it looks at names that the index lacks, even if the times
// of the folder are the same.
func TestLoadLooksAtNames(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	a := create(t, d, "a", "k")
	create(t, d, "b", "k2")
	data, err := os.ReadFile(d.Path(driver.Ref{Agent: "main", ID: "b"}))
	require.NoError(t, err)
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, driver.Ref{Agent: "main", ID: "b"}))
	require.NoError(t, d.Close())
	b := d.Path(driver.Ref{Agent: "main", ID: "b"})
	require.NoError(t, os.WriteFile(b, data, 0o600))
	text := indexText(t, dir)
	d = open(t, dir, nil)
	require.Len(t, list(t, d), 2)
	require.NoError(t, d.Put(t.Context(), a))
	listed := text[strings.LastIndex(text, `{"listed":`):]
	listed, _, _ = strings.Cut(listed, "\n")
	now := indexText(t, dir)
	now = now[strings.LastIndex(now, `{"listed":`):]
	now, _, _ = strings.Cut(now, "\n")
	require.NotEqual(t, listed, now)
	require.NoError(t, d.Close())
	// The same times, but no row of b.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/main/sessions.jsonl"), []byte(strings.Replace(text, listed, now, 1)), 0o600))
	d = open(t, dir, nil)
	require.Len(t, list(t, d), 1)
	require.Equal(t, "b", load(t, d, "k2", "new"))
	require.Len(t, list(t, d), 2)
}

// A change of the folders by a writer makes no process compare the names.
func TestOwnChangesAreListed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir, &filedriver.Options{Sync: filelog.SyncNever})
	a := create(t, d, "a", "a key")
	listed := func(what string) {
		t.Helper()
		other := open(t, dir, &filedriver.Options{Sync: filelog.SyncNever})
		before := indexText(t, dir)
		require.NoError(t, other.Put(t.Context(), a))
		require.NotContains(t, indexText(t, dir)[len(before):], "listed", what)
		require.NoError(t, other.Close())
	}
	listed("after a session was made")
	b := create(t, d, "b", "another key")
	listed("after another one was made")
	require.NoError(t, d.Archive(t.Context(), b.Ref(), driver.Anywhere))
	listed("after one was archived")
	require.NoError(t, d.Restore(t.Context(), b.Ref()))
	listed("after it was restored")
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, b.Ref()))
	listed("after one was deleted")
}

// A transcript put back while this process deletes, archives or restores another
// session is listed, and Load makes no second session.
func TestPutBackDuringAChange(t *testing.T) {
	ref := driver.Ref{Agent: "main", ID: "a"}
	deleted := func(t *testing.T, d *filedriver.Driver) error { return d.Delete(t.Context(), driver.Anywhere, ref) }
	archived := func(t *testing.T, d *filedriver.Driver) error { return d.Archive(t.Context(), ref, driver.Anywhere) }
	restored := func(t *testing.T, d *filedriver.Driver) error { return d.Restore(t.Context(), ref) }
	for step, change := range map[string]func(t *testing.T, d *filedriver.Driver) error{
		"delete: remove": deleted, "archive: rename": archived, "restore: written": restored,
	} {
		t.Run(step, func(t *testing.T) {
			d := open(t, t.TempDir(), nil)
			create(t, d, ref.ID, "k")
			back := d.Path(create(t, d, "back", "other key").Ref())
			if step == "restore: written" {
				require.NoError(t, archived(t, d))
			}
			data, err := os.ReadFile(back)
			require.NoError(t, err)
			require.NoError(t, os.Remove(back))
			require.Len(t, list(t, d), 1)
			d.SetStep(func(name string) {
				if name == step {
					require.NoError(t, os.WriteFile(back, data, 0o600))
				}
			})
			require.NoError(t, change(t, d))
			require.FileExists(t, back)
			require.Equal(t, "back", load(t, d, "other key", "second"))
		})
	}
}
