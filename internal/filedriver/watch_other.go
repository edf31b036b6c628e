//go:build !linux

package filedriver

import (
	"errors"
	"io/fs"
)

// notes are the system's reports about folders: none here.
type notes struct{}

func openNotes(*watches) (*notes, error) { return nil, errors.ErrUnsupported }

func (*notes) cover(*watch) error { return errors.ErrUnsupported }

func (*notes) close() {}

// changeTime returns the time of the last change of a folder.
func changeTime(info fs.FileInfo) int64 { return info.ModTime().UnixNano() }
