package filelog

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// A look is the result of a lookup.
type look struct {
	size   int64
	marked bool // a sync of the file has failed, and no cure has been completed
}

// control calls do with the descriptor of f, again if a signal interrupts it.
// The descriptor of a file that was closed is an invalid one. A caller must not
// close f during it.
func control(f *os.File, do func(fd int) error) error {
	for {
		err := do(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			runtime.KeepAlive(f)
			return err
		}
	}
}

// link gives a file another name, unless that name is in use.
func link(root *os.Root, from, to string) error {
	if err := root.Link(from, to); err != nil {
		return err
	}
	_ = root.Remove(from) // a second name for the log, which may be ignored
	return nil
}

// fullPath is the name errors show.
func fullPath(root *os.Root, name string) string {
	return filepath.Join(root.Name(), name)
}
