package storetest

import (
	"strings"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/transcript"
)

// Thousands counts 1,000 tokens for a message, one more for the text "odd", and 100 for a
// summary or a system prompt.
type Thousands struct{}

// Count implements tokens.Counter.
func (Thousands) Count(system string, _ []transcript.Tool, msgs []transcript.Message) int {
	n := 0
	if system != "" {
		n = 100
	}
	for _, m := range msgs {
		n += 1_000
		if m.Text() == "odd" {
			n++
		}
		if strings.HasPrefix(m.Text(), neutral.SummaryHeading) {
			n -= 900
		}
	}
	return n
}
