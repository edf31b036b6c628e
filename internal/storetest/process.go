package storetest

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
)

// A Role is the program of a child process. If it returns an error, the child fails.
type Role func(args []string, stdin io.Reader, stdout io.Writer) error

var roles = map[string]Role{}

// A child of a test is the test binary itself with a role.
var roleOf = flag.String("role", "", "the test binary is a child process of a test, with this role")

// Register registers a role by a name. A test file registers the roles of its children in an
// init function, and the TestMain of its package calls [Main].
func Register(name string, role Role) {
	if roles[name] != nil {
		panic("two roles are named " + name)
	}
	roles[name] = role
}

// Main runs the tests of a package or, in a child process, the child's role:
//
//	func TestMain(m *testing.M) { storetest.Main(m) }
func Main(m *testing.M) {
	flag.Parse()
	if *roleOf == "" {
		os.Exit(run(m))
	}
	role := roles[*roleOf]
	if role == nil {
		fmt.Fprintln(os.Stderr, "no role is named", *roleOf)
		os.Exit(2)
	}
	if err := role(flag.Args(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, *roleOf+":", err)
		os.Exit(1)
	}
}

// run runs tests with their temporary folders in one folder, and removes that folder even if
// a child was killed. The folder is in memory if there is room; the tests of filelog and
// filedriver use a disk. The heap may grow to five times its live size, which saves a
// quarter of the CPU time. Benchmarks run like an application: on the disk, with the
// default heap.
func run(m *testing.M) int {
	if flag.Lookup("test.bench").Value.String() != "" {
		return m.Run()
	}
	debug.SetGCPercent(400)
	dir, err := os.MkdirTemp(inMemory(), "convolog")
	if err == nil {
		defer os.RemoveAll(dir)
		err = errors.Join(os.Chmod(dir, 0o755), os.Setenv("TMPDIR", dir)) //nolint:gosec // for children of other users
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Child returns a child process with a registered role. It ends with the test.
func Child(t testing.TB, role string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, append([]string{"-role", role, "--"}, args...)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// OpenSession opens a store and loads the session of [CLI]. Children use it; most of them
// are killed and never close the store.
func OpenSession(dir string) (*session.Store, *session.Session, error) {
	st, err := session.Open(dir, nil)
	if err != nil {
		return nil, nil, err
	}
	s, err := st.Load(Background, CLI)
	return st, s, err
}

// A Report is a line of JSON that reports the progress of a child.
type Report struct {
	Did  string   `json:"did"`
	Text string   `json:"text,omitempty"`
	IDs  []string `json:"ids,omitempty"`  // the IDs of acknowledged entries
	Here bool     `json:"here,omitempty"` // the child may be killed now
}
