//go:build aix || (!unix && !windows)

package filelog

import (
	"errors"
	"os"
)

// openFlags are added to those of every open.
const openFlags = 0

// byteLocks says that there are no locks on bytes, and there are none on files
// either: nothing can be appended.
const byteLocks = false

func tryLock(*os.File, int64, bool) (bool, error) { return false, errors.ErrUnsupported }

func unlock(*os.File, int64) error { return errors.ErrUnsupported }
