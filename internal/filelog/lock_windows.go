package filelog

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// openFlags are added to the flags of every open.
const openFlags = 0

// byteLocks reports whether a file has locks for single bytes. A lock belongs to
// the handle: two opens exclude each other within one process too, and the system
// drops it with the handle.
const byteLocks = true

// tryLock takes the lock on the byte at off if it is free.
func tryLock(f *os.File, off int64, shared bool) (bool, error) {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := control(f, func(fd int) error { return windows.LockFileEx(windows.Handle(fd), flags, 0, 1, 0, overlapped(off)) })
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, os.NewSyscallError("LockFileEx", err)
}

// unlock gives the lock on the byte at off back.
func unlock(f *os.File, off int64) error {
	err := control(f, func(fd int) error { return windows.UnlockFileEx(windows.Handle(fd), 0, 1, 0, overlapped(off)) })
	return os.NewSyscallError("UnlockFileEx", err)
}

func overlapped(off int64) *windows.Overlapped {
	return &windows.Overlapped{Offset: uint32(off), OffsetHigh: uint32(off >> 32)}
}
