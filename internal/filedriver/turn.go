package filedriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"sync"
	"time"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

// takeTurn takes the turn lock of a session if it is free.
func (x *index) takeTurn(id string) (release func(), err error) {
	if x.a.d.opts.ReadOnly {
		return nil, x.fail("write index", driver.ErrReadOnly, "open the store without ReadOnly")
	}
	release, err = x.lock.Claim(turnByte(id))
	return release, lockError(err)
}

// turnByte is the lock byte of a session's turns in sessions.lock, where it
// survives a copy of the transcript. Two sessions with the same byte, at a
// chance of 1 in 2^61, take turns with each other.
func turnByte(id string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	return 1<<62 | int64(h.Sum64()>>3)
}

// LockTurn implements [driver.Driver].
func (d *Driver) LockTurn(ctx context.Context, ref driver.Ref, wait bool) (func() error, error) {
	entering := ctx
	if wait {
		entering = context.WithoutCancel(ctx) // the wait itself ends with ctx, and reports it
	}
	if err := d.enter(entering); err != nil {
		return nil, err
	}
	defer d.ops.Done()
	a, err := d.existing(ref)
	if err != nil {
		return nil, err
	}
	if d.opts.ReadOnly {
		return nil, d.readOnly("lock turn", d.Path(ref))
	}
	// The lock uses its own open file, because it outlives Close.
	l, err := filelog.OpenLockFile(a.root, lockName)
	if err != nil {
		return nil, err
	}
	off := turnByte(ref.ID)
	began := time.Now()
	if wait {
		stop := context.AfterFunc(d.closing, l.Interrupt)
		err = l.Lock(ctx, off)
		stop()
	} else {
		err = l.TryLock(off)
	}
	d.waited(ctx, ref, "turn", began, err)
	if err = lockError(err); err == nil {
		_, err = a.live(ref.ID) // it may have been deleted or archived while this call waited
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %w", driver.ErrReplaced, err)
		}
	}
	if err != nil {
		_ = l.Close() // releases the lock, if this call has it
		return nil, err
	}
	return sync.OnceValue(func() error { return cmp.Or(l.Unlock(off), l.Close()) }), nil
}
