package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/replay"
	"github.com/convolog/convolog/transcript"
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
	// ErrArchived reports that a session is archived: it can be read, and appended
	// to after [Store.SetState] has made it [Live].
	ErrArchived = driver.ErrArchived
	// ErrNoEntry reports that the ID is unknown in the session.
	ErrNoEntry = replay.ErrNoEntry
	// ErrNewerFormat reports entries of a newer format that this version must
	// not ignore, or append to.
	ErrNewerFormat = rebuild.ErrNewerFormat
)

// errTentative refuses calls that would outlive a rollback or wait for their own transaction.
var errTentative = errors.New("the context belongs to a transaction: make this call before it or after it")

// outside refuses a context of a transaction of the caller.
func outside(ctx context.Context) error {
	if driver.IsTentative(ctx) {
		return errTentative
	}
	return nil
}

// Errors of the store that [Open] opens.
var (
	// ErrFragment reports that a write failed and could not be cut back: a
	// partial batch remains in the file. Readers take it for damage or for an
	// append that was never acknowledged. The same call may be tried again.
	ErrFragment = driver.ErrFragment
	// ErrReadOnly reports that the store was opened read-only.
	ErrReadOnly = driver.ErrReadOnly
)

// NotDurableError reports that a sync failed: the appended entries may or may
// not survive a power cut. Unless Refused is set the entries may exist. The
// session refuses appends until [Session.Recover] has succeeded.
type NotDurableError = driver.NotDurableError

// Ref names a session: its ID is unique within its agent.
type Ref = driver.Ref

// Error is a failed call on a session.
type Error struct {
	Op      string
	Session Ref    // empty if the session is not known
	Key     string // printed form, if the call was about a key
	Path    string // of its transcript, if that is a file that Err does not name
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

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// An InputError reports an argument that no call accepts. It matches [fs.ErrInvalid], and
// nothing was written.
type InputError struct {
	Member string // the argument by its name in JSON, such as labels/3
	Reason string
}

// Error returns the member and the reason.
func (e *InputError) Error() string {
	return strings.TrimPrefix(e.Member+": ", ": ") + e.Reason
}

// Unwrap returns [fs.ErrInvalid].
func (e *InputError) Unwrap() error { return fs.ErrInvalid }

// Limits in bytes. The index holds these texts, for all sessions of an agent.
const (
	maxTitle  = 1 << 10
	maxLabels = 64
	maxLabel  = 256 // 16 kB for all labels
	maxKey    = 1 << 10
)

// checkMeta refuses metadata that is too large for the index.
func checkMeta(m transcript.Meta) error {
	if m.Title != nil && len(*m.Title) > maxTitle {
		return tooLong("title", len(*m.Title), maxTitle)
	}
	if n := len(m.Labels); n > maxLabels {
		return &InputError{"labels", fmt.Sprintf("%d labels; at most %d are allowed", n, maxLabels)}
	}
	for i, label := range m.Labels {
		switch member := fmt.Sprint("labels/", i); {
		case len(label) > maxLabel:
			return tooLong(member, len(label), maxLabel)
		case !utf8.ValidString(label):
			return &InputError{member, fmt.Sprintf("%q is not valid UTF-8", label)}
		}
	}
	return nil
}

func tooLong(member string, size, most int) error {
	return &InputError{member, fmt.Sprintf("%d bytes; at most %d are allowed", size, most)}
}
