//go:build aix || (!unix && !windows)

package filelog

import (
	"errors"
	"os"
)

const openFlags = 0

// A fileLock does not exist on these systems, so no log can be opened.
type fileLock struct{}

func newFileLock(*os.File, int64) (*fileLock, error) { return nil, errors.ErrUnsupported }

// Lock is never called.
func (*fileLock) Lock(bool) (bool, error) { return false, errors.ErrUnsupported }

// Unlock is never called.
func (*fileLock) Unlock() error { return errors.ErrUnsupported }

// Held is never called.
func (*fileLock) Held() (bool, error) { return false, errors.ErrUnsupported }
