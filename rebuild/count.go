package rebuild

import (
	"slices"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// Tally counts the tokens of the history of a [Fold] and keeps the count, so a later
// count costs only the additions. The total is the count of [History.SystemPrompt] plus
// a separate count of each message. The total depends only on the history, not on the
// time or on earlier counts.
//
// A Tally calls its Counter about once for each message. After a compaction, a clip, a
// hide or a rewind it counts the history again. After a late result it counts again
// from the message with the call. A Tally is for one goroutine. A panic of the Counter
// leaves it unchanged.
type Tally struct {
	Counter tokens.Counter

	asm   *assembler // whose messages were counted
	nodes int        // number of nodes in the fold at that time
	late  int        // number of places of asm.late that are included
	total int
	marks []mark    // starts of messages that do not change earlier ones
	open  []counted // the messages after the last mark
}

// mark is an answer that begins a message, and the tokens of all messages before it.
type mark struct{ item, before int }

// counted is a message and its tokens.
type counted struct {
	transcript.Message
	tokens int
}

// Count returns the tokens of the history of f.
func (t *Tally) Count(f *Fold) int {
	a := f.live()
	if a == t.asm && len(f.nodes) == t.nodes {
		return t.total
	}
	now := *t
	if a != t.asm {
		now = Tally{Counter: t.Counter, asm: a}
	}
	for _, item := range a.late[now.late:] {
		now.open = nil
		for n := len(now.marks); n > 0 && now.marks[n-1].item >= item; n-- {
			now.marks = now.marks[: n-1 : n-1]
		}
	}
	now.late, now.nodes = len(a.late), len(f.nodes)
	now.total = now.count()
	*t = now
	return t.total
}

func (t *Tally) count() (total int) {
	var r rendering
	from, first := 0, 0
	if n := len(t.marks); n > 0 {
		from, total = t.marks[n-1].item, t.marks[n-1].before
		r.msgs = append(r.msgs, plainMessage) // the user's, which an answer follows
		first = 1
	} else {
		total = t.Counter.Count(t.asm.front().SystemPrompt(""), nil, nil)
		for _, it := range t.asm.prelude {
			r.item(it)
		}
	}
	var open []counted
	done := first
	count := func(end int) {
		for ; done < end; done++ {
			c := counted{Message: r.msgs[done]}
			if i := done - first; i < len(t.open) && t.open[i].is(c.Message) {
				c.tokens = t.open[i].tokens
			} else {
				c.tokens = t.Counter.Count("", nil, r.msgs[done:done+1])
			}
			total += c.tokens
			open = append(open, c)
		}
	}
	begun := mark{before: first} // the last answer, if a message begins with it; before is the index of the message
	for i, it := range t.asm.items[from:] {
		if it.answer && begun.before > first { // only a late result changes a message before the last answer
			count(begun.before)
			t.marks, open = append(t.marks, mark{begun.item, total}), nil
			begun.before = first
		}
		n := len(r.msgs)
		r.item(it)
		if it.answer && len(r.msgs) > n && r.msgs[n].Role == transcript.RoleAssistant {
			begun = mark{from + i, n}
		}
	}
	count(len(r.msgs))
	t.open = open
	return total
}

// is reports whether two messages have the same blocks.
func (c counted) is(m transcript.Message) bool {
	return c.Role == m.Role && c.Plain() == m.Plain() && slices.Equal(c.Origins, m.Origins)
}
