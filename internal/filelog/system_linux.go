package filelog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/convolog/convolog/session/driver"
)

// localFS are the file systems, by their numbers in statfs(2), whose locks and
// syncs suffice for this package.
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

// CheckFS fails with an error that matches [driver.ErrNetworkFS] if root is not on a
// local file system that this package knows: on NFS, SMB, FUSE and the like only one
// process may append to a file. On systems other than Linux it returns nil.
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
		err = fmt.Errorf("%w (type %#x)", driver.ErrNetworkFS, kind)
	}
	return &Error{
		Op: "check file system of", Path: root.Name(), Err: cause(err),
		Fix: "use a local disk, or make sure that a single process uses the files",
	}
}

// datasync puts a file's data and size on stable storage.
func datasync(f *os.File) error { return os.NewSyscallError("fdatasync", control(f, unix.Fdatasync)) }

// takeOwner gives a file the owner of like, if this user may: a cure by root
// must not lock a file's owner out.
func takeOwner(root *os.Root, name string, like fs.FileInfo) {
	if st, ok := like.Sys().(*syscall.Stat_t); ok {
		_ = root.Lchown(name, int(st.Uid), int(st.Gid))
	}
}

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
	// File systems that cannot rename so have links.
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return link(root, from, to)
	}
	return err
}

// lookupIn looks up a name in a folder as [diskFile.Lookup] does, with one system
// call. Name ends with a NUL, so that appends need not copy it. Id is the file
// that the name should refer to.
func lookupIn(folder *os.File, name []byte, id fs.FileInfo) (look, error) {
	own, ok := id.Sys().(*syscall.Stat_t)
	if !ok {
		return look{}, errors.ErrUnsupported
	}
	var found unix.Statx_t
	err := control(folder, func(fd int) error {
		_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(name))),
			unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, uintptr(unsafe.Pointer(&found)), 0)
		if errno != 0 {
			return errno
		}
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return look{}, ErrReplaced
	case err != nil:
		return look{}, errors.ErrUnsupported // by an old kernel or a sandbox
	case unix.Mkdev(found.Dev_major, found.Dev_minor) != uint64(own.Dev) || found.Ino != own.Ino: //nolint:unconvert // MIPS has 32 bits
		return look{}, ErrReplaced
	}
	return look{int64(found.Size), found.Mode&unix.S_ISVTX != 0}, nil
}

// openFlags keep opening a FIFO from waiting for its other end.
const openFlags = unix.O_NONBLOCK

// byteLocks reports whether a file has locks for single bytes: here
// open-file-description locks. A lock belongs to the open file: two opens
// exclude each other within one process too, and the kernel drops it when the
// file is closed, however that happens.
const byteLocks = true

// tryLock takes the lock on the byte at off if it is free.
func tryLock(f *os.File, off int64, shared bool) (bool, error) {
	kind := int16(unix.F_WRLCK)
	if shared {
		kind = unix.F_RDLCK
	}
	_, err := fcntl(f, unix.F_OFD_SETLK, kind, off)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}

// unlock gives the lock on the byte at off back.
func unlock(f *os.File, off int64) error {
	_, err := fcntl(f, unix.F_OFD_SETLK, unix.F_UNLCK, off)
	return err
}

// lockHeld reports whether another open file has the lock on the byte at off.
func lockHeld(f *os.File, off int64) (bool, error) {
	kind, err := fcntl(f, unix.F_OFD_GETLK, unix.F_WRLCK, off)
	return err == nil && kind != unix.F_UNLCK, err
}

// fcntl asks for a lock of a kind, and returns the kind in the kernel's answer.
func fcntl(f *os.File, cmd int, kind int16, off int64) (int16, error) {
	request := unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: off, Len: 1}
	err := control(f, func(fd int) error { return unix.FcntlFlock(uintptr(fd), cmd, &request) })
	return request.Type, os.NewSyscallError("fcntl", err)
}
