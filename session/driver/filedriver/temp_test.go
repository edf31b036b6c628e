package filedriver_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/filedriver"
)

// What a dead process has left of a file it was making goes when it is old.
func TestTempFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	openStore := func() *filedriver.Driver {
		d, err := filedriver.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := openStore()
	if _, err := d.Create(context.Background(), "main", "k", func(gen int64) (driver.Row, driver.Line) {
		return driver.Row{ID: "a"}, driver.Line{ID: "a", Type: "session", Data: []byte(`{"type":"session","id":"a","v":1,"key":"k","gen":1}`)}
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
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
		if err := os.WriteFile(name, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if filepath.Base(name) != ".tmp-fedcba9876543210" {
			old := time.Now().Add(-2 * time.Hour)
			if err := os.Chtimes(name, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	d = openStore()
	if rows, err := d.List(context.Background(), "main", driver.Place{}, 0); err != nil || len(rows) != 1 {
		t.Errorf("%v, %v", rows, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for name, gone := range files {
		if _, err := os.Lstat(name); os.IsNotExist(err) != gone {
			t.Errorf("%s: %v", name, err)
		}
	}
}
