package driver

import (
	"context"
	"errors"
)

// Archiver is a [Driver] that can put sessions away in a form that takes less room.
//
// For an archived session Get, List, Scan and Settle answer as before, with the same
// cursors. Its row has Archived set, its ID stays in use, and its gen counts for the
// next session of its key. It is never the current session of its key: that is the
// one with the highest gen among those that are not archived. Append, SetCurrent, Put
// and LockTurn fail with [ErrArchived]. Delete removes it.
type Archiver interface {
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
