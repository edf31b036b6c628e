package rebuild

import "github.com/convolog/convolog/transcript"

// running indexes the last turn. It is emptied when the next turn starts.
type running struct {
	answers []*item
	byID    map[string]*item // by the IDs of their first lines
	calls   map[string]*calls
	waits   map[string][]*result // unused spares, by call ID
}

// calls are the calls of a turn with the same ID.
type calls struct {
	first *call
	seen  map[callKey]map[*item]bool // the answers with a call, nil for a flat answer; made for the second call

	// open holds the calls without a result, by answer: a result goes to the first call
	// of the last list. An answer may occur several times, with others in between.
	// early holds calls whose result came before them.
	open  [][]*call
	early []*call
}

// callKey identifies a call that is recorded twice.
type callKey struct{ name, input string }

func newRunning() running {
	return running{byID: map[string]*item{}, calls: map[string]*calls{}, waits: map[string][]*result{}}
}

func (r *running) reset() {
	const large = 256
	if len(r.byID)+len(r.calls)+len(r.waits) > large { // every later turn would pay for clearing large maps
		*r = newRunning()
		return
	}
	r.answers = r.answers[:0]
	clear(r.byID)
	clear(r.calls)
	clear(r.waits)
}

// recorded reports whether an earlier call is the same as b, and notes b if not. The
// earlier call must be in ans, or in any answer if b is not grouped.
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

// add takes the next call, whose result is set if it came before the call.
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

// find returns the call for a result: the first call without a result, in the latest
// answer that has one. Otherwise it returns the last call whose result came before it.
// find counts the call as answered.
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
