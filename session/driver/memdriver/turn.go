package memdriver

import (
	"context"
	"fmt"
	"sync"

	"github.com/convolog/convolog/session/driver"
)

// LockTurn implements [driver.Driver]. Calling release again does nothing. A
// lock outlives Close.
func (d *memory) LockTurn(ctx context.Context, ref driver.Ref, wait bool) (release func() error, err error) {
	const op = "LockTurn"
	looking := ctx
	if wait {
		looking = context.WithoutCancel(ctx) // waitTurn reports the end of ctx
	}
	s, err := d.find(looking, op, ref)
	if err != nil {
		return nil, err
	}
	d.waiting.Add(1)
	defer d.waiting.Done()
	d.storage.mu.Unlock()

	if err := d.lockTurn(ctx, s, wait); err != nil {
		return nil, fail(op, ref, err)
	}
	return sync.OnceValue(func() error {
		<-s.turn
		return nil
	}), nil
}

func (d *memory) lockTurn(ctx context.Context, s *session, wait bool) error {
	if err := d.waitTurn(ctx, s, wait); err != nil {
		return err
	}
	select {
	case <-s.gone: // while waiting
		<-s.turn
		return errNoSession
	default:
	}
	d.storage.mu.Lock()
	defer d.storage.mu.Unlock()
	err := s.live()
	if err != nil {
		<-s.turn
	}
	return err
}

func (d *memory) waitTurn(ctx context.Context, s *session, wait bool) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrBusy, err)
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	default:
	}
	if !wait {
		return driver.ErrBusy
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-s.gone:
		return errNoSession
	case <-d.closing:
		return driver.ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", driver.ErrBusy, ctx.Err())
	}
}
