package filelog

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// openFlags keep the open of a FIFO from waiting for its other end.
const openFlags = unix.O_NONBLOCK

// localFS are the file systems, by what statfs(2) calls them, whose locks and
// syncs do what this package needs.
var localFS = map[uint32]string{
	unix.EXT4_SUPER_MAGIC:      "ext2, ext3 or ext4",
	unix.XFS_SUPER_MAGIC:       "xfs",
	unix.BTRFS_SUPER_MAGIC:     "btrfs",
	unix.F2FS_SUPER_MAGIC:      "f2fs",
	unix.BCACHEFS_SUPER_MAGIC:  "bcachefs",
	0x2fc12fc1:                 "zfs",
	unix.TMPFS_MAGIC:           "tmpfs",
	unix.RAMFS_MAGIC:           "ramfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlayfs",
	unix.ECRYPTFS_SUPER_MAGIC:  "ecryptfs",
}

// CheckFS fails with an error that matches [ErrNetworkFS] if root is not on a
// local file system that this package knows: on NFS, SMB, FUSE and the like
// several processes must not append to one file. On systems other than Linux
// it returns nil.
func CheckFS(root *os.Root) error {
	var st unix.Statfs_t
	d, err := root.Open(".")
	if err == nil {
		err = cmp.Or(control(d, func(fd int) error { return unix.Fstatfs(fd, &st) }), d.Close())
	}
	if err == nil {
		kind := uint32(st.Type)
		if _, ok := localFS[kind]; ok {
			return nil
		}
		err = fmt.Errorf("%w (type %#x)", ErrNetworkFS, kind)
	}
	return &Error{
		Op: "check file system of", Path: root.Name(), Err: cause(err),
		Fix: "use a local disk, or make sure that a single process uses the files",
	}
}

// datasync puts a file's data and size on stable storage.
func datasync(f *os.File) error { return os.NewSyscallError("fdatasync", control(f, unix.Fdatasync)) }

// dropCache makes the kernel forget what it has of a file from off on: whole
// pages, so from the beginning of the one that off is in.
func dropCache(f *os.File, off int64) error {
	off -= off % int64(os.Getpagesize())
	return os.NewSyscallError("fadvise64", control(f, func(fd int) error {
		return unix.Fadvise(fd, off, 0, unix.FADV_DONTNEED)
	}))
}

// syncDir puts the names in a folder on stable storage.
func syncDir(d *os.File) error { return d.Sync() }

func truncate(_ *os.Root, _ string, f *os.File, size int64) error { return f.Truncate(size) }

// publish gives a file another name in the same folder, unless that name is in
// use.
func publish(root *os.Root, from, to string) error {
	d, err := root.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	err = control(d, func(fd int) error {
		return unix.Renameat2(fd, filepath.Base(from), fd, filepath.Base(to), unix.RENAME_NOREPLACE)
	})
	err = cmp.Or(err, d.Close())
	// Not every file system can; links exist wherever it cannot.
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return link(root, from, to)
	}
	return err
}

// control calls do with the descriptor of f, again if a signal interrupts it.
func control(f *os.File, do func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var doErr error
	err = conn.Control(func(fd uintptr) {
		for {
			doErr = do(int(fd))
			if !errors.Is(doErr, unix.EINTR) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return doErr
}
