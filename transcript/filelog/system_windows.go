package filelog

import (
	"cmp"
	"errors"
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

// dropCache is not possible, so Recover always makes a copy.
func dropCache(*os.File, int64) error { return errors.ErrUnsupported }
