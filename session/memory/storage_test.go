package memory_test

import (
	"testing"

	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/memory/memorytest"
)

func TestFolder(t *testing.T) {
	memorytest.TestStorage(t, func(t *testing.T) func() memory.Storage {
		dir := t.TempDir()
		return func() memory.Storage { return memory.Folder(dir) }
	})
}
