package script_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/examples/internal/script"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// The tools see nothing outside of their folder.
func TestToolsAreConfined(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("s"), 0o600))
	work := filepath.Join(dir, "work")
	require.NoError(t, os.Mkdir(work, 0o700))
	require.NoError(t, os.Symlink("../secret", filepath.Join(work, "link")))
	t.Chdir(work)
	run := func(name, input string) error {
		call := transcript.ToolCallBlock{ID: "1", Name: name, Input: json.RawMessage(input)}
		_, err := script.Run(t.Context(), rebuild.PendingCall{Call: call})
		return err
	}
	for _, input := range []string{`{"path":"../secret"}`, `{"path":"/etc/passwd"}`, `{"path":"link"}`, `{"path":"."}`, `{}`, `[]`} {
		require.Error(t, run("read_file", input), input)
	}
	require.Error(t, run("shell", `{}`))
	require.NoError(t, run("current_time", `{}`))
}
