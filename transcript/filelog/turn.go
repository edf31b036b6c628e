package filelog

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync"
)

// LockTurn takes the turn lock of the file: a second lock, independent of the
// append lock, that may be held for as long as the caller likes. It waits until
// the lock is free or the context is done, and then fails with an error that
// matches [ErrBusy] and the context's. Nobody else holds the lock, in this
// process or another, until release is called or the process ends, however it
// ends. Calling release again does nothing.
//
// The lock keeps out other holders, not appends. It outlives Close. Where the
// system has no lock on a part of a file, LockTurn returns
// [errors.ErrUnsupported]; on Linux and Windows it has one.
func (l *Log) LockTurn(ctx context.Context) (release func() error, err error) {
	return l.lockTurn(ctx, true)
}

// TryLockTurn is [Log.LockTurn] without the wait: it fails with [ErrBusy] when
// the lock is held.
func (l *Log) TryLockTurn() (release func() error, err error) {
	return l.lockTurn(context.Background(), false)
}

// lockTurn takes the turn lock. If it must not wait, it does not look at ctx.
func (l *Log) lockTurn(ctx context.Context, wait bool) (release func() error, err error) {
	const op = "lock turn"
	if err := l.begin(op); err != nil {
		return nil, err
	}
	defer l.ops.Done()
	if l.opts.ReadOnly {
		return nil, l.fail(op, ErrReadOnly, fixWritable)
	}
	began := l.now()
	t, err := l.takeTurn(ctx, op, wait)
	l.tellWait(ctx, TurnLock, since(began), err)
	if err != nil {
		return nil, err
	}
	return sync.OnceValue(func() error {
		defer func() { <-l.turning }()
		return t.release(l)
	}), nil
}

// takeTurn takes first the place within this Log, then the kernel's lock.
func (l *Log) takeTurn(ctx context.Context, op string, wait bool) (*turn, error) {
	if wait {
		if ctx.Err() != nil {
			return nil, l.fail(op, busy(ctx), fixBusy)
		}
		if err := l.enter(ctx, op, l.turning); err != nil {
			return nil, err
		}
	} else {
		select {
		case l.turning <- struct{}{}:
		default:
			return nil, l.fail(op, ErrBusy, fixBusy)
		}
	}
	t, err := l.openTurn(ctx, op, wait)
	if err != nil {
		<-l.turning
	}
	return t, err
}

// A turn is a held turn lock. Its descriptor is its own: a lock belongs to an
// open file, and this one must outlive the Log.
type turn struct {
	f    *os.File
	lock *fileLock
}

// openTurn takes the kernel's half of the turn lock.
func (l *Log) openTurn(ctx context.Context, op string, wait bool) (_ *turn, err error) {
	f, id, err := openRegular(l.root, l.name, os.O_RDWR)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = ErrReplaced
		}
		return nil, l.fail(op, err, fixReopen)
	}
	defer func() {
		if err != nil {
			_ = f.Close() // nothing was done with it
		}
	}()
	if !os.SameFile(l.current.Load().id, id) {
		return nil, l.fail(op, ErrReplaced, fixReopen)
	}
	lock, err := newFileLock(f, turnByte)
	if err != nil {
		return nil, l.fail(op, err, "this system has no lock on a part of a file")
	}
	try := func() (bool, error) { return lock.Lock(false) }
	if wait {
		err = l.poll(ctx, op, try)
	} else if ok, tryErr := try(); tryErr != nil {
		err = l.fail(op, tryErr, fixNothingWritten)
	} else if !ok {
		err = l.fail(op, ErrBusy, fixBusy)
	}
	if err != nil {
		return nil, err
	}
	// Whoever held the lock may have replaced the file.
	if _, err := l.lookup(op); err != nil {
		return nil, err
	}
	return &turn{f, lock}, nil
}

// release gives the lock back. Closing the descriptor would do, but not at
// once if a child process is just being started.
func (t *turn) release(l *Log) error {
	if err := cmp.Or(t.lock.Unlock(), t.f.Close()); err != nil {
		return l.fail("unlock turn", err, "the lock ends with the process")
	}
	return nil
}
