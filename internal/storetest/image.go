//go:build linux && (amd64 || arm64)

package storetest

import (
	"bytes"
	"hash/maphash"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// An Image holds all folders and files of one state, by path. The content of a folder is
// nil. Images share contents, which must not be modified.
type Image map[string][]byte

var imageSeed = maphash.MakeSeed()

// Sum returns a hash of an image. The hash is not cryptographic, because hashing is most
// of the cost of a generated state that is not tried.
func (img Image) Sum() uint64 {
	var sum uint64
	for path, b := range img {
		var h maphash.Hash
		h.SetSeed(imageSeed)
		_, _ = h.WriteString(path)
		maphash.WriteComparable(&h, b == nil)
		_, _ = h.Write(b)
		sum += h.Sum64() // the order of files does not matter
	}
	return sum
}

// Rebooted returns the image after another boot of the system: the boot in the index is not
// the present one.
func (img Image) Rebooted() Image {
	img = maps.Clone(img)
	for path, b := range img {
		if filepath.Base(path) == "sessions.jsonl" && len(b) > 0 {
			img[path] = bytes.Replace(b, []byte(`"boot":"`), []byte(`"boot":"-`), 1)
		}
	}
	return img
}

// Write writes an image into an empty folder.
func (img Image) Write(dir string) error {
	for _, path := range slices.Sorted(maps.Keys(img)) {
		var err error
		if b := img[path]; b == nil {
			err = os.Mkdir(filepath.Join(dir, path), 0o700)
		} else {
			err = os.WriteFile(filepath.Join(dir, path), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ReadImage returns the image of a folder.
func ReadImage(dir string) (Image, error) {
	img := Image{}
	return img, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			img[name] = nil
			return nil
		}
		b, err := os.ReadFile(path)
		img[name] = append(make([]byte, 0, 1), b...)
		return err
	})
}

// Differs returns a path at which two images differ, if any.
func (img Image) Differs(other Image) (path string, ok bool) {
	for path := range img {
		if b, there := other[path]; !there || !bytes.Equal(b, img[path]) || (b == nil) != (img[path] == nil) {
			return path, true
		}
	}
	for path := range other {
		if _, there := img[path]; !there {
			return path, true
		}
	}
	return "", false
}
