//go:build unix && !linux && !aix

package filelog

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openFlags keep the open of a FIFO from waiting for its other end.
const openFlags = syscall.O_NONBLOCK

// A fileLock is a lock on the whole file, which these systems have in place of
// one on a byte that belongs to the open file. There is only the one for
// appends, because a second could not be told from it.
type fileLock struct {
	conn syscall.RawConn // keeps the file open while it is used
}

// newFileLock returns the lock for off. It takes nothing yet.
func newFileLock(f *os.File, off int64) (*fileLock, error) {
	if off != appendByte && off != 0 {
		return nil, errors.ErrUnsupported
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &fileLock{conn}, nil
}

// Lock takes the lock if it is free.
func (l *fileLock) Lock(shared bool) (bool, error) {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	switch err := l.flock(how | unix.LOCK_NB); {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, nil
	default:
		return false, os.NewSyscallError("flock", err)
	}
}

// Held reports whether another open file has the lock.
func (l *fileLock) Held() (bool, error) {
	ok, err := l.Lock(false)
	if ok {
		err = l.Unlock()
	}
	return !ok && err == nil, err
}

// Unlock gives the lock back.
func (l *fileLock) Unlock() error {
	return os.NewSyscallError("flock", l.flock(unix.LOCK_UN))
}

func (l *fileLock) flock(how int) error {
	var flockErr error
	err := l.conn.Control(func(fd uintptr) {
		for {
			flockErr = unix.Flock(int(fd), how)
			if !errors.Is(flockErr, unix.EINTR) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return flockErr
}
