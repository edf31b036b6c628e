package session_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that imports session pays next to nothing at its start: the packages
// of this module, test kits included, initialise themselves within these bounds.
func TestProgramStart(t *testing.T) {
	const maxBytes, maxObjects = 200_000, 500
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	line := regexp.MustCompile(`^init (github\.com/convolog/convolog/\S+) .* (\d+) bytes, (\d+) allocs$`)
	bytes, objects, packages := 0, 0, 0
	for l := range strings.Lines(string(out)) {
		m := line.FindStringSubmatch(strings.TrimSpace(l))
		if m == nil {
			continue
		}
		n, _ := strconv.Atoi(m[2])
		allocs, _ := strconv.Atoi(m[3])
		bytes, objects, packages = bytes+n, objects+allocs, packages+1
		t.Logf("%s: %d bytes, %d objects", m[1], n, allocs)
	}
	require.NotZero(t, packages, "no package reports its start: %s", out)
	require.LessOrEqual(t, bytes, maxBytes)
	require.LessOrEqual(t, objects, maxObjects)
}
