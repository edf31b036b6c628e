//go:build !linux

package filelog

import (
	"io/fs"
	"os"
)

// A folderLookup is not made here: names are looked up through the Root.
type folderLookup struct{}

func newFolderLookup(*os.File, string, fs.FileInfo) *folderLookup { return nil }

func (*folderLookup) look() (look, error) { return look{}, fs.ErrInvalid }
