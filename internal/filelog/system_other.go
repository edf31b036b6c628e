//go:build !linux

package filelog

import (
	"errors"
	"io/fs"
	"os"
)

// CheckFS returns nil: only Linux has a check.
func CheckFS(*os.Root) error { return nil }

// datasync is Sync, which on macOS also empties the drive's cache.
func datasync(f *os.File) error { return f.Sync() }

func publish(root *os.Root, from, to string) error { return link(root, from, to) }

// takeOwner does nothing: a copy belongs to the user who makes it.
func takeOwner(*os.Root, string, fs.FileInfo) {}

// lookupIn is not possible: lookups go through the Root.
func lookupIn(*os.File, []byte, fs.FileInfo) (look, error) { return look{}, errors.ErrUnsupported }

// lockHeld reports whether another open file has the lock on the byte at off.
func lockHeld(f *os.File, off int64) (bool, error) {
	ok, err := tryLock(f, off, false)
	if ok {
		err = unlock(f, off)
	}
	return !ok && err == nil, err
}
