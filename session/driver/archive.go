package driver

import (
	"context"
	"errors"
)

// Archiver is a [Driver] that can put sessions away in a form that takes less
// room, and remove sessions under a condition.
//
// For an archived session Get, List, Scan and Settle answer as before, with the same
// cursors. Its row has Archived set, its ID stays in use, and its gen counts for the
// next session of its key. It is never the current session of its key: that is the
// one with the highest gen among those that are not archived. Append, SetCurrent, Put
// and LockTurn fail with [ErrArchived]. Delete removes it.
//
// Check, if not nil, is called while the turn lock of the session is held, appends
// are blocked, and the current session of its key cannot change. The Current of the
// row is valid then, and its Size is the cursor after the last line. If check returns
// an error, so does the call, and the session is unchanged. Check must not call the
// driver. No method waits for a turn: if one is running, the error matches [ErrBusy].
type Archiver interface {
	// Archive archives a session; one that is archived already stays as it is, and
	// check is not called. At every moment, and after a crash, the session is there
	// once, archived or not.
	Archive(ctx context.Context, ref Ref, check func(Row) error) error

	// Restore is the reverse of Archive: every byte of every line is as it was. A
	// session that is not archived stays as it is. The next call of a driver that
	// has not seen the session archived may fail with [ErrReplaced], once.
	Restore(ctx context.Context, ref Ref) error

	// DeleteIf is Delete of those sessions that check allows. It returns an error
	// for each of refs, nil for those that it has deleted. Check is called once for
	// a session that is named twice, and both places have the same error.
	DeleteIf(ctx context.Context, refs []Ref, check func(Row) error) []error
}

// ErrArchived reports that a session is archived. Nothing was written.
var ErrArchived = errors.New("the session is archived: it can be read, and appended to when it is restored")
