package filedriver_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

func newSession(id string) func(int64) (driver.Row, driver.Line) {
	return func(int64) (driver.Row, driver.Line) {
		return driver.Row{ID: id}, driver.Line{ID: id, Data: []byte(`{"type":"session","id":"` + id + `","v":1,"key":"k"}`)}
	}
}

func openDir(t *testing.T, dir string) *filedriver.Driver {
	t.Helper()
	d, err := filedriver.Open(dir, &filedriver.Options{Sync: filelog.SyncNever})
	require.NoError(t, err)
	return d
}

// Stores that are opened, written and closed at the same time merge the index
// under each other's eyes; nobody is told.
func TestMergesOfOthers(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir)
	_, err := d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, newSession("a"))
	require.NoError(t, err)
	require.NoError(t, d.Close())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				d, err := filedriver.Open(dir, &filedriver.Options{Sync: filelog.SyncNever})
				if err != nil {
					t.Error(err)
					return
				}
				row, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, nil)
				if err == nil {
					err = d.Put(t.Context(), row)
				}
				if err := errors.Join(err, d.Close()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A transcript that is moved away while a store is open is gone from its key.
func TestMovedAway(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir)
	defer func() { _ = d.Close() }()
	row, err := d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, newSession("a"))
	require.NoError(t, err)
	path := filepath.Join(dir, "agents/main/sessions/a.jsonl")
	require.NoError(t, os.Rename(path, path+".away"))
	_, err = settle(t.Context(), d, row.Ref())
	require.ErrorIs(t, err, fs.ErrNotExist)
	got, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, newSession("b"))
	require.NoError(t, err)
	require.Equal(t, "b", got.ID)
}
