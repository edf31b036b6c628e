//go:build linux && (amd64 || arm64)

package session_test

import (
	"errors"
	"io/fs"
)

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
