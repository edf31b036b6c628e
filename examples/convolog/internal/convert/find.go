package convert

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"

	"github.com/convolog/convolog/transcript/dialect"
)

// Find returns the sessions of a folder, or the session in a file. The error names the
// unreadable parts.
func Find(name string) (iter.Seq[dialect.Session], error) {
	none := func(func(dialect.Session) bool) {}
	info, err := os.Stat(name)
	if err != nil {
		return none, err
	}
	root := name
	if !info.IsDir() {
		root = filepath.Dir(name)
	}
	folder, err := dialect.ReadFolder(os.DirFS(root))
	if folder == nil {
		return none, err
	}
	if info.IsDir() {
		return folder.Sessions(), err
	}
	for s := range folder.Sessions() {
		if s.Path == filepath.Base(name) || s.Dialect == dialect.OpenViking && s.Path == "." && filepath.Base(name) == "messages.jsonl" {
			return func(yield func(dialect.Session) bool) { yield(s) }, nil
		}
	}
	return none, fmt.Errorf("%s is not a transcript of a known program: convolog inspect %s describes it", name, name)
}
