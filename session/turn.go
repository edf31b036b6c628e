package session

import (
	"context"
	"errors"
)

// Turn is a held turn lock.
type Turn struct {
	release func() error
	s       *Session
}

// BeginTurn takes the turn lock of the session: the opt-in rule that one turn
// at a time runs on it, in all processes. It waits until the lock is free or
// ctx is done; the error then matches [ErrBusy] and that of ctx. The lock ends
// with End or with the process, however that ends. It keeps out other turns,
// not appends.
func (s *Session) BeginTurn(ctx context.Context) (*Turn, error) { return s.beginTurn(ctx, true) }

// TryBeginTurn is BeginTurn without the wait: if another turn is running the
// error matches [ErrBusy].
func (s *Session) TryBeginTurn(ctx context.Context) (*Turn, error) { return s.beginTurn(ctx, false) }

func (s *Session) beginTurn(ctx context.Context, wait bool) (*Turn, error) {
	release, err := s.store.drv.LockTurn(ctx, s.ref, wait)
	if err = s.store.done(ctx, "begin turn", s.ref, err); err != nil {
		return nil, err
	}
	t := &Turn{release: release, s: s}
	if err := s.closeDrafts(ctx); err != nil {
		return nil, errors.Join(err, t.End())
	}
	return t, nil
}

// End releases the lock and brings the index up to date. Calling it again does
// nothing.
func (t *Turn) End() error {
	err := t.release()
	t.s.turnEnded(context.Background())
	return t.s.store.wrap("end turn", t.s.ref, err)
}

// turnEnded puts the row of the session.
func (s *Session) turnEnded(ctx context.Context) {
	t := s.store.table.acquire(s.ref)
	defer s.store.table.release(t)
	s.store.putRow(ctx, t, true)
	s.store.tell(ctx, s.ref)
}
