package dialect_test

import (
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript/dialect"
)

// No program gets half a character, and the losses count the lines with one.
func TestWriteHalfCharacters(t *testing.T) {
	folder, err := dialect.ReadFolder(os.DirFS(filepath.Join("testdata", "reports")))
	require.NoError(t, err)
	var half iter.Seq[dialect.Session] = func(yield func(dialect.Session) bool) {
		for s := range folder.Sessions() {
			if s.Path == "half-characters-in-a-call.jsonl" {
				yield(s)
				return
			}
		}
	}
	for _, d := range writable {
		files, losses := write(t, d, half, entriesOf)
		require.Positive(t, losses["half-surrogate"], d)
		for name, file := range files {
			require.Negative(t, jsontext.HalfSurrogate(file.Data), "%s: %s", name, file.Data)
		}
	}
}
