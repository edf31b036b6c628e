package words

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
)

// Limits of a [Pattern].
const (
	maxPattern      = 2 << 10 // bytes
	maxInstructions = 1_000   // of the compiled program
)

// stretch is the number of steps of a program between two checks of the context. Each
// instruction takes a step for each byte.
const stretch = 1 << 20

// A Pattern is a regular expression of limited size. It is immutable, so several goroutines
// may use it.
type Pattern struct {
	re    *regexp.Regexp
	piece int // the number of bytes that the program reads in one stretch
}

// NewPattern compiles a regular expression of package regexp. It returns an error for an
// expression over 2 KiB or a program over 1,000 instructions.
func NewPattern(expr string) (*Pattern, error) {
	if len(expr) > maxPattern {
		return nil, fmt.Errorf("the regular expression has %d bytes; at most %d are allowed", len(expr), maxPattern)
	}
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(prog.Inst) > maxInstructions {
		return nil, fmt.Errorf("the regular expression has %d instructions; at most %d are allowed: repeat less", len(prog.Inst), maxInstructions)
	}
	re, err := regexp.Compile(expr)
	return &Pattern{re, stretch / len(prog.Inst)}, err
}

// Find returns the place of the first match in a text, or nil. If ctx is done, the result
// is meaningless: the caller must return the error of ctx.
func (p *Pattern) Find(ctx context.Context, text string) []int {
	if len(text) <= p.piece {
		return p.re.FindStringIndex(text)
	}
	return p.re.FindReaderIndex(&patientReader{ctx: ctx, from: strings.NewReader(text), piece: p.piece})
}

// A patientReader reads runes and ends when ctx is done.
type patientReader struct {
	ctx         context.Context //nolint:containedctx // for one call of Find
	from        *strings.Reader
	piece, left int
}

func (r *patientReader) ReadRune() (rune, int, error) {
	if r.left--; r.left < 0 {
		if r.ctx.Err() != nil {
			return 0, 0, io.EOF
		}
		r.left = r.piece
	}
	return r.from.ReadRune()
}
