package compact

import (
	"github.com/convolog/convolog/rebuild"
)

// Seams for tests.
var LegalCuts = legalCuts

// Ends returns the entries at the two sides of a cut.
func Ends(h rebuild.History, at int) (firstKept, coversTo string, read []string) {
	return ends(h.Messages, at)
}

// FilesOf is the default of Options.Files.
var FilesOf = filesOf

// Identifiers are those of a text.
var Identifiers = identifiers
