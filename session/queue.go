package session

import (
	"context"
	"errors"
	"math"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Queue keeps what a user says while a turn is running, and returns its entry ID.
// No model sees it before [Turn.Drain]; until then [Session.Pending] has it. A nil
// error and others mean what they mean for [Session.Append].
func (s *Session) Queue(ctx context.Context, m transcript.Message) (string, error) {
	if m.Role != transcript.RoleUser {
		return "", s.store.wrap("queue", s.ref, errors.New("only messages of the user can be queued: nothing was written"))
	}
	ids, err := s.append(ctx, "queue", driver.Cond{}, transcript.Queued{Content: m.Content})
	if err != nil {
		return "", err
	}
	return ids.IDs[0], nil
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
	return t.s.appendOn(ctx, "drain", []string{transcript.TypeUser, transcript.TypeCompaction}, func(st *state) (items []transcript.Item, err error) {
		for _, q := range st.fold.Standing().Queued {
			if len(items) < most {
				items = append(items, transcript.Dequeued(q.Message, q.Entry))
			}
		}
		return items, nil
	})
}
