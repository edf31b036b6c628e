//go:build unix && !aix

package filelog

import (
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// openFlags keep the open of a FIFO from waiting for its other end.
const openFlags = unix.O_NONBLOCK

// control calls do with the descriptor of f, again if a signal interrupts it.
// The descriptor of a file that was closed is an invalid one. A caller must not
// close f meanwhile.
func control(f *os.File, do func(fd int) error) error {
	for {
		err := do(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			runtime.KeepAlive(f)
			return err
		}
	}
}
