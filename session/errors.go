package session

import (
	"errors"
	"fmt"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript/filelog"
)

// Errors that callers branch on. Unless one says otherwise, nothing was
// written and the same call may be tried again. Missing sessions match
// io/fs.ErrNotExist, IDs in use io/fs.ErrExist.
var (
	// ErrClosed is returned by every call after Close.
	ErrClosed = driver.ErrClosed
	// ErrBusy says that another turn is running on the session.
	ErrBusy = driver.ErrBusy
	// ErrConflict says that a condition of [Session.AppendIf] does not hold.
	ErrConflict = driver.ErrConflict
	// ErrIdemMismatch says that an idempotency key was used for other content.
	ErrIdemMismatch = driver.ErrIdemMismatch
	// ErrReplaced says that the session was deleted or replaced by somebody
	// else. The next call reads it anew.
	ErrReplaced = driver.ErrReplaced
	// ErrNewerFormat says that a newer version wrote what this one must not
	// ignore, or must not append to.
	ErrNewerFormat = rebuild.ErrNewerFormat
	// ErrFragment says that a write failed and could not be cut back: a part of
	// the batch stays in the file, where readers take it for damage or for an
	// append that was never acknowledged. The same call may be tried again.
	ErrFragment = filelog.ErrFragment
	// ErrReadOnly says that the store was opened for reading alone.
	ErrReadOnly = filelog.ErrReadOnly
)

// NotDurableError says that a sync failed: what was appended may or may not
// survive a power cut. Unless Refused is set the entries may exist. The session
// refuses appends until [Session.Recover] has succeeded.
type NotDurableError = filelog.NotDurableError

// Error is a failed call on a session.
type Error struct {
	Op      string
	Session Ref    // empty if the session is not known
	Key     string // printed form, if the call was about a key
	Path    string // of its transcript, if that is a file and Err does not say
	Err     error
}

// Error returns one line: what was tried, on which session, and the cause.
func (e *Error) Error() string {
	what := e.Key
	if e.Session.ID != "" {
		what = e.Session.Agent + "/" + e.Session.ID
	}
	if e.Path != "" {
		what += " (" + e.Path + ")"
	}
	return fmt.Sprintf("session: %s %s: %v", e.Op, what, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// wrap adds which session an error is about, and which file if nothing below
// has said so.
func (st *Store) wrap(op string, ref Ref, err error) error {
	if err == nil {
		return nil
	}
	if isGone(err) {
		st.table.forget(ref) // so that nothing is mixed with what comes after it
	}
	e := &Error{Op: op, Session: ref, Err: err}
	_, named := errors.AsType[*filelog.Error](err)
	_, synced := errors.AsType[*filelog.NotDurableError](err)
	if files, ok := st.drv.(interface{ Path(ref Ref) string }); ok && !named && !synced && driver.CheckRef(ref) == nil {
		e.Path = files.Path(ref)
	}
	return e
}

func wrapKey(op string, key Key, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Key: key.String(), Err: err}
}
