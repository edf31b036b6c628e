package compact

import (
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// The refusals.
var (
	ErrEmpty      error = errEmpty
	ErrTooLong    error = errTooLong
	ErrTooShort   error = errTooShort
	ErrRefusal    error = errRefusal
	ErrEcho       error = errEcho
	ErrLoop       error = errLoop
	ErrCut        error = errCut
	ErrToolCall   error = errToolCall
	ErrIncomplete error = errIncomplete
	ErrNoRoom     error = errNoRoom
)

// The reasons that programs do not branch on.
const (
	NoCut    = noCut
	TooLarge = tooLarge
	NoRoom   = noRoom
	NoGain   = noGain
)

// Seams for tests.
var LegalCuts = legalCuts

// Ends returns the entries at the two sides of a cut.
func Ends(h rebuild.History, at int) (firstKept, coversTo string, read []string) {
	return ends(h.Messages, at)
}

// Chunks divides the text of messages into pieces of at most limit tokens.
func Chunks(msgs []transcript.Message, limit int) (list []string, err error) {
	for p := pieces(Document{}.parts("", msgs)); len(p) > 0; {
		piece := p.next(func(s string) bool { return countText(tokens.Estimator{}, s) <= limit })
		if piece == "" {
			return nil, errNoRoom
		}
		list = append(list, piece)
	}
	return list, nil
}

// FilesOf is the default of Options.Files.
var FilesOf = filesOf

// Identifiers returns the identifiers of a text.
var Identifiers = identifiers
