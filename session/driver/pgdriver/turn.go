package pgdriver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/convolog/convolog/session/driver"
)

// A lease is a turn lock that this driver holds. The row of the session holds the end of the
// lease, and the driver moves that end while the process runs. Each lease gets a higher
// fence, so that an append can name its lease.
type lease struct {
	holder string
	fence  int64
}

// LockTurn implements [driver.Driver]. The lock is a lease: if the process dies, the lock
// ends after Options.Lease. A process that pauses for longer loses the lock. Then its
// appends to the session fail with [driver.ErrBusy] until it releases the turn. Calling
// release again does nothing. Close does not end the lock: it is renewed until the turn is
// released or the pool is closed.
func (d *Driver) LockTurn(ctx context.Context, ref driver.Ref, wait bool) (release func() error, err error) {
	entering := ctx
	if wait {
		entering = context.WithoutCancel(ctx) // lockTurn reports the end of ctx
	}
	err = d.on(entering, "lock turn", ref, func() error {
		l, err := d.lockTurn(ctx, ref, wait)
		if err != nil {
			return err
		}
		d.mu.Lock()
		d.leases[ref] = l
		d.mu.Unlock()
		end := d.hold(func() error { return d.releaseTurn(ref, l) }, `UPDATE {s}.sessions SET turn_until = clock_timestamp() + $1
			WHERE agent = $2 AND id = $3 AND turn = $4 AND turn_until > clock_timestamp()`, ref.Agent, ref.ID, l.holder)
		release = func() error { return fail("release turn", ref, end()) }
		return nil
	})
	return release, err
}

func (d *Driver) lockTurn(ctx context.Context, ref driver.Ref, wait bool) (*lease, error) {
	l := &lease{holder: uuid.NewString()}
	err := d.await(ctx, func() (bool, error) {
		take := d.row(ctx, `UPDATE {s}.sessions SET turn = $3, turn_until = clock_timestamp() + $4, fence = fence + 1
			WHERE agent = $1 AND id = $2 AND NOT archived AND (turn IS NULL OR turn = $3 OR turn_until < clock_timestamp())
			RETURNING fence`, ref.Agent, ref.ID, l.holder, d.opts.Lease)
		err := take.Scan(&l.fence)
		if !errors.Is(err, pgx.ErrNoRows) {
			if err != nil {
				d.ops.Go(func() { _ = d.releaseTurn(ref, l) }) // an attempt may have taken the lock
			}
			return err == nil, err
		}
		row, err := d.get(ctx, ref)
		switch {
		case err != nil:
			return false, err
		case row.Archived:
			return false, driver.ErrArchived
		case !wait:
			return false, driver.ErrBusy
		}
		return false, nil
	})
	return l, err
}

// await calls take, with pauses, until take takes the lock or fails. If ctx ends the wait,
// the error matches [driver.ErrBusy] and the error of ctx.
func (d *Driver) await(ctx context.Context, take func() (taken bool, err error)) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrBusy, err)
	}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		taken, err := take()
		if taken {
			return nil
		}
		if err == nil {
			select {
			case <-time.After(pause):
			case <-d.closing.Done():
				return driver.ErrClosed
			case <-ctx.Done():
			}
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", driver.ErrBusy, ctx.Err())
		case err != nil:
			return err
		}
	}
}

// hold runs sql regularly to move the end of a lease, until the lease is released or lost.
// The release calls free.
func (d *Driver) hold(free func() error, sql string, args ...any) (release func() error) {
	stop := make(chan struct{})
	go d.renew(stop, sql, args)
	return sync.OnceValue(func() error {
		close(stop)
		return free()
	})
}

func (d *Driver) renew(stop <-chan struct{}, sql string, args []any) {
	tick := time.NewTicker(d.opts.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), d.opts.Lease)
		n, err := d.exec(ctx, sql, append([]any{d.opts.Lease}, args...)...)
		cancel()
		if err == nil && n == 0 {
			return // the lease is lost, and the fence stops every write
		}
	}
}

func (d *Driver) releaseTurn(ref driver.Ref, l *lease) error {
	d.mu.Lock()
	if d.leases[ref] == l {
		delete(d.leases, ref)
	}
	d.mu.Unlock()
	// WHERE turn = $3 would not wait for an attempt that is still taking the lock.
	_, err := d.exec(context.Background(), `UPDATE {s}.sessions SET turn = NULLIF(turn, $3),
		turn_until = CASE WHEN turn = $3 THEN NULL ELSE turn_until END WHERE agent = $1 AND id = $2`, ref.Agent, ref.ID, l.holder)
	return err
}

// fence returns the fence of the turn that this driver holds, or 0.
func (d *Driver) fence(ref driver.Ref) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.leases[ref]; l != nil {
		return l.fence
	}
	return 0
}
