package filelog

import (
	"cmp"
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
	root *os.Root
	name string // within root
	path string // for errors

	ended     chan struct{} // closed when no call is to wait any longer
	interrupt func()        // closes ended

	mu     sync.Mutex // guards the fields below; never held while a call waits
	open   *lockedFile
	places map[int64]*lockPlace
	closed bool
}

// A lockedFile is a descriptor and the number of locks and calls that use it. A
// LockFile has more than one only after somebody replaced its file: locks taken
// before stay with the descriptor they were taken on.
type lockedFile struct {
	f    *os.File
	id   fs.FileInfo
	uses int
}

// A lockPlace orders the goroutines that want one byte.
type lockPlace struct {
	sem  chan struct{} // of one place: the sender holds the byte within this LockFile
	uses int           // goroutines that hold the byte or wait for it
	file *lockedFile   // of the lock that is held; nil while there is none
	lock *fileLock
}

const fixNoByteLock = "this system has one lock per file, at offset 0"

// OpenLockFile opens the file that name refers to within root, and creates it
// with mode 0600 if there is none. Root must stay open as long as the LockFile
// is used.
func OpenLockFile(root *os.Root, name string) (*LockFile, error) {
	ended := make(chan struct{})
	l := &LockFile{
		root:      root,
		name:      name,
		path:      fullPath(root, name),
		ended:     ended,
		interrupt: sync.OnceFunc(func() { close(ended) }),
		places:    map[int64]*lockPlace{},
	}
	var err error
	if l.open, err = l.openFile(); err != nil {
		return nil, l.fail("open", err, fixOpen)
	}
	return l, nil
}

// Lock takes the lock on the byte at off and waits as long as it is held. It
// gives up with an error that matches [ErrBusy] and the context's when the
// context is done, also if it was done before the call, and with [ErrClosed]
// after Interrupt.
//
// When the error is nil the lock is on the file that the name refers to now:
// Lock opens a file that was replaced anew.
func (l *LockFile) Lock(ctx context.Context, off int64) error { return l.lock(ctx, off, true) }

// TryLock is [LockFile.Lock] without the wait: it fails with [ErrBusy] when the
// lock is held.
func (l *LockFile) TryLock(off int64) error { return l.lock(context.Background(), off, false) }

func (l *LockFile) lock(ctx context.Context, off int64, wait bool) error {
	const op = "lock"
	if ctx.Err() != nil {
		return l.fail(op, busy(ctx), fixBusy)
	}
	p, err := l.enter(off)
	if err != nil {
		return l.fail(op, err, "")
	}
	try := func() (bool, error) {
		select {
		case p.sem <- struct{}{}:
		default:
			return false, nil
		}
		ok, err := l.tryKernel(p, off)
		if !ok {
			<-p.sem
		}
		return ok, err
	}
	if wait {
		err = poll(ctx, l.ended, try)
	} else if ok, tryErr := try(); tryErr != nil || !ok {
		err = cmp.Or(tryErr, ErrBusy)
	}
	if err == nil {
		return nil
	}
	l.leave(off, p)
	fix := fixNothingWritten
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		fix = fixNoByteLock
	case errors.Is(err, ErrBusy):
		fix = fixBusy
	}
	return l.fail(op, err, fix)
}

// tryKernel takes the kernel's lock if it is free, on the file that the name
// refers to. The caller holds the place.
func (l *LockFile) tryKernel(p *lockPlace, off int64) (bool, error) {
	for {
		file, err := l.current()
		if err != nil {
			return false, err
		}
		lock, err := newFileLock(file.f, off)
		ok := false
		if err == nil {
			ok, err = lock.Lock(false)
		}
		var named fs.FileInfo
		if ok {
			named, err = l.root.Lstat(l.name)
			if err == nil && os.SameFile(named, file.id) {
				if l.take(p, file, lock) {
					return true, nil
				}
				err = ErrClosed
			}
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				err = l.reopen(file)
			}
			err = cmp.Or(lock.Unlock(), err)
		}
		l.drop(file)
		if err != nil || !ok {
			return false, err
		}
	}
}

// take records a lock that the kernel has given, unless the LockFile is closed.
func (l *LockFile) take(p *lockPlace, file *lockedFile, lock *fileLock) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	p.file, p.lock = file, lock
	return true
}

// Unlock gives back the lock on the byte at off, which this LockFile must hold
// unless it is closed.
func (l *LockFile) Unlock(off int64) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil // Close has released it
	}
	p := l.places[off]
	if p == nil || p.file == nil {
		l.mu.Unlock()
		panic(fmt.Sprintf("filelog: byte %d of %s is not locked", off, l.path))
	}
	file, lock := p.file, p.lock
	p.file, p.lock = nil, nil
	l.mu.Unlock()
	err := lock.Unlock()
	l.drop(file)
	<-p.sem
	l.leave(off, p)
	if err != nil {
		return l.fail("unlock", err, "the lock ends when the file is closed")
	}
	return nil
}

// Held reports whether another open LockFile, of this process or another, holds
// the lock on the byte at off. Locks of this LockFile do not count.
func (l *LockFile) Held(off int64) (bool, error) {
	const op = "look at lock"
	file, err := l.current()
	if err != nil {
		return false, l.fail(op, err, "")
	}
	defer l.drop(file)
	lock, err := newFileLock(file.f, off)
	if err != nil {
		return false, l.fail(op, err, fixNoByteLock)
	}
	l.mu.Lock()
	p := l.places[off]
	own := p != nil && p.file == file
	l.mu.Unlock()
	if own {
		return false, nil
	}
	held, err := lock.Held()
	if err != nil {
		return false, l.fail(op, err, fixNothingWritten)
	}
	return held, nil
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
	if l.closed {
		l.mu.Unlock()
		return l.fail("close", ErrClosed, "")
	}
	l.closed = true
	open := l.open
	var held []lockPlace
	for _, p := range l.places {
		if p.file != nil {
			held = append(held, *p)
			p.file, p.lock = nil, nil
		}
	}
	l.mu.Unlock()
	var err error
	// Closing the descriptor releases the locks too, but not at once if a child
	// process has just inherited it.
	for _, p := range held {
		err = cmp.Or(err, p.lock.Unlock())
		l.drop(p.file)
	}
	l.drop(open)
	if err != nil {
		return l.fail("close", err, "the locks end with the process")
	}
	return nil
}

// enter registers the caller at a byte.
func (l *LockFile) enter(off int64) (*lockPlace, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	p := l.places[off]
	if p == nil {
		p = &lockPlace{sem: make(chan struct{}, 1)}
		l.places[off] = p
	}
	p.uses++
	return p, nil
}

// leave ends what enter has begun.
func (l *LockFile) leave(off int64, p *lockPlace) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.uses--; p.uses == 0 {
		delete(l.places, off)
	}
}

// current returns the descriptor in use, for the caller to drop.
func (l *LockFile) current() (*lockedFile, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	l.open.uses++
	return l.open, nil
}

// drop ends a use of a descriptor and closes it after the last one.
func (l *LockFile) drop(file *lockedFile) {
	l.mu.Lock()
	file.uses--
	last := file.uses == 0
	l.mu.Unlock()
	if last {
		_ = file.f.Close() // nothing was written to it
	}
}

// reopen opens the name anew if old is still the descriptor in use.
func (l *LockFile) reopen(old *lockedFile) error {
	file, err := l.openFile()
	if err != nil {
		return err
	}
	l.mu.Lock()
	switched := l.open == old && !l.closed
	if switched {
		l.open = file
	}
	l.mu.Unlock()
	if switched {
		l.drop(old)
		return nil
	}
	return file.f.Close()
}

// openFile opens the file, and creates it if there is none.
func (l *LockFile) openFile() (*lockedFile, error) {
	for {
		f, id, err := openRegular(l.root, l.name, os.O_RDWR)
		if err == nil {
			return &lockedFile{f: f, id: id, uses: 1}, nil
		}
		if errors.Is(err, ErrReplaced) {
			continue // between the look and the open
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		f, err = l.root.OpenFile(l.name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			err = f.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
}

func (l *LockFile) fail(op string, err error, fix string) error {
	return &Error{Op: op, Path: l.path, Fix: fix, Err: cause(err)}
}
