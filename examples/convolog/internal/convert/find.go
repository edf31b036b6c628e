package convert

import (
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/convolog/convolog/transcript/dialect"
)

// Find returns the sessions of a folder, or the sessions in a file. The error names the
// unreadable parts.
func Find(name string) (iter.Seq[dialect.Session], error) {
	none := func(func(dialect.Session) bool) {}
	info, err := os.Stat(name)
	if err != nil {
		return none, err
	}
	folder, err := dialect.ReadFolder(Files(name))
	if folder == nil {
		return none, err
	}
	if info.IsDir() {
		return folder.Sessions(), err
	}
	base := strings.TrimSuffix(filepath.Base(name), packed)
	var found []dialect.Session
	for s := range folder.Sessions() {
		if strings.TrimSuffix(s.Path, packed) == base || s.Dialect == dialect.OpenViking && s.Path == "." && base == "messages.jsonl" {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return none, fmt.Errorf("%s is not a transcript of a known program: convolog inspect %s describes it", name, name)
	}
	return func(yield func(dialect.Session) bool) {
		for _, s := range found {
			if !yield(s) {
				return
			}
		}
	}, nil
}

// Files returns the files of a folder, or of the folder of a file. Rollouts that Codex
// has compressed are there decompressed if the program zstd is.
func Files(name string) fs.FS {
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		name = filepath.Dir(name)
	}
	return withZstd(name)
}
