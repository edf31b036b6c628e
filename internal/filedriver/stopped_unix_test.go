//go:build unix

package filedriver_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

const stoppedDir = "FILEDRIVER_STOPPED_DIR"

// A process stopped while it holds the lock of the index delays no append for
// long. Creating a session waits until the context is done.
func TestAppendBesideAStoppedWriter(t *testing.T) {
	if dir := os.Getenv(stoppedDir); dir != "" {
		root, err := os.OpenRoot(filepath.Join(dir, "agents/main"))
		require.NoError(t, err)
		lock, err := filelog.OpenLockFile(root, "sessions.lock")
		require.NoError(t, err)
		require.NoError(t, lock.Lock(t.Context(), 0))
		fmt.Println("locked")
		<-t.Context().Done() // until it is killed
	}
	dir := t.TempDir()
	d := open(t, dir, described(new([]string)))
	ref := create(t, d, "a", "k").Ref()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAppendBesideAStoppedWriter$")
	child.Env = append(os.Environ(), stoppedDir+"="+dir)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "locked\n", line)
	require.NoError(t, child.Process.Signal(syscall.SIGSTOP))

	appended := make(chan error, 1)
	go func() {
		_, err := d.Append(t.Context(), ref, []driver.Line{note("1")}, driver.Anywhere, nil)
		appended <- err
	}()
	select {
	case err := <-appended:
		require.NoError(t, err)
	case <-hang(t, 20*time.Second).Done():
		t.Error("Append waits for a process that was stopped")
	}
	require.Equal(t, 1, list(t, d)[0].Messages)
	_, err = d.Create(hang(t, 10*time.Millisecond), driver.KeyRef{Agent: "main", Key: "k"}, header("b", "k"))
	require.ErrorIs(t, err, driver.ErrBusy)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	create(t, d, "b", "k") // the kernel has released the lock
}
