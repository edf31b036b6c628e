//go:build !linux && !windows

package filelog

import (
	"errors"
	"os"
)

// CheckFS returns nil: it can tell only on Linux.
func CheckFS(*os.Root) error { return nil }

// datasync is Sync, which on macOS also empties the drive's cache.
func datasync(f *os.File) error { return f.Sync() }

func syncDir(d *os.File) error { return d.Sync() }

func truncate(_ *os.Root, _ string, f *os.File, size int64) error { return f.Truncate(size) }

func publish(root *os.Root, from, to string) error { return link(root, from, to) }

// dropCache is not possible, so Recover always makes a copy.
func dropCache(*os.File, int64) error { return errors.ErrUnsupported }
