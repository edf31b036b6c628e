package filelog

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// Lookups also work where statx is missing or forbidden, as in old containers.
func TestLookupWithoutStatx(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ENOSYS, unix.EPERM} {
		var err error
		onThread(func() {
			if err = refuse(unix.SYS_STATX, errno); err == nil {
				assert.ErrorIs(t, unix.Statx(unix.AT_FDCWD, "/", 0, unix.STATX_BASIC_STATS, new(unix.Statx_t)), errno)
				lookUp(t)
			}
		})
		if err != nil {
			t.Skip("this system has no filters of system calls: ", err)
		}
	}
	lookUp(t)
}

// lookUp looks up a name that is not UTF-8: of the file, of another, of none, and
// of a link.
func lookUp(t *testing.T) {
	t.Helper()
	const name = " \xff\n*\\%00"
	root, err := os.OpenRoot(t.TempDir())
	assert.NoError(t, err)
	folder, err := root.Open(".")
	assert.NoError(t, err)
	l, err := Create(root, name, []byte(workFirst), &Options{Folder: folder})
	assert.NoError(t, err)
	for _, on := range []bool{true, false} {
		assert.NoError(t, l.file().Mark(on))
		now, err := l.file().Lookup()
		assert.NoError(t, err)
		assert.Equal(t, look{int64(len(workFirst)), on}, now)
	}
	assert.NoError(t, root.Rename(name, "other"))
	_, err = l.file().Lookup()
	assert.ErrorIs(t, err, ErrReplaced)
	assert.NoError(t, root.Symlink("other", name))
	_, err = l.file().Lookup()
	assert.ErrorIs(t, err, ErrReplaced)
	assert.NoError(t, root.Remove(name))
	assert.NoError(t, os.WriteFile(filepath.Join(root.Name(), name), []byte(strings.ToUpper(workFirst)), 0o600))
	_, err = l.file().Lookup()
	assert.ErrorIs(t, err, ErrReplaced)
	_, _, err = l.Append(t.Context(), Lines([]byte("late\n")))
	assert.ErrorIs(t, err, ErrReplaced)
	assert.NoError(t, l.Close())
	assert.NoError(t, folder.Close())
	assert.NoError(t, root.Close())
}

// onThread calls f on a thread of its own, which ends with it.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		f()
	}()
	<-done
}

// refuse makes a system call of this thread fail.
func refuse(call uint32, errno unix.Errno) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}
