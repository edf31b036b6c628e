package compact

import "github.com/convolog/convolog/rebuild"

// Seams for tests.
var LegalCuts = legalCuts

// Ends returns the entries at the two sides of a cut.
func Ends(h rebuild.History, at int) (firstKept, coversTo string) {
	return newPlanner(h, (*Options)(nil).filled()).ends(at)
}
