//go:build aix || (!unix && !windows)

package filelog

import (
	"errors"
	"os"
)

// openFlags are added to the flags of every open.
const openFlags = 0

// byteLocks is false, and files have no locks either, so appends fail.
const byteLocks = false

func tryLock(*os.File, int64, bool) (bool, error) { return false, errors.ErrUnsupported }

func unlock(*os.File, int64) error { return errors.ErrUnsupported }
