//go:build !linux

package peerbench

import "os"

func datasync(f *os.File) error { return f.Sync() }
