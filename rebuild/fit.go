package rebuild

import (
	"slices"

	"github.com/convolog/convolog/transcript"
)

// Fit returns the newest whole turns of h whose messages together have at most
// budget tokens, counted message by message by size. What it leaves out stays
// in h: Fit is a view and changes nothing. The result may be empty.
func Fit(h History, budget int, size func(transcript.Message) int) History {
	from, total := len(h.Messages), 0
	for i, m := range slices.Backward(h.Messages) {
		if total += size(m); total > budget {
			break
		}
		if h.StartsTurn(i) {
			from = i
		}
	}
	h.Messages = slices.Clip(h.Messages[from:])
	return h
}
