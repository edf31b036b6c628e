package filedriver

import (
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"strings"

	"github.com/convolog/convolog/internal/filename"
)

const (
	archiveFolder = "archive"
	extension     = ".jsonl"
	gzipExtension = ".gz"
)

// kinds are the folders of an agent that hold sessions, and the ends of the names there.
// Next to a transcript an archive does not count.
var kinds = [2]struct{ folder, ext string }{{"sessions", extension}, {archiveFolder, extension + gzipExtension}}

// fileName returns the name of a transcript. If only a hashed name is known, id
// is that name, which is too long for an ID.
func fileName(id string) string {
	if enc, ok := strings.CutSuffix(id, extension); ok && filename.IsHashed(enc) {
		return id
	}
	return filename.Encode(id) + extension
}

// archiveName returns the name of a session's archive in the folder of its agent.
func archiveName(id string) string { return archiveFolder + "/" + fileName(id) + gzipExtension }

// names yields the names in a folder that end with ext, without ext. A missing
// folder yields nothing.
func names(root *os.Root, folder, ext string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		info, err := root.Lstat(folder)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
			return
		}
		var f *os.File
		if err == nil {
			f, err = root.Open(folder)
		}
		if err == nil {
			defer func() { _ = f.Close() }() // only read
		}
		for err == nil {
			var some []string
			some, err = f.Readdirnames(64)
			for _, name := range some {
				if enc, ok := strings.CutSuffix(name, ext); ok && !yield(enc, nil) {
					return
				}
			}
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, fs.ErrNotExist) {
			yield("", err)
		}
	}
}
