package rebuild

import "github.com/convolog/convolog/transcript"

// running finds things in the last turn. It is emptied when the next one
// starts.
type running struct {
	answers []*item
	byID    map[string]*item // by their first lines
	calls   map[string]*calls
	waits   map[string][]*result // spares that are not used, by call ID
}

// calls are the calls of a turn that have one ID.
type calls struct {
	first *call
	seen  map[callKey]map[*item]bool // the answers with a call, nil for a flat one; made for the second call

	// The calls without a result, by answer: a result goes to the first call
	// of the last list. One answer may have several, with others in between.
	open  [][]*call
	early []*call
}

// callKey tells a call that is recorded twice.
type callKey struct{ name, input string }

func newRunning() running {
	return running{byID: map[string]*item{}, calls: map[string]*calls{}, waits: map[string][]*result{}}
}

func (r *running) reset() {
	const large = 256
	if len(r.byID)+len(r.calls)+len(r.waits) > large { // clearing these would cost every later turn
		*r = newRunning()
		return
	}
	r.answers = r.answers[:0]
	clear(r.byID)
	clear(r.calls)
	clear(r.waits)
}

// recorded reports whether an earlier call is the same as b, which is in ans
// or, if it is not grouped, may be in any answer; if not, it notes b.
func (c *calls) recorded(ans *item, b transcript.ToolCallBlock, grouped bool) bool {
	if c.seen == nil {
		c.seen = map[callKey]map[*item]bool{}
		c.recorded(c.first.item, c.first.recorded(), grouped)
	}
	shown, _ := normaliseCall(nil, b, "")
	key := callKey{shown.Name, string(compact(shown.Input))}
	in := c.seen[key]
	if in == nil {
		in = map[*item]bool{}
		c.seen[key] = in
	} else if !grouped || in[nil] || in[ans] {
		return true
	}
	if ans.flat {
		ans = nil
	}
	in[ans] = true
	return false
}

func (r *running) takeSpare(id string) *result {
	list := r.waits[id]
	if len(list) == 0 {
		return nil
	}
	r.waits[id] = list[1:]
	list[0].used, list[0].moved = true, true
	return list[0]
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
