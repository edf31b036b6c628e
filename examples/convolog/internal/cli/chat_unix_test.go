//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// chat runs the program convolog-chat on the same store and session.
func TestChat(t *testing.T) {
	sh := overFolder(t)
	sh.must(0, "session", "new", "--id", "alpha")
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	_, errs, code := sh.run("chat")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "go install")

	require.NoError(t, os.WriteFile(filepath.Join(bin, "convolog-chat"), []byte("#!/bin/sh\necho \"$@\"\n"), 0o700))
	require.Equal(t, "--dir "+sh.dir+" --url  --model m --window 180000 alpha\n", sh.must(0, "chat", "alph", "--model", "m"))
	require.NoError(t, os.WriteFile(filepath.Join(bin, "convolog-chat"), []byte("#!/bin/sh\nexit 1\n"), 0o700))
	sh.must(exitFailed, "chat")
	sh.must(exitAbsent, "chat", "missing")
	overURL(t).must(exitUsage, "chat")
}
