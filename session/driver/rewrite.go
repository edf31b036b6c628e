package driver

import (
	"context"
	"iter"

	"github.com/convolog/convolog/transcript"
)

// Rewriter is a [Driver] that can remove words from stored lines. Without it
// only whole sessions can be erased.
type Rewriter interface {
	// Rewrite replaces all lines of a session by the lines that change writes,
	// which reads the old ones as records. Appends are blocked until Rewrite
	// returns. The first new line is a header with a higher Rev. Change must not
	// use the driver. If it fails, its error is returned and nothing has changed.
	//
	// When the error is nil, the new lines are on stable storage, the row of the
	// session was made from them, and no other stored word remains. A kill leaves
	// the old lines or the new ones; words of the old row may then remain until the
	// next writer comes. A row with a lower Rev that is put later does not count.
	// Cursors of the old lines are not valid for the new ones: all users of the
	// session, the caller included, get [ErrReplaced] once. An archived session
	// gives [ErrArchived].
	Rewrite(ctx context.Context, ref Ref, change func(records iter.Seq2[transcript.Record, error], write func(line []byte) error) error) error
}
