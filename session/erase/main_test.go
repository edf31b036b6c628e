package erase_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// plans returns the files of plans in a folder.
func plans(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "agents", "_erase", "sessions", "*.jsonl"))
	require.NoError(t, err)
	return files
}

// hasPlan reports whether a folder has a whole plan, so that something may be erased.
func hasPlan(t *testing.T, dir string) bool {
	t.Helper()
	for _, file := range plans(t, dir) {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(data), `"entries"`) && strings.HasSuffix(string(data), "}\n") {
			return true
		}
	}
	return false
}
