package rebuild

import "github.com/convolog/convolog/transcript"

// running finds things in the last turn. It is emptied when the next one
// starts.
type running struct {
	answers []*item
	byID    map[string]*item // the first answers, see answer
	indexed int              // how many
	calls   map[string]*calls
	waits   map[string][]*result // spares that are not used, by call ID
	seen    map[callKey]bool     // of calls whose ID the turn has more than once
}

// calls are the calls of a turn that have one ID.
type calls struct {
	first *call
	keyed bool // seen has the first one

	// The calls without a result, by answer: a result goes to the first call
	// of the last list. One answer may have several, with others in between.
	open   [][]*call
	last   *item // the answer of the last call
	sealed int   // how many lists came before those of last
	early  []*call
}

// callKey tells a call that is recorded twice. in is the answer it was found
// in, flatCalls for any answer that is not grouped, or nil for any answer.
type callKey struct {
	in              *item
	id, name, input string
}

var flatCalls = new(item)

func newRunning() running {
	return running{
		byID: map[string]*item{}, calls: map[string]*calls{},
		waits: map[string][]*result{}, seen: map[callKey]bool{},
	}
}

// reset empties r for the next turn.
func (r *running) reset() {
	r.answers, r.indexed = r.answers[:0], 0
	r.byID, r.calls = emptied(r.byID), emptied(r.calls)
	r.waits, r.seen = emptied(r.waits), emptied(r.seen)
}

// emptied returns an empty map: m, unless it is so large that clearing it would
// cost every later turn.
func emptied[K comparable, V any](m map[K]V) map[K]V {
	const large = 64
	switch n := len(m); {
	case n > large:
		return map[K]V{}
	case n > 0:
		clear(m)
	}
	return m
}

// answer returns the answer with that first line; nil if there is none.
// Answers are indexed when one is asked for: most turns never ask.
func (r *running) answer(id string) *item {
	for ; r.indexed < len(r.answers); r.indexed++ {
		r.byID[r.answers[r.indexed].entry] = r.answers[r.indexed]
	}
	return r.byID[id]
}

// dropLast takes back the last answer.
func (r *running) dropLast() {
	last := len(r.answers) - 1
	id := r.answers[last].entry
	r.answer(id)
	delete(r.byID, id)
	r.answers, r.indexed = r.answers[:last], last
}

// recorded reports whether an earlier call is the same as b, which is in ans
// or, if it is not grouped, may be in any answer; if not, it takes note of b.
func (r *running) recorded(same *calls, ans *item, b transcript.ToolCallBlock, grouped bool) bool {
	if !same.keyed {
		same.keyed = true
		r.see(keyOf(same.first.recorded()), same.first.item)
	}
	key := keyOf(b)
	within := func(in *item) bool { key.in = in; return r.seen[key] }
	if !grouped && within(nil) || within(ans) || within(flatCalls) {
		return true
	}
	r.see(key, ans)
	return false
}

func (r *running) see(key callKey, ans *item) {
	key.in = nil
	r.seen[key] = true
	key.in = ans
	r.seen[key] = true
	if ans.flat {
		key.in = flatCalls
		r.seen[key] = true
	}
}

func keyOf(b transcript.ToolCallBlock) callKey {
	shown, _ := normaliseCall(b, "", nil)
	return callKey{id: b.ID, name: shown.Name, input: string(compact(shown.Input))}
}

// takeSpare returns the first spare result for a call; nil if there is none.
func (r *running) takeSpare(id string) *result {
	list := r.waits[id]
	if len(list) == 0 {
		return nil
	}
	res := list[0]
	r.waits[id] = list[1:]
	res.used, res.moved, res.early = true, true, true
	return res
}

// add takes the next call. Its result is set if that came before it.
func (c *calls) add(next *call) {
	if c.last != next.item {
		c.last, c.sealed = next.item, len(c.open)
	}
	switch {
	case next.result != nil:
		c.early = append(c.early, next)
	case len(c.open) > c.sealed:
		c.open[len(c.open)-1] = append(c.open[len(c.open)-1], next)
	default:
		c.open = append(c.open, []*call{next})
	}
}

// find returns the call that a result is for: without a result, the first such
// one of the latest answer that has any; else the last one whose result came
// before it. It counts the call as answered.
func (c *calls) find() *call {
	if c == nil {
		return nil
	}
	if last := len(c.open) - 1; last >= 0 {
		found := c.open[last][0]
		if c.open[last] = c.open[last][1:]; len(c.open[last]) == 0 {
			c.open = c.open[:last]
			c.sealed = min(c.sealed, last)
		}
		return found
	}
	if last := len(c.early) - 1; last >= 0 {
		found := c.early[last]
		c.early = c.early[:last]
		return found
	}
	return nil
}
