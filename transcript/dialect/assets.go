package dialect

import (
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// assets are the files of an export that its conversations name, by ID.
type assets struct {
	fsys  fs.FS
	paths map[string]string
}

// assetID begins the name of such a file.
var assetID = regexp.MustCompile(`^file[-_][0-9A-Za-z]+`)

// assetsIn returns the assets in the folder of a document, and below.
func assetsIn(fsys fs.FS, document string, names map[string]bool) assets {
	a := assets{fsys, map[string]string{}}
	dir := path.Dir(document) + "/"
	for name := range names {
		id := assetID.FindString(path.Base(name))
		if before, twice := a.paths[id]; id != "" && (dir == "./" || strings.HasPrefix(name, dir)) && (!twice || name < before) {
			a.paths[id] = name
		}
	}
	return a
}

// read returns the bytes of an asset, nil if they are not there. Pointer is the name of
// the asset after a scheme.
func (a assets) read(pointer string) []byte {
	_, id, _ := strings.Cut(pointer, "://")
	name, ok := a.paths[assetID.FindString(id)]
	if !ok {
		return nil
	}
	data, err := fs.ReadFile(a.fsys, name)
	if err != nil {
		return nil
	}
	return data
}

// documentReader reads a document that has assets.
type documentReader struct {
	io.ReaderAt
	assets
}

// An attacher is a program whose messages name assets.
type attacher interface {
	Attach(read func(pointer string) []byte)
}
