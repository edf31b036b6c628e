package session

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
)

// Errors that callers branch on. Unless one says otherwise, nothing was
// written and the same call may be tried again. Missing sessions match
// io/fs.ErrNotExist, IDs in use io/fs.ErrExist.
var (
	// ErrClosed is returned by every call after Close.
	ErrClosed = driver.ErrClosed
	// ErrBusy reports that another turn is running on the session.
	ErrBusy = driver.ErrBusy
	// ErrConflict reports that a condition of [Session.AppendIf] does not hold,
	// or that an answer was made from entries that a rewind has taken back.
	ErrConflict = driver.ErrConflict
	// ErrIdemMismatch reports that an idempotency key was used for other
	// content.
	ErrIdemMismatch = errors.New("the idempotency key was used for other content: use a new key")
	// ErrReplaced reports that another goroutine or process deleted or replaced
	// the session. The next call reads it anew.
	ErrReplaced = driver.ErrReplaced
	// ErrNewerFormat reports entries of a newer version that this one must not
	// ignore, or must not append to.
	ErrNewerFormat = rebuild.ErrNewerFormat
)

// Error is a failed call on a session.
type Error struct {
	Op      string
	Session Ref    // empty if the session is not known
	Key     string // printed form, if the call was about a key
	Path    string // of its transcript, if that is a file and Err does not say
	Err     error
}

// Error returns one line with the operation, the session and the cause.
func (e *Error) Error() string {
	what := e.Op
	switch {
	case e.Session.ID != "":
		what += " " + e.Session.Agent + "/" + e.Session.ID
	case e.Key != "":
		what += " " + e.Key
	}
	if e.Path != "" {
		what += " (" + e.Path + ")"
	}
	return fmt.Sprintf("session: %s: %v", what, e.Err)
}

// errNotFound is the error of a scope. It hides sessions of other owners.
var errNotFound = fmt.Errorf("there is no such session: list the sessions to see which there are: %w", fs.ErrNotExist)

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// wrap adds the session of an error, and the file if it is missing. With a zero ref
// the error is about several sessions, and its parts name them.
func (st *Store) wrap(op string, ref Ref, err error) error {
	if err == nil {
		return nil
	}
	if ref == (Ref{}) {
		return fmt.Errorf("session: %s: %w", op, err)
	}
	if isGone(err) && !errors.Is(err, errNotFound) { // else it may be the session of another owner
		st.table.forget(ref) // later lines must not mix with the old state
	}
	e := &Error{Op: op, Session: ref, Err: err}
	if files, ok := st.drv.(interface{ Path(ref Ref) string }); ok && st.owner == "" && !namesFile(err) && driver.CheckRef(ref) == nil {
		e.Path = files.Path(ref)
	}
	return e
}

// able returns a driver as one with an ability.
func able[T any](drv driver.Driver) (T, error) {
	a, ok := drv.(T)
	if !ok {
		return a, fmt.Errorf("the driver of the store lacks this ability: %w", errors.ErrUnsupported)
	}
	return a, nil
}
