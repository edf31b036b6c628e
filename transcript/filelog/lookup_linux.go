package filelog

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A folderLookup looks one name of a folder up with one system call.
type folderLookup struct {
	conn syscall.RawConn // of the folder; keeps it open while it is used
	name string
	id   *syscall.Stat_t // of the file that the name should refer to

	mu      sync.Mutex // guards what follows
	found   unix.Stat_t
	err     error
	control func(fd uintptr) // l.fstatat, bound once to save an allocation a call
}

// newFolderLookup returns nil if the file cannot be told from others this way.
func newFolderLookup(folder *os.File, name string, id fs.FileInfo) *folderLookup {
	st, ok := id.Sys().(*syscall.Stat_t)
	conn, err := folder.SyscallConn()
	if !ok || err != nil {
		return nil
	}
	l := &folderLookup{conn: conn, name: name, id: st}
	l.control = l.fstatat
	return l
}

// look is [diskFile.Lookup].
func (l *folderLookup) look() (look, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.conn.Control(l.control); err != nil {
		return look{}, err
	}
	switch {
	case l.err != nil:
		return look{}, os.NewSyscallError("fstatat", l.err)
	case l.found.Dev != l.id.Dev || l.found.Ino != l.id.Ino:
		return look{}, ErrReplaced
	}
	return look{l.found.Size, l.found.Mode&unix.S_ISVTX != 0}, nil
}

func (l *folderLookup) fstatat(fd uintptr) {
	for {
		l.err = unix.Fstatat(int(fd), l.name, &l.found, unix.AT_SYMLINK_NOFOLLOW)
		if !errors.Is(l.err, unix.EINTR) {
			return
		}
	}
}
