package storetest

import (
	"os"
	"syscall"
)

// inMemory returns the folder for temporary files: one in memory if it has room for a GiB.
func inMemory() string {
	const folder = "/dev/shm"
	var fs syscall.Statfs_t
	if syscall.Statfs(folder, &fs) != nil || fs.Bavail < 1<<30/uint64(fs.Bsize) {
		return os.TempDir()
	}
	return folder
}
