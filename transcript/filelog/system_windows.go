package filelog

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
)

const openFlags = 0

// CheckFS returns nil: it can tell only on Linux.
func CheckFS(*os.Root) error { return nil }

func datasync(f *os.File) error { return f.Sync() }

// syncDir does nothing: Windows has no such call.
func syncDir(*os.File) error { return nil }

// truncate needs a handle of its own, because one that appends may not cut.
func truncate(root *os.Root, name string, f *os.File, size int64) error {
	opened, err := f.Stat()
	if err != nil {
		return err
	}
	g, id, err := openRegular(root, name, os.O_RDWR)
	if err != nil {
		return err
	}
	if !os.SameFile(opened, id) {
		return cmp.Or(ErrReplaced, g.Close())
	}
	return cmp.Or(g.Truncate(size), g.Close())
}

func publish(root *os.Root, from, to string) error { return link(root, from, to) }

// suspectSuffix ends the name of the empty file that is the mark here, beside
// the file it is about. It costs every append a second lookup.
const suspectSuffix = ".suspect"

func setMark(root *os.Root, name string, _ *os.File, on bool) error {
	if !on {
		if err := root.Remove(name + suspectSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	f, err := root.OpenFile(name+suspectSuffix, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func marked(root *os.Root, name string, _ fs.FileInfo) bool {
	_, err := root.Lstat(name + suspectSuffix)
	return err == nil
}

// takeOwner does nothing: a copy belongs to the user who makes it.
func takeOwner(*os.File, fs.FileInfo) {}

// matchesDisk is not possible, so a suspect file is always copied.
func matchesDisk(*os.Root, string, *os.File, int64, int64) (bool, error) {
	return false, errors.ErrUnsupported
}
