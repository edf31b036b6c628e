package filelog

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A fileLock is an open-file-description lock on one byte. It belongs to the
// open file: two opens exclude each other within one process too, and the
// kernel drops it when the file is closed, however that happens.
type fileLock struct {
	f   *os.File
	off int64
}

// newFileLock returns the lock on the byte at off. It takes nothing yet.
func newFileLock(f *os.File, off int64) (*fileLock, error) { return &fileLock{f, off}, nil }

// Lock takes the lock if it is free.
func (l *fileLock) Lock(shared bool) (bool, error) {
	kind := int16(unix.F_WRLCK)
	if shared {
		kind = unix.F_RDLCK
	}
	_, err := l.fcntl(unix.F_OFD_SETLK, kind)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, os.NewSyscallError("fcntl", err)
}

// Unlock gives the lock back.
func (l *fileLock) Unlock() error {
	_, err := l.fcntl(unix.F_OFD_SETLK, unix.F_UNLCK)
	return os.NewSyscallError("fcntl", err)
}

// Held reports whether another open file has the lock.
func (l *fileLock) Held() (bool, error) {
	kind, err := l.fcntl(unix.F_OFD_GETLK, unix.F_WRLCK)
	return err == nil && kind != unix.F_UNLCK, os.NewSyscallError("fcntl", err)
}

// fcntl asks for a lock of a kind, and returns the kind in the kernel's answer.
func (l *fileLock) fcntl(cmd int, kind int16) (int16, error) {
	request := unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: l.off, Len: 1}
	err := control(l.f, func(fd int) error { return unix.FcntlFlock(uintptr(fd), cmd, &request) })
	return request.Type, err
}
