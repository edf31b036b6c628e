//go:build !linux

package storetest

import "os"

// inMemory returns the folder for temporary files.
func inMemory() string { return os.TempDir() }
