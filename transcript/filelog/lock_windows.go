package filelog

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

const openFlags = 0

// A fileLock is a lock on one byte. It belongs to the handle: two opens exclude
// each other within one process too, and the system drops it with the handle.
type fileLock struct {
	conn syscall.RawConn // keeps the file open while it is used
	off  int64
}

// newFileLock returns the lock on the byte at off. It takes nothing yet.
func newFileLock(f *os.File, off int64) (*fileLock, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &fileLock{conn, off}, nil
}

// Lock takes the lock if it is free.
func (l *fileLock) Lock(shared bool) (bool, error) {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := l.call(func(h windows.Handle, at *windows.Overlapped) error {
		return windows.LockFileEx(h, flags, 0, 1, 0, at)
	})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return false, nil
	default:
		return false, os.NewSyscallError("LockFileEx", err)
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
	err := l.call(func(h windows.Handle, at *windows.Overlapped) error {
		return windows.UnlockFileEx(h, 0, 1, 0, at)
	})
	return os.NewSyscallError("UnlockFileEx", err)
}

func (l *fileLock) call(do func(windows.Handle, *windows.Overlapped) error) error {
	var callErr error
	err := l.conn.Control(func(fd uintptr) {
		at := &windows.Overlapped{Offset: uint32(l.off), OffsetHigh: uint32(l.off >> 32)}
		callErr = do(windows.Handle(fd), at)
	})
	if err != nil {
		return err
	}
	return callErr
}
