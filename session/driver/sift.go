package driver

import (
	"context"
	"iter"

	"github.com/convolog/convolog/transcript"
)

// Keep reports whether lines are wanted; see [Sifter].
type Keep = func(at Cursor, lines []byte) bool

// Sifter is a [Driver] that can pass over lines without decoding them.
type Sifter interface {
	// Sift is a backward Scan of the records on lines that keep accepts. Keep is
	// called with one line or several whole ones, without the last newline, and
	// the place of the first. It must accept several lines if it accepts one of
	// them; it is then called for each alone. Lines come from the last to the
	// first, each only when the loop has taken the later records. Keep must not
	// retain or modify them.
	Sift(ctx context.Context, ref Ref, keep Keep) iter.Seq2[transcript.Record, error]
}

// Sift is [Sifter].Sift of a driver, or the same made of its Scan.
func Sift(ctx context.Context, d Driver, ref Ref, keep Keep) iter.Seq2[transcript.Record, error] {
	if s, ok := d.(Sifter); ok {
		return s.Sift(ctx, ref, keep)
	}
	return func(yield func(transcript.Record, error) bool) {
		for rec, err := range d.Scan(ctx, ref, 0, Backward) {
			wanted := err != nil || !rec.HasEntry() || keep(Cursor(rec.Offset), rec.Entry.Line())
			if wanted && !yield(rec, err) {
				return
			}
		}
	}
}
