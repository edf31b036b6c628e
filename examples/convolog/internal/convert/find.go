package convert

import (
	"fmt"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript/dialect"
)

// Find returns the sessions of a folder, or the one in a file, which may be the array of a
// provider: its form is from, or the one that its content shows. The error names the
// unreadable parts. Of a folder, arrays of no form are left out.
func Find(name, from string) (iter.Seq[exchange.Source], error) {
	none := func(func(exchange.Source) bool) {}
	if from != "" && !slices.Contains(forms, from) {
		return none, fmt.Errorf("there is no form %q of an array, only %q", from, forms)
	}
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
		return func(yield func(exchange.Source) bool) {
			for s := range folder.Sessions() {
				if !yield(s) {
					return
				}
			}
			for _, other := range folder.Others {
				if path.Ext(other) != ".json" {
					continue
				}
				if a, err := readArray(other, filepath.Join(root, filepath.FromSlash(other)), from); err == nil && !yield(a) {
					return
				}
			}
		}, err
	}
	for s := range folder.Sessions() {
		if s.Path == filepath.Base(name) || s.Dialect == dialect.OpenViking && s.Path == "." && filepath.Base(name) == "messages.jsonl" {
			return func(yield func(exchange.Source) bool) { yield(s) }, nil
		}
	}
	if a, err := readArray(filepath.Base(name), name, from); err == nil || from != "" || path.Ext(name) == ".json" {
		return func(yield func(exchange.Source) bool) { yield(a) }, err
	}
	return none, fmt.Errorf("%s: not a transcript of a known program: convolog inspect %s describes it", name, name)
}
