package erase_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/transcript"
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
		if end := strings.LastIndex(string(data), "\n"); end < len(data)-1 { // a line that is being written
			data = data[:end+1]
		}
		for b, err := range transcript.Batches(transcript.Scan(bytes.NewReader(data), int64(len(data)), nil)) {
			require.NoError(t, err)
			if b.Complete && b.Entries[0].Type() == "custom" {
				return true
			}
		}
	}
	return false
}
