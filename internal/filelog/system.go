package filelog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// The kernel locks are polled: waiting in the kernel would keep a thread and
// could not be cancelled.
const (
	// eagerTries is how often a lock is tried again before the first sleep: others
	// hold the append lock for one write, and any sleep is longer.
	eagerTries = 32
	minWait    = 50 * time.Microsecond
	maxWait    = 5 * time.Millisecond
)

// poll calls try until it succeeds or fails, the context is done, or ended is
// closed.
func poll(ctx context.Context, ended <-chan struct{}, try func() (bool, error)) error {
	wait := minWait
	for tries := 0; ; tries++ {
		if ok, err := try(); ok || err != nil {
			return err
		}
		if tries < eagerTries {
			runtime.Gosched()
			continue
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return busy(ctx)
		case <-ended:
			return ErrClosed
		}
		wait = min(wait*3/2, maxWait)
	}
}

// A look is the result of a lookup.
type look struct {
	size   int64
	marked bool // a sync of the file has failed, and no cure has been completed
}

// control calls do with the descriptor of f, again if a signal interrupts it. A
// closed file's descriptor is an invalid one. The caller must not close f
// during it.
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
	_ = root.Remove(from) // an extra name of the log; it may stay
	return nil
}

// fullPath is the name errors show.
func fullPath(root *os.Root, name string) string {
	return filepath.Join(root.Name(), name)
}
