package filelog

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const createChildEnv = "FILELOG_TEST_CREATE_CHILD"

// A process is killed before each operation of Create, and in the middle of its
// write.
func TestCreateKilled(t *testing.T) {
	if dir := os.Getenv(createChildEnv); dir != "" {
		n, err := strconv.Atoi(os.Getenv(createChildEnv + "_AT"))
		if err != nil {
			panic(err)
		}
		die := func() {
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {} // until the signal arrives
		}
		d := new(faultDisk)
		d.step = func(string) error {
			if n--; n == 0 {
				die()
			}
			return nil
		}
		d.wrote = func(f file, p []byte) {
			if n--; n == 0 {
				_, _ = f.Write(p[:len(p)/2])
				die()
			}
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			panic(err)
		}
		if _, err := Create(root, workName, []byte(workFirst), &Options{seam: d.seam()}); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	var none, whole int
	for n := 1; ; n++ {
		w := newWorkload(t, new(faultDisk))
		dir := w.root.Name()
		cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestCreateKilled$")
		cmd.Env = append(os.Environ(), createChildEnv+"="+dir, createChildEnv+"_AT="+strconv.Itoa(n))
		cmd.Stderr = os.Stderr
		done := cmd.Run() == nil
		if cmd.ProcessState.ExitCode() > 0 {
			t.Fatal(cmd.ProcessState)
		}
		names, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range names {
			if e.Name() != workName && !strings.HasPrefix(e.Name(), workName+tempMark) {
				t.Errorf("killed at %d: left %s", n, e.Name())
			}
		}
		switch b, err := w.root.ReadFile(workName); {
		case err == nil && string(b) == workFirst:
			whole++
		case errors.Is(err, fs.ErrNotExist) && !done:
			none++
			l, err := Create(w.root, workName, []byte(workFirst), nil)
			require.NoError(t, err)
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		default:
			t.Errorf("killed at %d: %q, %v", n, b, err)
		}
		w.reopen(t)
		if done {
			break
		}
	}
	if none < 4 || whole < 2 {
		t.Errorf("%d kills before the log was there, %d after: not all were tried", none, whole)
	}
}
