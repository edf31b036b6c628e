//go:build unix

package script_test

import (
	"encoding/json"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/examples/internal/script"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// A tool neither waits for a pipe nor reads all of a large file.
func TestPipesAndLargeFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, syscall.Mkfifo("a.pipe", 0o600))
	require.NoError(t, os.WriteFile("a.txt", nil, 0o600))
	require.NoError(t, os.Truncate("a.txt", 1<<40)) // sparse
	read := func(path string) (transcript.Message, error) {
		call := transcript.ToolCallBlock{ID: "1", Name: "read_file", Input: json.RawMessage(`{"path":"` + path + `"}`)}
		return script.Run(t.Context(), rebuild.PendingCall{Call: call})
	}
	_, err := read("a.pipe")
	require.ErrorContains(t, err, "not a regular file")
	got, err := read("a.txt")
	require.NoError(t, err)
	require.Len(t, got.Content, 1)
}
