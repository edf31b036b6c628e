//go:build unix

package filedriver_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/session/driver"
)

// Other users can neither read the sessions nor put anything in their place,
// whatever the folders were before.
func TestOthersAreKeptOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chmod(dir, 0o777))
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	require.NoError(t, d.Close())
	folders := []string{"agents", "agents/main", "agents/main/sessions"}
	for _, folder := range folders {
		require.NoError(t, os.Chmod(filepath.Join(dir, folder), 0o775))
	}
	// A store that is opened read-only is left as it is.
	d = open(t, dir, &filedriver.Options{ReadOnly: true})
	_, err := d.List(t.Context(), "main", driver.Position{}, 0)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	require.EqualValues(t, 0o775, modeOf(t, dir, "agents/main"))
	d = open(t, dir, nil)
	create(t, d, "b", "k")
	require.NoError(t, d.Close())
	want := map[string]os.FileMode{".": 0o755}
	for _, folder := range folders {
		want[folder] = 0o700
	}
	for _, file := range []string{"sessions.jsonl", "sessions.lock", "sessions/a.jsonl", "sessions/b.jsonl"} {
		want[filepath.Join("agents/main", file)] = 0o600
	}
	for name, want := range want {
		if mode := modeOf(t, dir, name); mode != want {
			t.Errorf("%s has mode %o, want %o", name, mode, want)
		}
	}
}

// A folder with the sticky bit is shared on purpose, and safe.
func TestStickyFolderIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	require.NoError(t, d.Close())
	require.EqualValues(t, 0o777, modeOf(t, dir, "."))
	require.EqualValues(t, 0o700, modeOf(t, dir, "agents"))
}

// A transcript with a second name, for example in a backup made of links, is
// not refused.
func TestHardLinkedTranscript(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	require.NoError(t, os.Link(d.Path(row.Ref()), filepath.Join(dir, "backup")))
	_, err := d.Append(t.Context(), row.Ref(), notes(1), driver.Anywhere, nil)
	require.NoError(t, err)
}

func modeOf(t *testing.T, dir, name string) os.FileMode {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, name))
	require.NoError(t, err)
	return info.Mode().Perm()
}
