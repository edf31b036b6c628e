//go:build !linux

package filelog

import (
	"errors"
	"io/fs"
	"os"
)

// CheckFS returns nil: it can tell only on Linux.
func CheckFS(*os.Root) error { return nil }

// datasync is Sync, which on macOS also empties the drive's cache.
func datasync(f *os.File) error { return f.Sync() }

func publish(root *os.Root, from, to string) error { return link(root, from, to) }

// takeOwner does nothing: a copy belongs to the user who makes it.
func takeOwner(*os.File, fs.FileInfo) {}

// matchesDisk is not possible, so a suspect file is always copied.
func matchesDisk(*os.Root, string, *os.File, int64, int64) (bool, error) {
	return false, errors.ErrUnsupported
}

// A folderLookup is not made here: names are looked up through the Root.
type folderLookup struct{}

func newFolderLookup(*os.File, string, fs.FileInfo) *folderLookup { return nil }

func (*folderLookup) look() (look, error) { return look{}, fs.ErrInvalid }
