package compact

import (
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Seams for tests.
var LegalCuts = legalCuts

// Ends returns the entries at the two sides of a cut.
func Ends(h rebuild.History, at int) (firstKept, coversTo string, read []string) {
	return ends(h.Messages, at)
}

// Carry reads the list that was added to a summary, adds what messages say and
// writes it.
func Carry(summary string, msgs []transcript.Message) (text, list string) {
	text, c := takeCarried(summary)
	return text, c.add("", msgs).String()
}

// CarrySummary writes the list of what a summary says.
func CarrySummary(summary string) string { return carried{}.add(summary, nil).String() }
