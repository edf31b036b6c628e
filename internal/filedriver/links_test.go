package filedriver_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/session/driver"
)

// A symbolic link in the place of any file or folder that the driver opens is refused,
// even if its target is in the store. The error names the link; the target stays as it is.
func TestPlantedLinks(t *testing.T) {
	for _, place := range []string{
		"agents", "agents/main", "agents/main/sessions", "agents/main/sessions.jsonl", "agents/main/sessions.lock",
		"agents/main/sessions/live.jsonl", "agents/main/archive", "agents/main/blobs",
	} {
		t.Run(place, func(t *testing.T) {
			dir := t.TempDir()
			d := open(t, dir, nil)
			live, packed := create(t, d, "live", "k").Ref(), create(t, d, "packed", "l").Ref()
			require.NoError(t, d.Archive(t.Context(), packed, driver.Anywhere))
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "agents/main/blobs/live"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/main/blobs/live/x"), nil, 0o600))
			require.NoError(t, d.Close())
			link, moved := filepath.Join(dir, place), filepath.Join(dir, place+".moved")
			require.NoError(t, os.Rename(link, moved))
			require.NoError(t, os.Symlink(filepath.Base(moved), link))
			before := tree(t, moved)

			d, err := filedriver.Open(dir, nil)
			errs := []error{err}
			if err == nil {
				_, list := d.List(t.Context(), "main", driver.Position{}, 0)
				_, appended := d.Append(t.Context(), live, notes(1), driver.Anywhere, nil)
				errs = append(errs, list, appended, d.Restore(t.Context(), packed), d.Archive(t.Context(), live, driver.Anywhere), d.Delete(t.Context(), driver.Anywhere, live), d.Close())
			}
			named := false
			for _, err := range errs {
				named = named || err != nil && strings.Contains(err.Error(), link)
			}
			require.True(t, named, "no error names the link: %v", errs)
			require.Equal(t, before, tree(t, moved))
		})
	}
}

// tree returns the contents of the files at and below a path.
func tree(t *testing.T, path string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		files[name] = string(data)
		return err
	}))
	return files
}
