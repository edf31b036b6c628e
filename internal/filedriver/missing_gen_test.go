package filedriver_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/session/driver"
)

// A new session gets a higher gen than one whose file is missing and then comes back.
func TestCreateBesideAMissingSession(t *testing.T) {
	dir := t.TempDir()
	d, err := filedriver.Open(dir, nil)
	require.NoError(t, err)
	key := driver.KeyRef{Agent: "main", Key: "k"}
	x, err := d.Create(t.Context(), key, newSession("x"))
	require.NoError(t, err)
	a, err := d.Create(t.Context(), key, newSession("a"))
	require.NoError(t, err)
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, x.Ref()))
	path := filepath.Join(dir, "agents/main/sessions/a.jsonl")
	require.NoError(t, os.Rename(path, path+".away"))
	_, err = d.Load(t.Context(), key, newSession("l"))
	require.Error(t, err)
	b, err := d.Create(t.Context(), key, newSession("b"))
	require.NoError(t, err)
	require.NoError(t, os.Rename(path+".away", path))
	got, err := d.Load(t.Context(), key, newSession("l"))
	require.NoError(t, err)
	require.Equal(t, "b", got.ID)
	require.Greater(t, b.Gen, a.Gen)
}

// A session that is made current stays it when a missing session of the key comes back.
func TestMakeCurrentBesideAMissingSession(t *testing.T) {
	dir := t.TempDir()
	d, err := filedriver.Open(dir, nil)
	require.NoError(t, err)
	key := driver.KeyRef{Agent: "main", Key: "k"}
	x, err := d.Create(t.Context(), key, newSession("x"))
	require.NoError(t, err)
	_, err = d.Create(t.Context(), key, newSession("y"))
	require.NoError(t, err)
	a, err := d.Create(t.Context(), key, newSession("a"))
	require.NoError(t, err)
	path := filepath.Join(dir, "agents/main/sessions/a.jsonl")
	require.NoError(t, os.Rename(path, path+".away"))
	_, err = d.Load(t.Context(), key, newSession("l"))
	require.NoError(t, err)
	row, err := d.SetCurrent(t.Context(), x.Ref(), 0, func(int64) driver.Line { return note("n") })
	require.NoError(t, err)
	require.NoError(t, os.Rename(path+".away", path))
	got, err := d.Load(t.Context(), key, newSession("l"))
	require.NoError(t, err)
	require.Equal(t, "x", got.ID)
	require.Greater(t, row.Gen, a.Gen)
}
