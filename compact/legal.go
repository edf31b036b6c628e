package compact

import (
	"math"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// legalCuts reports for each index whether a history may be cut there.
//
// A fold finds the kept part by the order of the lines, but a history moves
// results to their calls. So all messages before the cut must have been
// appended before all messages after it. Late results are the exception: the
// fold leaves one out of a kept part without its call, unless a waiting call
// there has the same ID. A result written in the turn before its call is found
// only if that whole turn is kept.
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
	legal := make([]bool, n)
	for i, m := range msgs {
		legal[i] = true
		for j, b := range m.Content {
			r, isResult := b.(transcript.ToolResultBlock)
			legal[i] = legal[i] && !isResult
			if isResult && i > 0 && j < len(m.Origins) && m.Origins[j].Batch == 0 {
				open[r.CallID] = i - 1
			}
		}
	}

	newest := 0   // the last append of anything before i
	blocked := -1 // up to here an open call could take a late result
	turn, before := 0, 0
	began := 0 // the append with the first block of the turn
	for i, m := range msgs {
		if (rebuild.History{Messages: msgs}).StartsTurn(i) {
			before, turn, began = turn, i, 0
			if j := slices.IndexFunc(m.Origins, func(o transcript.Origin) bool { return o.Batch > 0 }); j >= 0 {
				began = m.Origins[j].Batch
			}
		}
		legal[i] = legal[i] && newest > 0 && newest < oldest[i] && oldest[i] < math.MaxInt && i > blocked
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
			if isResult && o.Batch > 0 && turn > 0 && o.Batch < began { // of the turn before
				for k := before + 1; k <= turn; k++ {
					legal[k] = false
				}
			}
		}
	}
	return legal
}

// apart drops the legal cuts between a question and a short answer, which would
// be shown without it. If no other cut is left it drops nothing.
func apart(msgs []transcript.Message, legal []bool) []bool {
	list := slices.Clone(legal)
	for i := 1; i < len(msgs); i++ {
		if lines := userLines(msgs[i]); list[i] && len(lines) > 0 && isShort(lines[0].Text) {
			text, _ := questionOf(msgs[i-1])
			list[i] = text == ""
		}
	}
	if !slices.Contains(list, true) {
		return legal
	}
	return list
}
