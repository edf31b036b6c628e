package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Arrays of one file name in two arguments are two sessions, even if one begins like the
// other; -n lists the same, and a second run adds nothing.
func TestImportArraysOfOneName(t *testing.T) {
	sh, url := overFolder(t), overURL(t)
	var files []string
	for _, text := range []string{
		`[{"role":"user","content":"hi"}]`,
		`[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}]`,
		`[{"role":"user","content":"something else"}]`,
	} {
		file := filepath.Join(t.TempDir(), "chat-1.json")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		files = append(files, file)
	}
	run := append([]string{"import"}, files...)
	plan := sh.migrate(append(run, "-n")...)
	done := sh.migrate(run...)
	require.Equal(t, plan.Sessions, done.Sessions)
	for i, want := range []int{1, 2, 1} {
		require.True(t, done.Sessions[i].Created)
		require.Equal(t, want, done.Sessions[i].Appended)
	}
	for _, again := range sh.migrate(run...).Sessions {
		require.Zero(t, again.Appended)
		require.False(t, again.Created)
	}
	converted := sh.migrate(append(append([]string{"convert"}, files...), filepath.Join(t.TempDir(), "store"), "--to", "native")...)
	require.Equal(t, done.Sessions, converted.Sessions)
	for i, one := range url.migrate(run...).Sessions {
		require.Equal(t, done.Sessions[i].Session, one.Session)
		require.Equal(t, done.Sessions[i].Appended, one.Appended)
	}
}
