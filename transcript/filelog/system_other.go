//go:build !linux && !windows

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

func syncDir(d *os.File) error { return d.Sync() }

func truncate(_ *os.Root, _ string, f *os.File, size int64) error { return f.Truncate(size) }

func publish(root *os.Root, from, to string) error { return link(root, from, to) }

// setMark sets or clears the sticky bit. FreeBSD refuses it to users other than
// root; the process that met the failure then is the only one to know of it.
func setMark(_ *os.Root, _ string, f *os.File, on bool) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	mode := info.Mode().Perm()
	if on {
		mode |= fs.ModeSticky
	}
	return f.Chmod(mode)
}

func marked(_ *os.Root, _ string, info fs.FileInfo) bool { return info.Mode()&fs.ModeSticky != 0 }

// takeOwner does nothing: a copy belongs to the user who makes it.
func takeOwner(*os.File, fs.FileInfo) {}

// matchesDisk is not possible, so a suspect file is always copied.
func matchesDisk(*os.Root, string, *os.File, int64, int64) (bool, error) {
	return false, errors.ErrUnsupported
}
