package driver

import (
	"errors"
	"fmt"
)

// Errors of a storage that writes files, or that can be opened read-only.
var (
	// ErrReadOnly reports that the storage was opened read-only. Nothing was
	// written.
	ErrReadOnly = errors.New("the log is open for reading only")

	// ErrFragment reports that a write failed half way and could not be cut back.
	// A part of the lines, in the worst case all but the last '\n' of them, is
	// left at the end of the file, on lines of its own. They were not
	// acknowledged: append them again, and expect readers to see the part as well.
	ErrFragment = errors.New("a part of the lines is left in the file")

	// ErrForeign reports that a folder holds the sessions of another program.
	// Nothing in it was changed.
	ErrForeign = errors.New("the folder holds the sessions of another program")

	// ErrNetworkFS reports that the file system is a network file system or an
	// unknown one, so that its locks and syncs cannot be relied on. Nothing was
	// written.
	ErrNetworkFS = errors.New("the file system's locks and syncs cannot be relied on")
)

// A NotDurableError reports that a sync failed: the bytes from Start to End are
// in the file as other readers see it now, but whether they reach the disk is
// unknown, and syncing again cannot tell. Do not take them for lost and do not
// take them for saved.
//
// The session accepts no further append until a [Driver].Flush that
// cures has succeeded. An append that is refused for that reason has Refused set, has
// written nothing, and names the range whose sync failed, not its own.
//
// A driver without files returns it for a write whose outcome is unknown: Path
// names the service, and Start and End are 0.
type NotDurableError struct {
	Path    string
	Start   int64 // offset of the first byte in doubt
	End     int64 // offset after the last byte in doubt
	Refused bool  // this call wrote nothing: an earlier sync had failed
	Err     error // of the sync
}

// Error returns one line: the file or service, the bytes in doubt, the cause and the way out.
func (e *NotDurableError) Error() string {
	if e.Path != "" && e.End == 0 {
		return fmt.Sprintf("%s went away before it answered (%v), so the write may have happened: check when it is back, or append again under the same idempotency key", e.Path, e.Err)
	}
	if e.Refused {
		return fmt.Sprintf("write %s: nothing was written, because bytes %d to %d could not be synced: %v; "+
			"call Recover first, reopening is no cure", e.Path, e.Start, e.End, e.Err)
	}
	return fmt.Sprintf("sync %s: bytes %d to %d are written but may not survive a power cut: %v; "+
		"the outcome is unknown, call Recover and append again only under a condition", e.Path, e.Start, e.End, e.Err)
}

// Unwrap returns the error of the sync.
func (e *NotDurableError) Unwrap() error { return e.Err }
