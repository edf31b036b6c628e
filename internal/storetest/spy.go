//go:build linux && (amd64 || arm64)

package storetest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A Call is a system call on a file or folder below the spy's folder.
type Call struct {
	Kind string // see calls
	Path string // relative to the folder
	to   string // the new path of a rename or a link
	off  int64  // the offset of a write
	data []byte // the data of a write
	size int64  // the new size of a truncate
	trim bool   // set for a create that empties an existing file
}

// calls are the watched system calls and the values of Kind for them. An open that may
// make or empty a file is a create.
var calls = map[uint32]string{
	unix.SYS_OPENAT: "open", unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "write", unix.SYS_FTRUNCATE: "truncate",
	unix.SYS_FSYNC: "sync", unix.SYS_FDATASYNC: "sync", unix.SYS_MKDIRAT: "mkdir", unix.SYS_UNLINKAT: "unlink",
	unix.SYS_RENAMEAT: "rename", unix.SYS_RENAMEAT2: "rename", unix.SYS_LINKAT: "link",
}

// looks are calls that change nothing but can also fail.
var looks = map[uint32]string{
	unix.SYS_READ: "read", unix.SYS_PREAD64: "read", unix.SYS_GETDENTS64: "list", unix.SYS_FSTAT: "stat", unix.SYS_FCNTL: "lock",
}

// A Verdict decides about a call. The zero verdict lets it happen.
type Verdict struct {
	Errno   syscall.Errno // the error with which the call fails
	Short   bool          // a write writes only Partial bytes
	Partial int
	Skip    bool // the call does nothing and reports success
}

// A Spy watches the system calls on files of one goroutine, replaces them by faults, and
// records the calls that change files. It works below all tested code, which needs no
// preparation: a seccomp filter on the goroutine's thread passes the calls to another
// thread, and that thread makes them.
type Spy struct {
	Dir    string
	Judge  func(c Call) Verdict // nil lets all calls happen
	Looks  bool                 // Judge also gets looks
	mu     sync.Mutex           // guards the fields below
	calls  []Call               // calls that changed files or folders
	failed error                // the first error of the spy itself
}

// The kernel's struct seccomp_notif and seccomp_notif_resp.
type (
	notice struct {
		id         uint64
		pid, flags uint32
		nr         int32
		arch       uint32
		ip         uint64
		args       [6]uint64
	}
	answered struct {
		id    uint64
		val   int64
		errno int32
		flags uint32
	}
)

// ErrNoSpy reports that this system lacks a feature that a spy needs.
var ErrNoSpy = errors.New("system calls cannot be watched here")

// Run calls work in a new goroutine, watches that goroutine, and returns when work ends.
func (s *Spy) Run(work func()) error {
	started, ended := make(chan error), make(chan struct{})
	var listener int
	go func() {
		defer close(ended)
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		var err error
		if listener, err = s.watch(); err != nil {
			started <- err
			return
		}
		started <- nil
		work()
		_ = unix.Fsync(-1) // reports the end
	}()
	err := <-started
	if err == nil {
		s.serve(listener)
	}
	<-ended
	return cmp.Or(err, s.failed)
}

// Unseen calls work in another goroutine, which a spy of the caller's goroutine does not
// watch.
func Unseen(work func()) {
	var wg sync.WaitGroup
	wg.Go(work)
	wg.Wait()
}

// watch installs the filter on this thread.
func (s *Spy) watch() (listener int, err error) {
	// A signal would interrupt a call that the other thread has already made.
	var set unix.Sigset_t
	for i := range set.Val {
		set.Val[i] = ^set.Val[i]
	}
	set.Val[0] &^= 1 << (unix.SIGSEGV - 1) // blocked, it would end the process without a trace
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &set, nil); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoSpy, err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoSpy, err)
	}
	prog := s.filter()
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return 0, fmt.Errorf("%w: %w", ErrNoSpy, errno)
	}
	return int(fd), nil
}

// filter allows the runtime's calls on its own descriptors, because during these calls the
// runtime cannot wait for another thread.
func (s *Spy) filter() []unix.SockFilter {
	stmt := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	var prog []unix.SockFilter
	prog = append(prog, stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 16)) // the first argument
	for _, fd := range append([]uint32{0, 1, 2}, eventFDs()...) {
		prog = append(prog,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: fd, Jf: 1},
			stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW))
	}
	prog = append(prog, stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0)) // the number of the call
	var nrs []uint32
	for nr := range calls {
		nrs = append(nrs, nr)
	}
	for nr := range looks {
		if s.Looks {
			nrs = append(nrs, nr)
		}
	}
	slices.Sort(nrs)
	for _, nr := range nrs {
		prog = append(prog,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jf: 1},
			stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_USER_NOTIF))
	}
	return append(prog, stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW))
}

// eventFDs returns the descriptors by which the runtime wakes its poller.
func eventFDs() (fds []uint32) {
	if r, w, err := os.Pipe(); err == nil { // makes the runtime start its poller
		defer func() { _, _ = r.Close(), w.Close() }()
	}
	names, _ := filepath.Glob("/proc/self/fd/*")
	for _, name := range names {
		var fd uint32
		if to, err := os.Readlink(name); err == nil && to == "anon_inode:[eventfd]" {
			if _, err := fmt.Sscan(filepath.Base(name), &fd); err == nil {
				fds = append(fds, fd)
			}
		}
	}
	return fds
}

// serve makes the calls of the watched thread until it reports its end.
func (s *Spy) serve(listener int) {
	defer func() { _ = unix.Close(listener) }()
	for {
		var n notice
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n))); errno != 0 {
			if errno == unix.EINTR {
				continue
			}
			panic(fmt.Sprintf("the watched thread is lost: %v", errno)) // the thread would wait for ever
		}
		a := answered{id: n.id}
		over := uint32(n.nr) == unix.SYS_FSYNC && int32(n.args[0]) == -1
		if !over {
			val, errno := s.make(n)
			a.val, a.errno = int64(val), -int32(errno)
		}
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&a))); errno != 0 {
			panic(fmt.Sprintf("the watched thread is lost: %v", errno))
		}
		if over {
			return
		}
	}
}

// make makes a call, or the fault that Judge chooses.
func (s *Spy) make(n notice) (val uintptr, errno syscall.Errno) {
	c, ours := s.describe(n)
	var v Verdict
	if ours && s.Judge != nil {
		v = s.Judge(c)
	}
	args := n.args
	switch {
	case v.Skip:
		return 0, 0
	case v.Short && v.Partial < len(c.data):
		args[2], c.data = uint64(v.Partial), c.data[:v.Partial]
	case v.Errno != 0:
		return 0, v.Errno
	}
	r, _, errno := unix.Syscall6(uintptr(n.nr), uintptr(args[0]), uintptr(args[1]), uintptr(args[2]), uintptr(args[3]), uintptr(args[4]), uintptr(args[5]))
	if errno != 0 {
		return 0, errno
	}
	if c.Kind == "write" {
		c.data = c.data[:min(int(r), len(c.data))]
	}
	if ours && looks[uint32(n.nr)] == "" && c.Kind != "open" {
		s.record(c)
	}
	return r, 0
}

func (s *Spy) record(c Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
}

// Made returns the calls so far that changed files or folders, in order.
func (s *Spy) Made() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// describe returns the call that a notice is about, and whether its path is below the folder.
func (s *Spy) describe(n notice) (c Call, ours bool) {
	nr, fd := uint32(n.nr), int(int32(n.args[0]))
	c.Kind = cmp.Or(calls[nr], looks[nr])
	switch nr {
	case unix.SYS_OPENAT, unix.SYS_MKDIRAT, unix.SYS_UNLINKAT:
		c.Path, ours = s.path(fd, s.text(n.args[1]))
		if flags := int(n.args[2]); nr == unix.SYS_OPENAT {
			c.trim = flags&unix.O_TRUNC != 0
			if flags&unix.O_CREAT != 0 || c.trim {
				c.Kind = "create"
			}
		}
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT:
		c.Path, ours = s.path(fd, s.text(n.args[1]))
		c.to, _ = s.path(int(int32(n.args[2])), s.text(n.args[3]))
	case unix.SYS_FCNTL:
		// To unlock a held byte cannot fail.
		if n.args[1] == unix.F_OFD_SETLK && binary.NativeEndian.Uint16(s.memory(n.args[2], 2)) != unix.F_UNLCK {
			c.Path, ours = s.path(fd, "")
		}
	default:
		c.Path, ours = s.path(fd, "")
		if !ours {
			break
		}
		switch nr {
		case unix.SYS_WRITE, unix.SYS_PWRITE64:
			c.data = s.memory(n.args[1], int(n.args[2]))
			c.off = s.offset(fd, nr, n.args[3])
		case unix.SYS_FTRUNCATE:
			c.size = int64(n.args[1])
		}
	}
	return c, ours
}

// offset returns the offset of a write.
func (s *Spy) offset(fd int, nr uint32, at uint64) int64 {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	s.fail(err)
	if flags&unix.O_APPEND != 0 { // with O_APPEND even a pwrite appends
		var st unix.Stat_t
		s.fail(unix.Fstat(fd, &st))
		return st.Size
	}
	if nr == unix.SYS_PWRITE64 {
		return int64(at)
	}
	off, err := unix.Seek(fd, 0, unix.SEEK_CUR)
	s.fail(err)
	return off
}

func (s *Spy) path(fd int, name string) (path string, ours bool) {
	if !filepath.IsAbs(name) && fd >= 0 {
		folder, err := os.Readlink(fmt.Sprint("/proc/self/fd/", fd))
		if err != nil {
			return "", false
		}
		name = filepath.Join(folder, name)
	}
	if name == s.Dir {
		return ".", true
	}
	return strings.CutPrefix(filepath.Clean(name), s.Dir+"/")
}

func (s *Spy) text(addr uint64) string {
	var b []byte
	for {
		// Read up to the end of the page: the next page may be missing.
		part := s.memory(addr+uint64(len(b)), int(4096-(addr+uint64(len(b)))%4096))
		b = append(b, part...)
		if i := bytes.IndexByte(b, 0); i >= 0 || len(part) == 0 {
			return string(b[:max(i, 0)])
		}
	}
}

func (s *Spy) memory(addr uint64, n int) []byte {
	if n == 0 {
		return nil
	}
	b := make([]byte, n)
	got, err := unix.ProcessVMReadv(os.Getpid(), []unix.Iovec{{Base: &b[0], Len: uint64(n)}},
		[]unix.RemoteIovec{{Base: uintptr(addr), Len: n}}, 0)
	s.fail(err)
	return b[:max(got, 0)]
}

func (s *Spy) fail(err error) {
	if err != nil && s.failed == nil {
		s.failed = err
	}
}

// Spied fails the test if err is an error of a [Spy]. It skips the test if a spy cannot work
// on this system.
func Spied(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, ErrNoSpy) {
		t.Skip(err)
	}
	require.NoError(t, err)
}
