package storetest

import (
	"os"
	"syscall"
)

// inMemory returns a folder for temporary files. It is in memory if a GiB is free there.
func inMemory() string {
	const folder = "/dev/shm"
	var fs syscall.Statfs_t
	if syscall.Statfs(folder, &fs) != nil || fs.Bavail < 1<<30/uint64(fs.Bsize) {
		return os.TempDir()
	}
	return folder
}
