package session_test

import (
	"os"

	"golang.org/x/sys/unix"
)

func lockFile(f *os.File) error   { return setLock(f, unix.F_WRLCK) }
func unlockFile(f *os.File) error { return setLock(f, unix.F_UNLCK) }

func setLock(f *os.File, kind int16) error {
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Len: 1})
}

func syncFile(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
