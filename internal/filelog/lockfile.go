package filelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// A LockFile is one open descriptor of a file whose bytes serve as locks: one
// byte, one lock. The file holds no data and is never renamed or removed by
// this package, so the locks outlive the files they protect.
//
// Locks are exclusive. They belong to the LockFile: two LockFiles exclude each
// other within one process too, and the kernel releases the locks of a process
// that dies, however it dies. A LockFile is safe for several goroutines, which
// exclude each other on the same byte as well.
type LockFile struct {
	root  *os.Root
	name  string // within root
	whole bool   // the system has one lock for a file, the byte at 0: set by OpenLockFile

	ended     chan struct{} // closed to end all waits
	interrupt func()        // closes ended

	mu     sync.Mutex     // guards the fields below; no wait for the kernel's locks happens under it
	f      *os.File       // set by open; nil after Close
	id     fs.FileInfo    // of f
	locked map[int64]bool // bytes: set by try, cleared by Unlock
}

// OpenLockFile opens the file that name refers to within root, and creates it
// with mode 0600 if it is missing. Root must stay open as long as the LockFile
// is used.
func OpenLockFile(root *os.Root, name string) (*LockFile, error) {
	ended := make(chan struct{})
	l := &LockFile{
		root:      root,
		name:      name,
		whole:     !byteLocks,
		ended:     ended,
		interrupt: sync.OnceFunc(func() { close(ended) }),
		locked:    map[int64]bool{},
	}
	if err := l.open(); err != nil {
		return nil, l.fail("open", err)
	}
	return l, nil
}

// Lock takes the lock on the byte at off and waits as long as it is held. It
// gives up with an error that matches [ErrBusy] and the context's when the
// context is done, even before the call, and with [ErrClosed] after Interrupt.
//
// When the error is nil the lock is on the file that the name refers to now: a
// file that was replaced is opened anew. While other bytes are locked it cannot
// be, and the error matches [ErrReplaced].
func (l *LockFile) Lock(ctx context.Context, off int64) error {
	if ctx.Err() != nil {
		return l.fail("lock", busy(ctx))
	}
	return l.fail("lock", poll(ctx, l.ended, func() (bool, error) { return l.try(off) }))
}

// TryLock is [LockFile.Lock] without the wait: it fails with [ErrBusy] when the
// lock is held.
func (l *LockFile) TryLock(off int64) error {
	ok, err := l.try(off)
	if !ok && err == nil {
		err = ErrBusy
	}
	return l.fail("lock", err)
}

// Claim is [LockFile.TryLock], and returns the function that gives the lock back. Where the
// system has no locks on single bytes, Claim takes none: nothing is kept out.
func (l *LockFile) Claim(off int64) (release func(), err error) {
	err = l.TryLock(off)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return func() {}, nil
	case err != nil:
		return nil, err
	}
	return func() { _ = l.Unlock(off) }, nil // a lock that stays ends with the process
}

// try takes the lock if it is free.
func (l *LockFile) try(off int64) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.whole && off != 0 {
		return false, errors.ErrUnsupported
	}
	for l.f != nil {
		if l.locked[off] {
			return false, nil
		}
		if ok, err := tryLock(l.f, off, false); !ok || err != nil {
			return false, err
		}
		named, err := l.root.Lstat(l.name)
		if err == nil && os.SameFile(named, l.id) {
			l.locked[off] = true
			return true, nil
		}
		_ = unlock(l.f, off) // at the latest, closing the descriptor ends it
		if len(l.locked) > 0 {
			return false, ErrReplaced
		}
		old := l.f
		if err := l.open(); err != nil {
			return false, err
		}
		_ = old.Close() // nothing was written
	}
	return false, ErrClosed
}

// Unlock gives back the lock on the byte at off. It panics if this LockFile does
// not hold it, unless Close has released it.
func (l *LockFile) Unlock(off int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	if !l.locked[off] {
		panic(fmt.Sprintf("filelog: byte %d of %s is not locked", off, fullPath(l.root, l.name)))
	}
	delete(l.locked, off)
	return l.fail("unlock", unlock(l.f, off))
}

// Held reports whether another open LockFile, of this process or another, holds
// the lock on the byte at off. Locks of this LockFile do not count.
func (l *LockFile) Held(off int64) (bool, error) {
	const op = "look at lock"
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return false, l.fail(op, ErrClosed)
	}
	if l.whole && off != 0 {
		return false, l.fail(op, errors.ErrUnsupported)
	}
	if l.locked[off] {
		return false, nil
	}
	held, err := lockHeld(l.f, off)
	return held, l.fail(op, err)
}

// Interrupt makes the calls that wait for a lock, now or later, give up with
// [ErrClosed]; a lock that is free is still taken. It may be called several
// times.
func (l *LockFile) Interrupt() { l.interrupt() }

// Close interrupts the calls that wait and releases every lock that is still
// held. Later calls fail with [ErrClosed].
func (l *LockFile) Close() error {
	l.interrupt()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return l.fail("close", ErrClosed)
	}
	// Closing the descriptor releases the locks too, but not at once if a child
	// process has just inherited it.
	for off := range l.locked {
		_ = unlock(l.f, off)
	}
	err := l.f.Close()
	l.f = nil
	return l.fail("close", err)
}

// open opens the file, and creates it if it is missing. The caller holds l.mu or
// has the only reference.
func (l *LockFile) open() error {
	for {
		f, id, err := openRegular(l.root, l.name, os.O_RDWR)
		switch {
		case err == nil:
			l.f, l.id = f, id
			return nil
		case errors.Is(err, fs.ErrNotExist):
			f, err = l.root.OpenFile(l.name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
			if err == nil {
				err = f.Close()
			}
			if err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		case !errors.Is(err, ErrReplaced): // replaced before the open
			return err
		}
	}
}

// fail returns an Error about the file, nil if err is nil.
func (l *LockFile) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return newError(op, fullPath(l.root, l.name), err)
}
