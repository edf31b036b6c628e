package rebuild

import (
	"slices"

	"github.com/convolog/convolog/transcript"
)

// Fit returns the summary of h, if it has one, and the newest whole turns after it.
// Together they have at most budget tokens, the sum of size over the messages. The
// newest turn is always included. If it exceeds the budget, alone or with the summary,
// the report contains over-budget.
//
// Fit changes nothing: its result is a view. If it leaves messages out, it also drops
// the reasoning made after them, as [Reasoned] does.
func Fit(h History, budget int, size func(transcript.Message) int) (History, Report) {
	// Blocks of a summary come from an entry without a batch.
	isSummary := func(_ transcript.Block, o transcript.Origin) bool { return o.Entry != "" && o.Batch == 0 }
	rest := Without(h.Messages, isSummary)
	summary := Without(h.Messages, func(b transcript.Block, o transcript.Origin) bool { return !isSummary(b, o) })
	summary = slices.DeleteFunc(summary, func(m transcript.Message) bool { return len(m.Content) == 0 }) // they are in rest
	for _, m := range summary {
		budget -= size(m)
	}
	var report Report
	from, turn := len(rest), 0
	for i, m := range slices.Backward(rest) {
		turn += size(m)
		if i > 0 && !(History{Messages: rest}).StartsTurn(i) {
			continue
		}
		if turn > budget && from < len(rest) {
			break
		}
		if from = i; turn > budget {
			entry := ""
			if len(m.Origins) > 0 {
				entry = m.Origins[0].Entry
			}
			report.note("over-budget", entry, "the newest turn has %d tokens, and %d are left for it", turn, max(budget, 0))
			break
		}
		budget, turn = budget-turn, 0
	}
	if from > 0 {
		rest = Without(rest[from:], isBound)
	}
	if n := len(summary); n > 0 && len(rest) > 0 && summary[n-1].Role == rest[0].Role {
		summary[n-1] = join(summary[n-1], rest[0])
		rest = rest[1:]
	}
	h.Messages, h.After, h.Cleared = slices.Concat(summary, rest), "", 0
	return h, report
}
