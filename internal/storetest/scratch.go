package storetest

import (
	"os"
	"testing"
)

// Scratch returns an empty folder, in memory if possible.
func Scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(inMemory(), "convolog") //nolint:usetesting // t.TempDir may be on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
