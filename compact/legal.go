package compact

import (
	"math"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// legalCuts says for each index whether a history may be cut there.
//
// A fold finds the kept part by the order of the lines, and a history is not
// always in that order: results are moved to their calls. So what is before the
// cut must have been appended before what is after it. The exception is a
// result that came late: the fold leaves it out of the kept part, where its
// call is not, unless a call there has the same ID. And a result that came in
// the turn before that of its call is found only if all of that turn is kept.
func legalCuts(msgs []transcript.Message) []bool {
	n := len(msgs)
	oldest := make([]int, n+1) // the first append of anything from i on
	oldest[n] = math.MaxInt
	for i := n - 1; i >= 0; i-- {
		oldest[i] = oldest[i+1]
		for _, o := range msgs[i].Origins {
			if o.Batch > 0 {
				oldest[i] = min(oldest[i], o.Batch)
			}
		}
	}
	lastCall := map[string]int{} // ID -> the last message that calls it
	for i, m := range msgs {
		for _, c := range m.ToolCalls() {
			lastCall[c.ID] = i
		}
	}

	legal := make([]bool, n)
	newest := 0   // the last append of anything before i
	blocked := -1 // a late result could be taken for one of a call up to here
	turn, before := 0, 0
	for i, m := range msgs {
		if starts(msgs, i) {
			before, turn = turn, i
		}
		answers := false
		for j, b := range m.Content {
			r, ok := b.(transcript.ToolResultBlock)
			if !ok {
				continue
			}
			answers = true
			if o := m.Origins[j]; o.Batch > 0 && turn > 0 && o.Batch < batch(msgs[turn]) {
				for k := before + 1; k <= turn; k++ {
					legal[k] = false
				}
			} else if o.Batch >= oldest[i+1] {
				blocked = max(blocked, lastCall[r.CallID])
			}
		}
		legal[i] = newest > 0 && newest < oldest[i] && oldest[i] < math.MaxInt && !answers && i > blocked
		for j, o := range m.Origins {
			if _, late := m.Content[j].(transcript.ToolResultBlock); !late || o.Batch < oldest[i+1] {
				newest = max(newest, o.Batch)
			}
		}
	}
	return legal
}

// batch is the append that the first block of a message came with.
func batch(m transcript.Message) int {
	for _, o := range m.Origins {
		if o.Batch > 0 {
			return o.Batch
		}
	}
	return 0
}

func starts(msgs []transcript.Message, i int) bool {
	return rebuild.History{Messages: msgs}.StartsTurn(i)
}
