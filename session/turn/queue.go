package turn

import (
	"context"
	"errors"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Queue keeps a text that the user sends while a turn is running, and returns its
// entry ID. No model sees it before [Drain]; until then [session.Session.Pending]
// returns it. A nil error means the same as for [session.Session.Append].
func Queue(ctx context.Context, s *session.Session, m transcript.Message) (string, error) {
	if m.Role != transcript.RoleUser {
		return "", failed("queue", s, errors.New("only messages of the user can be queued: nothing was written"))
	}
	ids, err := s.Append(ctx, transcript.Queued{Content: m.Content})
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// Drain appends the texts that were queued first, at most most of them or all if most
// is 0, as messages of the user in their order. It returns the IDs of these entries,
// none if nothing is queued. Each text is taken over once, whoever else drains, and
// stays taken over when a rewind takes the message back. Drain(ctx, s, 1) gives each
// text a turn of its own.
func Drain(ctx context.Context, s *session.Session, most int) ([]string, error) {
	return s.Update(ctx, "drain", func(v *session.View) (items []transcript.Item, err error) {
		queued := v.Fold().Standing().Queued
		if most > 0 {
			queued = queued[:min(most, len(queued))]
		}
		for _, q := range queued {
			items = append(items, transcript.Dequeued(q.Message, q.Entry))
		}
		return items, nil
	})
}
