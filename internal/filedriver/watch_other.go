//go:build !linux

package filedriver

import "errors"

// notes are what the system reports about folders: nothing.
type notes struct{}

func openNotes(*watches) (*notes, error) { return nil, errors.ErrUnsupported }

func (*notes) cover(*watch) error { return errors.ErrUnsupported }

func (*notes) close() {}
