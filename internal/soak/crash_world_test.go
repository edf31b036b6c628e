//go:build linux && (amd64 || arm64)

package soak_test

import (
	"errors"
	"io/fs"
)

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
