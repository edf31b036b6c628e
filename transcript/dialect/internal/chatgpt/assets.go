package chatgpt

import (
	"io/fs"
	"path"
	"strings"
)

// Assets are the files of an export that its conversations name, by ID. The zero value
// holds none.
type Assets struct {
	fsys  fs.FS
	paths map[string]string
}

// AssetsOf returns the assets in the folder of a document and below. Names are the
// files of fsys.
func AssetsOf(fsys fs.FS, document string, names map[string]bool) Assets {
	a := Assets{fsys, map[string]string{}}
	dir := path.Dir(document) + "/"
	for name := range names {
		id := assetID(path.Base(name))
		if before, twice := a.paths[id]; id != "" && (dir == "./" || strings.HasPrefix(name, dir)) && (!twice || name < before) {
			a.paths[id] = name
		}
	}
	return a
}

// Asset returns the bytes of a file, nil if they are not there. A pointer is an ID after
// a scheme.
func (a Assets) Asset(pointer string) []byte {
	_, id, _ := strings.Cut(pointer, "://")
	name, ok := a.paths[assetID(id)]
	if !ok {
		return nil
	}
	data, err := fs.ReadFile(a.fsys, name)
	if err != nil {
		return nil
	}
	return data
}

// assetID returns the ID that a name begins with: file, a dash or a line, and letters
// and digits.
func assetID(name string) string {
	rest, ok := strings.CutPrefix(name, "file")
	if !ok || rest == "" || rest[0] != '-' && rest[0] != '_' {
		return ""
	}
	rest = rest[1:]
	end := strings.IndexFunc(rest, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	switch end {
	case 0:
		return ""
	case -1:
		return name
	}
	return name[:len(name)-len(rest)+end]
}
