package dialect

import (
	"fmt"

	"github.com/convolog/convolog/transcript"
)

// Dialect names a format of transcripts. The empty string is none.
type Dialect string

// The dialects that can be read.
const (
	Native   Dialect = "native"    // what package transcript writes
	MiniClaw Dialect = "mini-claw" // flat records with ISO times, results under "output"
	Claw0    Dialect = "claw0"     // flat records with Unix times, results under "content"
)

// ScanOptions returns new options with which transcript.Scan and
// transcript.ScanBackward read the dialect; the caller may set the other
// fields. The error says that d is not one of the constants.
func (d Dialect) ScanOptions() (*transcript.ScanOptions, error) {
	switch d {
	case Native:
		return &transcript.ScanOptions{}, nil
	case MiniClaw:
		return &transcript.ScanOptions{Decode: decoder("output", "content")}, nil
	case Claw0:
		return &transcript.ScanOptions{Decode: decoder("content", "output")}, nil
	}
	return nil, fmt.Errorf("dialect: cannot read %q", string(d))
}
