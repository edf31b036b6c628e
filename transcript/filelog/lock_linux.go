package filelog

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A fileLock is an open-file-description lock on one byte. It belongs to the
// open file: two opens exclude each other within one process too, and the
// kernel drops it when the file is closed, however that happens. One goroutine
// at a time.
type fileLock struct {
	conn    syscall.RawConn // keeps the file open while it is used
	request unix.Flock_t
	err     error
	control func(fd uintptr) // l.fcntl, bound once to save an allocation a call
}

// newFileLock returns the lock on the byte at off. It takes nothing yet.
func newFileLock(f *os.File, off int64) (*fileLock, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	l := &fileLock{conn: conn, request: unix.Flock_t{Whence: io.SeekStart, Start: off, Len: 1}}
	l.control = l.fcntl
	return l, nil
}

// Lock takes the lock if it is free.
func (l *fileLock) Lock(shared bool) (bool, error) {
	kind := int16(unix.F_WRLCK)
	if shared {
		kind = unix.F_RDLCK
	}
	switch err := l.set(kind); {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		return false, nil
	default:
		return false, os.NewSyscallError("fcntl", err)
	}
}

// Unlock gives the lock back.
func (l *fileLock) Unlock() error {
	return os.NewSyscallError("fcntl", l.set(unix.F_UNLCK))
}

// Held reports whether another open file has the lock.
func (l *fileLock) Held() (bool, error) {
	l.request.Type = unix.F_WRLCK
	asked := l.request // the kernel answers in the request
	var err error
	if callErr := l.conn.Control(func(fd uintptr) { err = unix.FcntlFlock(fd, unix.F_OFD_GETLK, &asked) }); callErr != nil {
		return false, callErr
	}
	return err == nil && asked.Type != unix.F_UNLCK, os.NewSyscallError("fcntl", err)
}

func (l *fileLock) set(kind int16) error {
	l.request.Type = kind
	if err := l.conn.Control(l.control); err != nil {
		return err
	}
	return l.err
}

func (l *fileLock) fcntl(fd uintptr) {
	for {
		l.err = unix.FcntlFlock(fd, unix.F_OFD_SETLK, &l.request)
		if !errors.Is(l.err, unix.EINTR) {
			return
		}
	}
}
