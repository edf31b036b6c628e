package replay

import (
	"fmt"
	"slices"
	"sync"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// Keeps reports whether the fold would keep exactly the part of the history that a cut
// keeps.
func (r *Reader) Keeps(c compact.Cut) bool {
	after, _ := r.Fold.Preview(transcript.Compaction{Summary: "-", FirstKept: c.FirstKept, CoversTo: c.CoversTo, Read: c.Read})
	now := r.Fold.History().Messages
	return c.At <= len(now) && slices.Equal(places(now[c.At:]), places(after.Messages))
}

// Replaces reports whether the part of a planned history that a cut replaces is unchanged.
func (r *Reader) Replaces(c compact.Cut, planned rebuild.History) bool {
	covered, now := places(planned.Messages[:c.At]), places(r.Fold.History().Messages)
	return len(covered) <= len(now) && slices.Equal(covered, now[:len(covered)])
}

// Size returns the tokens of the history by the counter of the store, and by the counter
// of the trigger if that is set.
func (r *Reader) Size() (stored, trigger int) {
	stored = r.stored.Count(r.Fold)
	if trigger = stored; r.trigger.Counter != nil {
		trigger = r.trigger.Count(r.Fold)
	}
	return stored, trigger
}

// FirstWaiting returns the index of the first message with a call that waits for a
// person or was approved, or else the number of messages.
func FirstWaiting(fold *rebuild.Fold) int {
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

// Complete fills in the compaction among items, if there is one, and also returns it. The
// system prompt and the tools go before it.
func (r *Reader) Complete(items []transcript.Item) ([]transcript.Item, *transcript.Compaction, error) {
	i := slices.IndexFunc(items, func(item transcript.Item) bool { _, ok := item.(transcript.Compaction); return ok })
	if i < 0 {
		return items, nil, nil
	}
	c, _ := items[i].(transcript.Compaction)
	if !r.measure(&c) {
		return nil, nil, fmt.Errorf("the compaction does not keep exactly the messages from entry %q on, or replaces messages that it has not read: %w", c.FirstKept, driver.ErrConflict)
	}
	kept := sync.OnceValue(func() map[string]bool {
		entries := map[string]bool{}
		after, _ := r.Fold.Preview(c)
		for _, p := range places(after.Messages) {
			entries[p.entry] = true
		}
		return entries
	})
	keeps := func(entry string) bool { return kept()[entry] }
	c.Standing = slices.Concat([]transcript.Entry{}, r.keys.kept(), r.Learned("").carried(c, keeps), r.Fold.Standing().Entries())
	return slices.Concat(items[:i], r.Fold.Prompts(), []transcript.Item{c}, items[i+1:]), &c, nil
}

// measure sets the numbers of a compaction that is about to be appended. It reports
// whether the compaction keeps the end of the history as it is, and has read the rest: a
// late result of a call that it replaces is neither kept nor read.
func (r *Reader) measure(c *transcript.Compaction) bool {
	after, turns := r.Fold.Preview(*c)
	now, kept := r.Fold.History().Messages, places(after.Messages)
	all := places(now)
	gone := all[:max(0, len(all)-len(kept))]
	if !slices.Equal(all[len(gone):], kept) {
		return false
	}
	batches := map[string]int{}
	for _, m := range now {
		for _, o := range m.Origins {
			batches[o.Entry] = o.Batch
		}
	}
	unread := func(p place) bool { // a cut may split an append
		n := batches[p.entry]
		return n > batches[c.CoversTo] && n != batches[c.FirstKept] && !slices.Contains(c.Read, p.entry)
	}
	if slices.ContainsFunc(gone, unread) {
		return false
	}
	c.TurnsBefore = max(0, r.Fold.Turns()-turns)
	c.TokensBefore = r.stored.Count(r.Fold)
	c.TokensAfter = CountHistory(r.opts.Counter, after)
	return true
}

// CountHistory is the count of a [rebuild.Tally] for a history.
func CountHistory(c tokens.Counter, h rebuild.History) (n int) {
	n = c.Count(h.SystemPrompt(""), nil, nil)
	for i := range h.Messages {
		n += c.Count("", nil, h.Messages[i:i+1])
	}
	return n
}

// place is where a block came from.
type place struct {
	entry string
	block int
}

// places lists the blocks of messages that entries hold. System prompts are
// left out: a compaction puts the last one at the top.
func places(msgs []transcript.Message) (all []place) {
	for _, m := range msgs {
		for _, o := range m.Origins {
			if o.Batch > 0 && o.Block != transcript.PromptEntry {
				all = append(all, place{o.Entry, o.Block})
			}
		}
	}
	return all
}
