package filedriver_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/filedriver"
)

// What a dead process has left of a file it was making goes when it is old.
func TestTempFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	openStore := func() *filedriver.Driver {
		d, err := filedriver.Open(dir, nil)
		require.NoError(t, err)
		return d
	}
	d := openStore()
	if _, err := d.Create(context.Background(), "main", "k", func(gen int64) (driver.Row, driver.Line) {
		return driver.Row{ID: "a"}, driver.Line{ID: "a", Type: "session", Data: []byte(`{"type":"session","id":"a","v":1,"key":"k","gen":1}`)}
	}); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, d.Close())
	agent := filepath.Join(dir, "agents", "main")
	files := map[string]bool{ // name -> whether it is to go
		filepath.Join(agent, ".tmp-0123456789abcdef"):             true,
		filepath.Join(agent, "sessions", ".tmp-0123456789abcdef"): true,
		filepath.Join(agent, ".tmp-fedcba9876543210"):             false, // young
		filepath.Join(agent, "sessions", ".tmp-fedcba9876543210"): false,
		filepath.Join(agent, "sessions", ".tmp-other"):            false,
		filepath.Join(agent, "sessions", "notes.txt"):             false,
	}
	for name := range files {
		require.NoError(t, os.WriteFile(name, []byte("half"), 0o600))
		if filepath.Base(name) != ".tmp-fedcba9876543210" {
			old := time.Now().Add(-2 * time.Hour)
			require.NoError(t, os.Chtimes(name, old, old))
		}
	}
	d = openStore()
	if rows, err := d.List(context.Background(), "main", driver.Place{}, 0); err != nil || len(rows) != 1 {
		t.Errorf("%v, %v", rows, err)
	}
	require.NoError(t, d.Close())
	for name, gone := range files {
		if _, err := os.Lstat(name); os.IsNotExist(err) != gone {
			t.Errorf("%s: %v", name, err)
		}
	}
}
