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
	seen    map[callKey]*places  // of calls whose ID the turn has more than once
}

// calls are the calls of a turn that have one ID.
type calls struct {
	first *call
	keyed bool // seen has the first one

	// The calls without a result, by answer: a result goes to the first call
	// of the last list. One answer may have several, with others in between.
	open  [][]*call
	early []*call
}

// callKey tells a call that is recorded twice.
type callKey struct{ id, name, input string }

// places are the answers that have a call; one of them is flat.
type places struct {
	answers map[*item]bool
	flat    bool
}

func newRunning() running {
	return running{
		byID: map[string]*item{}, calls: map[string]*calls{},
		waits: map[string][]*result{}, seen: map[callKey]*places{},
	}
}

// reset empties r for the next turn.
func (r *running) reset() {
	const large = 256
	if len(r.byID)+len(r.calls)+len(r.waits)+len(r.seen) > large { // clearing these would cost every later turn
		*r = newRunning()
		return
	}
	r.answers, r.indexed = r.answers[:0], 0
	clear(r.byID)
	clear(r.calls)
	clear(r.waits)
	clear(r.seen)
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
	delete(r.byID, r.answers[last].entry)
	r.answers, r.indexed = r.answers[:last], min(r.indexed, last)
}

// recorded reports whether an earlier call is the same as b, which is in ans
// or, if it is not grouped, may be in any answer; if not, it takes note of b.
func (r *running) recorded(same *calls, ans *item, b transcript.ToolCallBlock, grouped bool) bool {
	if first := same.first; !same.keyed {
		same.keyed = true
		r.recorded(same, first.item, first.recorded(), grouped)
	}
	shown, _ := normaliseCall(b, "", nil)
	key := callKey{b.ID, shown.Name, string(compact(shown.Input))}
	at := r.seen[key]
	if at == nil {
		at = &places{answers: map[*item]bool{}}
		r.seen[key] = at
	} else if !grouped || at.flat || at.answers[ans] {
		return true
	}
	at.answers[ans], at.flat = true, at.flat || ans.flat
	return false
}

// takeSpare returns the first spare result for a call; nil if there is none.
func (r *running) takeSpare(id string) *result {
	list := r.waits[id]
	if len(list) == 0 {
		return nil
	}
	res := list[0]
	r.waits[id] = list[1:]
	res.used, res.moved = true, true
	return res
}

// add takes the next call. Its result is set if that came before it.
func (c *calls) add(next *call) {
	last := len(c.open) - 1
	switch {
	case next.result != nil:
		c.early = append(c.early, next)
	case last >= 0 && c.open[last][0].item == next.item:
		c.open[last] = append(c.open[last], next)
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
