package turn

import (
	"context"
	"errors"

	"github.com/convolog/convolog/session"
)

// A Turn is a held turn lock. It is for one goroutine.
type Turn struct {
	s      *session.Session
	unlock func() error
	draft  *Draft // the last one
	open   bool   // a draft may have flushed text
}

// Begin takes the turn lock of the session, which is opt-in: with it, one turn at a
// time runs, in all processes. It waits until the lock is free or ctx is done; the
// error then matches [session.ErrBusy] and the error of ctx. The lock ends with End or
// with the process. It keeps out other turns, not appends.
//
// Begin closes the draft of a turn that has died, see [Draft].
func Begin(ctx context.Context, s *session.Session) (*Turn, error) { return begin(ctx, s, true) }

// TryBegin is Begin without the wait: if another turn is running the error matches
// [session.ErrBusy].
func TryBegin(ctx context.Context, s *session.Session) (*Turn, error) { return begin(ctx, s, false) }

// begin takes the turn lock, and waits for it if wait is set.
func begin(ctx context.Context, s *session.Session, wait bool) (*Turn, error) {
	unlock, err := s.LockTurn(ctx, wait)
	if err != nil {
		return nil, err
	}
	if err := closeDraft(ctx, s); err != nil {
		return nil, errors.Join(err, unlock())
	}
	return &Turn{s: s, unlock: unlock}, nil
}

// End releases the lock and brings the index up to date. Calling it again does
// nothing.
func (t *Turn) End() error { return t.unlock() }

func failed(op string, s *session.Session, err error) error {
	return &session.Error{Op: op, Session: s.Ref(), Err: err}
}

// A conflict is an error that matches [session.ErrConflict], for a call that cannot succeed
// later either.
type conflict string

func (c conflict) Error() string        { return string(c) }
func (c conflict) Is(target error) bool { return target == session.ErrConflict }
