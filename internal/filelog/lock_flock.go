//go:build unix && !linux && !aix

package filelog

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openFlags keep opening a FIFO from waiting for its other end.
const openFlags = unix.O_NONBLOCK

// byteLocks reports whether a file has locks for single bytes. On these systems
// an open file has only one lock, on the whole file. It is the append lock; a
// second lock could not be distinguished from it.
const byteLocks = false

// tryLock takes the lock if it is free.
func tryLock(f *os.File, _ int64, shared bool) (bool, error) {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	err := control(f, func(fd int) error { return unix.Flock(fd, how|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, os.NewSyscallError("flock", err)
}

// unlock gives the lock back.
func unlock(f *os.File, _ int64) error {
	return os.NewSyscallError("flock", control(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_UN) }))
}
