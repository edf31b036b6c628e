package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
)

// --mask is remembered by the store: later commands without it mask as well.
func TestMask(t *testing.T) {
	sh := overFolder(t)
	file := filepath.Join(t.TempDir(), "a.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`{"type":"user","uuid":"u1","sessionId":"s1","timestamp":"2026-01-02T03:04:05Z","message":{"role":"user","content":"Use `+storetest.Secret+`"}}`+"\n"), 0o600))
	sh.must(0, "import", file, "--mask")
	sh.must(0, "session", "new", "main:cli:ann", "--id", "two", "--title", "about "+storetest.Secret)
	sh.must(0, "session", "add-message", "two", "--role", "user", "--content", "and password=Hunter27")
	require.Empty(t, storetest.Grep(t, sh.dir, storetest.Secret))
	require.Empty(t, storetest.Grep(t, sh.dir, "Hunter27"))
	require.Contains(t, sh.must(0, "session", "show", "two"), "password=[masked]")
	require.NotContains(t, sh.must(0, "session", "list"), "_settings")
	sh.must(0, "doctor")

	over := overURL(t)
	_, errs, code := over.run("import", file, "--mask")
	require.NotZero(t, code)
	require.Contains(t, errs, "--mask is for a folder")
}
