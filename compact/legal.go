package compact

import (
	"math"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// legalCuts says for each index whether a history may be cut there.
//
// A fold finds the kept part by the order of the lines, and a history is not
// always in that order: results are moved to their calls. So what is before the
// cut must have been appended before what is after it. The exception is a
// result that came late: the fold leaves it out of the kept part, where its
// call is not, unless a call there that waits for one has the same ID. And a
// result that came in the turn before that of its call is found only if all of
// that turn is kept.
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
	open := map[string]int{} // ID -> the last message with a call that has no result
	for i, m := range msgs {
		for j, b := range m.Content {
			if r, ok := b.(transcript.ToolResultBlock); ok && i > 0 && j < len(m.Origins) && m.Origins[j].Batch == 0 {
				open[r.CallID] = i - 1
			}
		}
	}

	legal := make([]bool, n)
	newest := 0   // the last append of anything before i
	blocked := -1 // a late result could be taken for one of an open call up to here
	turn, before := 0, 0
	for i, m := range msgs {
		if (rebuild.History{Messages: msgs}).StartsTurn(i) {
			before, turn = turn, i
		}
		legal[i] = newest > 0 && newest < oldest[i] && oldest[i] < math.MaxInt && !answers(m) && i > blocked
		for j, o := range m.Origins[:min(len(m.Origins), len(m.Content))] {
			r, isResult := m.Content[j].(transcript.ToolResultBlock)
			switch {
			case !isResult || o.Batch <= oldest[i+1]:
				newest = max(newest, o.Batch)
			default: // late
				if at, ok := open[r.CallID]; ok {
					blocked = max(blocked, at)
				}
			}
			if isResult && o.Batch > 0 && turn > 0 && o.Batch < batch(msgs[turn]) { // of the turn before
				for k := before + 1; k <= turn; k++ {
					legal[k] = false
				}
			}
		}
	}
	return legal
}

// answers reports whether a message has results of tools.
func answers(m transcript.Message) bool {
	return slices.ContainsFunc(m.Content, func(b transcript.Block) bool {
		_, ok := b.(transcript.ToolResultBlock)
		return ok
	})
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
