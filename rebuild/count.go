package rebuild

import (
	"slices"

	"github.com/convolog/convolog/transcript"
)

// Counter counts tokens. Those of package tokens are Counters.
type Counter interface {
	// Count returns the tokens of a system prompt, tools and messages, each of
	// which may be empty.
	Count(system string, tools []transcript.Tool, messages []transcript.Message) int
}

// Tally counts the tokens of the history of a [Fold] and keeps the count, so
// that asking again costs what was added since. The total is the count of the
// system prefix plus that of each message on its own. It depends on the history
// alone: not on when it was asked for, nor on what was counted before.
//
// A Tally calls its Counter about once for each message. A compaction, a clip
// and a rewind make it count the history anew; a late result makes it count
// anew from the message with the call on. It is for one goroutine. After a panic
// of the Counter it is what it was before.
type Tally struct {
	Counter Counter

	asm   *assembler // whose messages were counted
	lines int        // how many lines asm had then
	late  int        // how many places of asm.late are taken into account
	found int        // asm.found then
	total int
	marks []mark    // where messages begin that do not change what is before them
	open  []counted // the messages behind the last mark
}

// mark is an answer with which a message begins, and the tokens of all
// messages before it.
type mark struct{ item, before int }

// counted is a message, identified by the places of its blocks.
type counted struct {
	role    transcript.Role
	plain   bool // its content is a string
	origins []transcript.Origin
	tokens  int
}

// Count returns the tokens of the history of f.
func (t *Tally) Count(f *Fold) int {
	a := f.live()
	if a == t.asm && a.lines == t.lines {
		return t.total
	}
	now := *t
	if a != t.asm || a.found != t.found {
		now = Tally{Counter: t.Counter, asm: a, found: a.found}
	}
	for _, item := range a.late[now.late:] {
		for n := len(now.marks); n > 0 && now.marks[n-1].item >= item; n-- {
			now.marks, now.open = now.marks[:n-1:n-1], nil
		}
	}
	now.late, now.lines = len(a.late), a.lines
	now.count()
	*t = now
	return t.total
}

// count renders and counts what is behind the last mark.
func (t *Tally) count() {
	var r rendering
	from, first := 0, 0
	t.total = 0
	if n := len(t.marks); n > 0 {
		from, t.total = t.marks[n-1].item, t.marks[n-1].before
		r.msgs = append(r.msgs, plainMessage) // the user's, which an answer follows
		first = 1
	} else {
		if t.asm.system != "" {
			t.total = t.Counter.Count(t.asm.system, nil, nil)
		}
		r.prelude(t.asm.prelude)
	}
	plain := make([]bool, len(r.msgs), cap(r.msgs))
	var begins []mark // of messages; before is the index of the message
	last := 0         // the last answer
	for i, it := range t.asm.items[from:] {
		n := len(r.msgs)
		r.item(it)
		if len(r.msgs) > 0 {
			plain = append(plain, make([]bool, len(r.msgs)-n)...)
			plain[len(plain)-1] = r.plain
		}
		if it.answer {
			last = from + i
			if n > 0 && len(r.msgs) > n && r.msgs[n].Role == transcript.RoleAssistant {
				begins = append(begins, mark{last, n})
			}
		}
	}

	open := make([]counted, 0, len(r.msgs)-first)
	behind := 0 // the first message behind the last mark
	for i, m := range r.msgs[first:] {
		if len(begins) > 0 && begins[0].before == first+i {
			// Only a late result changes a message before the last answer.
			if begins[0].item < last && begins[0].item > from {
				t.marks = append(t.marks, mark{begins[0].item, t.total})
				behind = i
			}
			begins = begins[1:]
		}
		c := counted{role: m.Role, plain: plain[first+i], origins: m.Origins}
		if i < len(t.open) && t.open[i].is(c) {
			c.tokens = t.open[i].tokens
		} else {
			c.tokens = t.Counter.Count("", nil, r.msgs[first+i:first+i+1])
		}
		t.total += c.tokens
		open = append(open, c)
	}
	t.open = slices.Clone(open[behind:])
}

// is reports whether two messages have the same blocks.
func (c counted) is(d counted) bool {
	return c.role == d.role && c.plain == d.plain && slices.Equal(c.origins, d.origins)
}

// touched notes that an answer has changed. Only that of answers before the
// last one is kept: a Tally counts the last one anew anyway.
func (a *assembler) touched(it *item) {
	later := false
	for i, other := range slices.Backward(a.items) {
		if other == it {
			if later {
				a.late = append(a.late, i)
			}
			return
		}
		later = later || other.answer
	}
}

// Answered returns the model that the last answer of the history names; empty
// if there is no answer or it names none. Its cost does not depend on the length
// of the history.
func (f *Fold) Answered() (model string) {
	found := false
	for _, it := range slices.Backward(f.live().items) {
		calls := slices.ContainsFunc(it.calls, (*call).kept)
		switch {
		case !calls && len(it.parts) == len(it.calls): // nothing of it is shown
		case !it.answer && !found:
		case !it.answer || found && calls: // another message
			return model
		default:
			model, found = it.model, true
		}
	}
	return model
}
