package driver

import (
	"errors"
	"fmt"
)

// ErrReadOnly reports that the storage was opened read-only. Nothing was written.
var ErrReadOnly = errors.New("the log is open for reading only")

// A NotDurableError reports that a sync failed: the bytes from Start to End are
// in the file as other readers see it now, but whether they reach the disk is
// unknown, and syncing again cannot tell. Do not take them for lost and do not
// take them for saved.
//
// The session accepts no further append until [Recoverer].Recover has
// succeeded. An append that is refused for that reason has Refused set, has
// written nothing, and names the range whose sync failed, not its own.
//
// A driver without files returns it for a write whose outcome is unknown: Path
// names the service, and Start and End are 0.
type NotDurableError struct {
	Path    string
	Start   int64 // offset of the first byte in doubt
	End     int64 // offset after the last byte in doubt
	Refused bool  // this call wrote nothing: an earlier sync had failed
	Err     error // what the sync returned
}

// Error returns one line: the file, the bytes in doubt, the cause and the way
// out.
func (e *NotDurableError) Error() string {
	if e.Refused {
		return fmt.Sprintf("write %s: nothing was written, because bytes %d to %d could not be synced: %v; "+
			"call Recover first, reopening is no cure", e.Path, e.Start, e.End, e.Err)
	}
	return fmt.Sprintf("sync %s: bytes %d to %d are written but may not survive a power cut: %v; "+
		"the outcome is unknown, call Recover and append again only under a condition", e.Path, e.Start, e.End, e.Err)
}

// Unwrap returns the error of the sync.
func (e *NotDurableError) Unwrap() error { return e.Err }
