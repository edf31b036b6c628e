package storetest

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
)

// Word is a word in the text of a person. After an erase no file may contain it.
const Word = "Quetzalcoatlus"

// HasWord reports whether an entry contains [Word].
func HasWord(e transcript.Entry) bool { return bytes.Contains(e.Line(), []byte(Word)) }

// FilesWith returns the files below a folder whose content or path contains [Word].
func FilesWith(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && strings.HasSuffix(path, ".gz") {
			if bytes.Contains(data, []byte(Word)) { // in the row in the gzip header
				files = append(files, path)
			}
			z, err := gzip.NewReader(bytes.NewReader(data))
			require.NoError(t, err)
			data, err = io.ReadAll(z)
			require.NoError(t, err)
		}
		if err == nil && bytes.Contains(data, []byte(Word)) || strings.Contains(path, Word) {
			files = append(files, path)
		}
		return err
	})
	require.NoError(t, err)
	return files
}
