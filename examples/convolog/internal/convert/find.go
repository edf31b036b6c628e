package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript/dialect"
)

// Find returns the sessions of a folder, or the sessions in a file. A file may be the array
// of a provider: its form is from, or the one that its content shows. The error names the
// unreadable parts. Of a folder, it returns [Sessions].
func Find(name, from string) (iter.Seq[exchange.Source], error) {
	none := func(func(exchange.Source) bool) {}
	if from != "" && !slices.Contains(forms, from) {
		return none, fmt.Errorf("there is no form %q of an array, only %q", from, forms)
	}
	info, err := os.Stat(name)
	if err != nil {
		return none, err
	}
	folder, err := dialect.ReadFolder(Files(name))
	if folder == nil {
		return none, err
	}
	if info.IsDir() {
		return Sessions(name, folder, from), err
	}
	base := strings.TrimSuffix(filepath.Base(name), packed)
	var found []exchange.Source
	for s := range folder.Sessions() {
		if strings.TrimSuffix(s.Path, packed) == base || s.Dialect == dialect.OpenViking && s.Path == "." && base == "messages.jsonl" {
			found = append(found, s)
		}
	}
	if len(found) > 0 {
		return slices.Values(found), nil
	}
	a, err := readArray(base, name, from)
	switch {
	case err == nil:
		return func(yield func(exchange.Source) bool) { yield(a) }, nil
	case from != "":
		return none, err
	case path.Ext(name) == ".json":
		return none, fmt.Errorf("%s is not a transcript of a known program: %w", name, err)
	}
	return none, fmt.Errorf("%s is not a transcript of a known program: convolog inspect %s describes it", name, name)
}

// Sessions returns the sessions of the folder name, and its arrays of the form from, or of
// any form if that is empty. A file with messages that no form holds is a source with an
// error.
func Sessions(name string, folder *dialect.Folder, from string) iter.Seq[exchange.Source] {
	return func(yield func(exchange.Source) bool) {
		for s := range folder.Sessions() {
			if !yield(s) {
				return
			}
		}
		for _, other := range folder.Others {
			file := filepath.Join(name, filepath.FromSlash(other))
			if i, err := os.Lstat(file); err != nil || !i.Mode().IsRegular() || path.Ext(other) != ".json" {
				continue
			}
			a, err := readArray(other, file, from)
			if errors.Is(err, errNoMessage) {
				continue
			}
			if a.info.Err = err; err != nil {
				a.info.Err = fmt.Errorf("%s: %w", other, err)
			}
			if !yield(a) {
				return
			}
		}
	}
}

// Files returns the files of a folder, or of the folder of a file. Rollouts that Codex
// has compressed are there decompressed if the program zstd is.
func Files(name string) fs.FS {
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		name = filepath.Dir(name)
	}
	return withZstd(name)
}
