package session

import (
	"slices"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// keeps reports whether the fold would keep exactly the kept part of a cut of
// the present history.
func (s *Session) keeps(c compact.Cut) bool {
	ok := false
	t := s.store.table.acquire(s.ref)
	defer s.store.table.release(t)
	_ = t.locked(func() error { // reads nothing, so it cannot fail
		if t.fold == nil {
			return nil // forgotten in between, and so is the planned history
		}
		after, _ := t.fold.Preview(transcript.Compaction{Summary: "-", FirstKept: c.FirstKept, CoversTo: c.CoversTo, Read: c.Read})
		now := t.fold.History().Messages
		ok = c.At <= len(now) && slices.Equal(places(now[c.At:]), places(after.Messages))
		return nil
	})
	return ok
}

// firstWaiting returns the index of the first message with a call that waits for a
// person or was approved, and the number of messages without one.
func firstWaiting(fold *rebuild.Fold) int {
	waiting := map[string]bool{}
	for _, c := range fold.Pending().Calls {
		waiting[c.Entry] = waiting[c.Entry] || c.State == rebuild.Held || c.State == rebuild.Approved
	}
	messages := fold.History().Messages
	for i, m := range messages {
		if slices.ContainsFunc(m.Origins, func(o transcript.Origin) bool { return waiting[o.Entry] }) {
			return i
		}
	}
	return len(messages)
}
