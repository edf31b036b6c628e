package session

import (
	"context"
	"errors"
	"math"

	"github.com/convolog/convolog/transcript"
)

// Turn is a held turn lock.
type Turn struct {
	release func() error
	s       *Session
}

// BeginTurn takes the turn lock of the session: the opt-in rule that one turn
// at a time runs on it, in all processes. It waits until the lock is free or
// ctx is done; the error then matches [ErrBusy] and that of ctx, also if ctx was
// done before the call. The lock ends with End or with the process, however that ends. It keeps out other turns,
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

// Queue keeps what a user says while a turn is running, and returns its entry ID.
// No model sees it before [Turn.Drain]; until then [Session.Pending] has it. A nil
// error and others mean what they mean for [Session.Append].
func (s *Session) Queue(ctx context.Context, m transcript.Message) (string, error) {
	if m.Role != transcript.RoleUser {
		return "", s.store.wrap("queue", s.ref, errors.New("only messages of the user can be queued: nothing was written"))
	}
	ids, err := s.Append(ctx, transcript.Queued{Content: m.Content})
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// Drain appends the texts that were queued, in their order, as messages of the
// user, and returns the IDs of these entries; none if nothing is queued. Each text
// is taken over once, whoever else drains, and stays so when a rewind takes the
// message back.
func (t *Turn) Drain(ctx context.Context) ([]string, error) { return t.drain(ctx, math.MaxInt) }

// DrainOne is Drain for the text that was queued first, so that each gets a turn of
// its own. The ID is empty if nothing is queued.
func (t *Turn) DrainOne(ctx context.Context) (string, error) {
	ids, err := t.drain(ctx, 1)
	if err != nil || len(ids) == 0 {
		return "", err
	}
	return ids[0], nil
}

func (t *Turn) drain(ctx context.Context, most int) ([]string, error) {
	return t.s.Update(ctx, "drain", func(v *View) (items []transcript.Item, err error) {
		for _, q := range v.Fold().Standing().Queued {
			if len(items) < most {
				items = append(items, transcript.Dequeued(q.Message, q.Entry))
			}
		}
		return items, nil
	})
}
