package filelog

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A file that cannot be read, past the page cache or through it, is an error and no
// difference.
func TestMatchesDiskCannotRead(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, root.Close()) }()
	l, err := Create(root, workName, []byte(workFirst), nil)
	require.NoError(t, err)
	if _, err := l.file().Matches(0, int64(len(workFirst))); err != nil {
		t.Skip("this file system has no direct reads: ", err)
	}
	open := func(flag int) *os.File {
		f, err := root.OpenFile(workName, flag, 0)
		require.NoError(t, err)
		return f
	}
	direct, cached, blind := open(os.O_RDONLY|unix.O_DIRECT), open(os.O_RDONLY), open(os.O_WRONLY)
	for _, files := range [][2]*os.File{{blind, cached}, {direct, blind}} {
		same, err := matchesDirect(files[0], files[1], 0, int64(len(workFirst)))
		require.ErrorIs(t, err, unix.EBADF)
		require.False(t, same)
	}
	for _, f := range []*os.File{direct, cached, blind} {
		require.NoError(t, f.Close())
	}
	require.NoError(t, l.Close())
}

// A dead writer costs no copy where there is no disk.
func TestMatchesMemory(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "filelog") //nolint:usetesting // t.TempDir is on a disk
	if err != nil {
		t.Skip("this system has no file system in memory: ", err)
	}
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, root.Close()) }()
	l, err := Create(root, workName, []byte(workFirst), nil)
	require.NoError(t, err)
	l.Suspect(0)
	require.NoError(t, l.Flush(t.Context()))
	require.Zero(t, l.Copies())
	same, err := l.file().Matches(0, int64(len(workFirst))+1)
	require.NoError(t, err)
	require.False(t, same, "beyond the end")
	require.NoError(t, l.Close())
}

// Names are also looked up where statx is not there, or not allowed, as in old
// containers.
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

// lookUp looks up a name with bytes that are no text, of a file, of another one, of
// none, and of a link.
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
	_, _, err = l.Append(t.Context(), []byte("late\n"), -1)
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
