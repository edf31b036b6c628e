package filelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/convolog/convolog/session/driver"
)

// The states callers branch on. The table in the package comment says for each
// whether anything was written and whether to try again.
var (
	// ErrClosed is returned by every call on a closed [Log]. Nothing was
	// written.
	ErrClosed = errors.New("the log is closed")

	// ErrBusy reports that another goroutine or process held a lock until the
	// context was done; the error then matches the context's as well. From
	// [LockFile.TryLock] it means that the lock is held now. Nothing was
	// written; try again later.
	ErrBusy = errors.New("the lock is held elsewhere")

	// ErrReplaced reports that the name no longer refers to the file this [Log]
	// has open: it was renamed or removed, or another Log has put a copy in its
	// place after a failed sync. Nothing was written; close the Log and open the
	// name anew.
	ErrReplaced = errors.New("the file was replaced or removed")
)

var (
	errNotLines = errors.New("not a run of lines that end in '\\n'")
	errOthers   = errors.New("lines that this log wrote have been replaced by other bytes")
)

// An Error names the failed call, the file, the cause and the way out.
type Error struct {
	Op   string // the operation: "open", "append", "lock" ...
	Path string // the file
	Fix  string // the amount written and the next step; may be empty
	Err  error  // the cause
}

// Error returns one line: operation, file, cause and way out.
func (e *Error) Error() string {
	s := "filelog: " + e.Op + " " + e.Path + ": " + e.Err.Error()
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// refusal returns e as an append that wrote nothing reports it.
func refusal(e *driver.NotDurableError) *driver.NotDurableError {
	r := *e
	r.Refused = true
	return &r
}

// newError returns an Error with the way out for its cause.
func newError(op, path string, err error) *Error {
	return &Error{Op: op, Path: path, Fix: wayOut(err), Err: cause(err)}
}

func wayOut(err error) string {
	switch {
	case errors.Is(err, ErrClosed):
		return ""
	case errors.Is(err, ErrBusy):
		return "nothing was written, try again when the holder is done"
	case errors.Is(err, ErrReplaced):
		return "nothing was written, close it and open the name again"
	case errors.Is(err, driver.ErrReadOnly):
		return "nothing was written, open the log without ReadOnly"
	case errors.Is(err, driver.ErrFragment):
		return "the lines were not written whole, append them again"
	case errors.Is(err, fs.ErrExist):
		return "nothing was written, open it or choose another name"
	case errors.Is(err, errOthers):
		return "inspect the file, and restore it from a copy"
	case errors.Is(err, errors.ErrUnsupported):
		return "nothing was written, this system has no such lock"
	case errors.Is(err, errNotLines), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "nothing was written"
	}
	return "nothing was written, try again once the cause is gone"
}

// cause strips the wrappers of package os, whose operation and path an Error
// states itself.
func cause(err error) error {
	switch e := err.(type) { //nolint:errorlint // only the outermost is stripped
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}

// fragment is the error of a write that failed with err and left a part.
func fragment(err error) error {
	return fmt.Errorf("%w: %w", driver.ErrFragment, cause(err))
}

// busy is the error when ctx was done before a lock was free.
func busy(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
}
