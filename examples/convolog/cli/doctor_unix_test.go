//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Doctor opens only files: a pipe with the name of an index would keep it waiting for
// ever.
func TestDoctorOnAPipe(t *testing.T) {
	sh := overFolder(t)
	sh.must(0, "session", "new", "--id", "alpha")
	index := filepath.Join(sh.dir, "agents", "main", "sessions.jsonl")
	require.NoError(t, os.Remove(index))
	require.NoError(t, unix.Mkfifo(index, 0o600))
	_, errs, code := sh.run("doctor")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, index)
	require.Contains(t, errs, "move it away")
}

// A repair that cannot open the store for writing reports the reason.
func TestDoctorCannotRepair(t *testing.T) {
	sh := overFolder(t)
	sh.must(0, "session", "new", "--id", "alpha")
	agents := filepath.Join(sh.dir, "agents")
	require.NoError(t, os.Rename(agents, agents+".moved"))
	require.NoError(t, os.Symlink("agents.moved", agents))
	_, errs, code := sh.run("doctor", "--repair")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, agents)
	require.Contains(t, errs, "check that it is a folder")
}

// A folder that doctor may not look into is a finding, and hides no other.
func TestDoctorOnAFolderOfSomebodyElse(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may look into every folder")
	}
	sh := overFolder(t)
	sh.must(0, "session", "new", "--id", "alpha")
	blobs := filepath.Join(sh.dir, "agents", "main", "blobs")
	require.NoError(t, os.Mkdir(blobs, 0))
	require.NoError(t, os.WriteFile(filepath.Join(sh.dir, "agents", "main", "sessions", "a.bak"), nil, 0o600))
	found, _ := sh.diagnose()
	require.Equal(t, []string{"unreadable", "(stranger)"}, found)
}
