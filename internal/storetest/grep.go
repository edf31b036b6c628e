package storetest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Secret is a token that a redactor finds.
const Secret = "ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"

// Grep returns the files below a folder that contain a word.
func Grep(t testing.TB, dir, word string) (found []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if strings.Contains(string(data), word) {
			found = append(found, name)
		}
		return err
	}))
	return found
}
