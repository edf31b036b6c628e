//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/examples/internal/home"
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

// A default folder that is a link is not followed: a clone may have brought it along.
func TestDefaultFolderIsALink(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("other", 0o700))
	require.NoError(t, os.Symlink("other", home.Default))
	sh := &shell{TB: t}
	for _, args := range [][]string{{"session", "new"}, {"session", "list"}, {"doctor", "--repair"}, {"serve", "--addr", "127.0.0.1:0"}} {
		_, errs, code := sh.run(args...)
		require.Equal(t, exitFailed, code, args)
		require.Contains(t, errs, home.Default+" is a symbolic link to other", args)
	}
	require.NoDirExists(t, "other/agents")
	sh.must(0, "session", "new", "--dir", "other")
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
