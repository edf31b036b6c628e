package convolog_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// A nested module that has a replace line cannot be installed, and one that requires
// another version than the coming one is released with it. go.work finds all of them
// here without replace lines. A module has a go.work of its own if it cannot be built with
// the dependencies of another module.
func TestModules(t *testing.T) { report(t, checkModules(os.DirFS("."))) }

func TestModulesFlags(t *testing.T) {
	fsys := fstest.MapFS{}
	for name, text := range map[string]string{
		"go.mod":        "module " + module + "\n",
		"go.work":       "use (\n\t.\n\t./good\n\t./bad\n)\nreplace " + module + " v0.2.0 => ./\n",
		"good/go.mod":   "module " + module + "/good\nrequire " + module + " v0.2.0\n",
		"bad/go.mod":    "module " + module + "/bad\nrequire " + module + " v0.1.0\nreplace " + module + " => ../\n",
		"absent/go.mod": "module " + module + "/absent\n",
		"alone/go.mod":  "module " + module + "/alone\n",
		"alone/go.work": "use (\n\t.\n\t../\n)\n",
	} {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	require.Equal(t, []string{
		"absent/go.mod: the module is not in go.work",
		"bad/go.mod: requires " + module + " v0.1.0; go.work has v0.2.0",
		"bad/go.mod: has a replace line; go.work finds the module",
	}, checkModules(fsys))
}

func checkModules(fsys fs.FS) (findings []string) {
	work, err := fs.ReadFile(fsys, "go.work")
	if err != nil {
		return []string{err.Error()}
	}
	_, version, _ := strings.Cut(string(work), module+" ")
	version, _, _ = strings.Cut(version, " ")
	used := strings.Fields(string(work))
	find := func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (hidden(d.Name()) || d.Name() == "testdata"):
			return fs.SkipDir
		case d.Name() != "go.mod":
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		_, alone := fs.Stat(fsys, path.Join(path.Dir(name), "go.work")) // nil if it has a workspace of its own
		if dir := path.Dir(name); alone != nil && !slices.Contains(used, "./"+dir) {
			findings = append(findings, name+": the module is not in go.work")
		}
		findings = append(findings, checkModule(name, string(text), version)...)
		return nil
	}
	if err := fs.WalkDir(fsys, ".", find); err != nil {
		findings = append(findings, err.Error())
	}
	return findings
}

// checkModule checks the lines of one go.mod.
func checkModule(name, text, version string) (findings []string) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if slices.Contains(words, "=>") {
			findings = append(findings, name+": has a replace line; go.work finds the module")
			continue
		}
		for i := 1; i < len(words); i++ {
			own := words[i-1] == module || strings.HasPrefix(words[i-1], module+"/")
			if own && words[i] != version {
				findings = append(findings, fmt.Sprintf("%s: requires %s %s; go.work has %s", name, words[i-1], words[i], version))
			}
		}
	}
	return findings
}
