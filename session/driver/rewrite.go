package driver

import (
	"context"
	"errors"
	"iter"

	"github.com/convolog/convolog/transcript"
)

// Rewriter is a [Driver] that can remove words from stored lines, and put sessions away in
// a form that takes less room. Without it only whole sessions can be erased.
//
// For an archived session Get, List and Scan answer as before, with the same
// cursors. Its row has Archived set, its ID stays in use, and its gen counts for the
// next session of its key. It is never the current session of its key: that is the
// one with the highest gen among those that are not archived. Append, SetCurrent, Put
// and LockTurn fail with [ErrArchived]. Delete removes it.
type Rewriter interface {
	// Rewrite replaces all lines of a session by the lines that change writes.
	// Change reads the old lines as records, and must not use the driver. If it fails, its
	// error is returned and nothing has changed. The first new line is a header with
	// a higher Rev. Appends are blocked until Rewrite returns.
	//
	// When the error is nil, the new lines are on stable storage, the row of the
	// session was made from them, and no other stored word remains. A kill leaves
	// the old lines or the new ones; words of the old row may then remain until the
	// next writer comes. A row with a lower Rev that is put later does not count.
	// Cursors of the old lines are not valid for the new ones: all users of the
	// session, the caller included, get [ErrReplaced] once. An archived session
	// gives [ErrArchived].
	Rewrite(ctx context.Context, ref Ref, change func(records iter.Seq2[transcript.Record, error], write func(line []byte) error) error) error

	// Archive archives a session that ends at the cursor at, or anywhere if at is
	// negative. If it ends elsewhere, or is appended to again and again, the error
	// matches [ErrConflict]; if a turn is running, it matches [ErrBusy]. A session that is
	// archived already stays as it is. At every moment, and after a crash, the session is
	// there once, archived or not.
	Archive(ctx context.Context, ref Ref, at Cursor) error

	// Restore is the reverse of Archive: every byte of every line is as it was. A
	// session that is not archived stays as it is. The next call of a driver that
	// has not seen the session archived may fail with [ErrReplaced], once.
	Restore(ctx context.Context, ref Ref) error
}

// ErrArchived reports that a session is archived. Nothing was written.
var ErrArchived = errors.New("the session is archived: it can be read, and appended to when it is restored")
