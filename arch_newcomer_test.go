package convolog_test

import (
	"go/ast"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// newcomerPrograms are what a newcomer writes first: a loop, and a web backend with
// conversations by ID.
var newcomerPrograms = []string{"examples/loop/main.go", "session/example_scope_test.go"}

// The programs of a newcomer need few names, and the package docs name them.
func TestNewcomersNames(t *testing.T) {
	all := sources(t, os.DirFS("."))
	public := publicPackages(all)
	used := map[string]bool{}
	for _, s := range all {
		if slices.Contains(newcomerPrograms, s.name) {
			maps.Copy(used, namesUsed(s, public))
		}
	}
	require.Greater(t, len(used), 20)
	require.LessOrEqual(t, len(used), 60, "%q", slices.Sorted(maps.Keys(used)))
	for _, name := range slices.Sorted(maps.Keys(used)) {
		pkg, name, _ := strings.Cut(name, ".")
		if !strings.Contains(packageDoc(public[pkg]), name[strings.LastIndexByte(name, '.')+1:]) {
			t.Errorf("the doc of %s, which lists what newcomers need, lacks %s", pkg, name)
		}
	}
}

// The docs of the packages that applications import begin with the names that most
// programs need.
func TestMostProgramsNeed(t *testing.T) {
	public := publicPackages(sources(t, os.DirFS(".")))
	for _, pkg := range []string{
		"compact", "guard", "rebuild", "session", "session/blobs", "session/erase", "session/exchange", "session/memory",
		"session/retain", "session/search", "session/serve", "session/turn", "transcript",
	} {
		paragraphs := strings.Split(packageDoc(public[pkg]), "\n\n")
		require.True(t, strings.HasPrefix(paragraphs[1], "Most programs need"), "%s: %s", pkg, paragraphs[1])
	}
}

// namesUsed returns the public names of the module that a file uses, as in
// "session.Store" and "session.Store.Load". A method is found by its name alone.
func namesUsed(s source, public map[string][]source) map[string]bool {
	used := map[string]bool{}
	pkgs := map[string]string{} // by the name in the file
	methods := map[string]string{}
	for _, spec := range s.file.Imports {
		pkg, ok := strings.CutPrefix(importPath(spec), module+"/")
		if !ok {
			continue
		}
		pkgs[path.Base(pkg)] = pkg
		for _, n := range exportedNames(public[pkg]) {
			if _, method, ok := strings.Cut(n.name, "."); ok {
				methods[method] = pkg + "." + n.name
			}
		}
	}
	delete(methods, "Scan") // of a bufio.Scanner
	isPackage := func(x ast.Expr) bool {
		id, ok := x.(*ast.Ident)
		return ok && pkgs[id.Name] != ""
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if isPackage(n.X) {
				used[pkgs[n.X.(*ast.Ident).Name]+"."+n.Sel.Name] = true
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && methods[f.Sel.Name] != "" && !isPackage(f.X) {
				used[methods[f.Sel.Name]] = true
			}
		}
		return true
	})
	return used
}

func packageDoc(files []source) (text string) {
	for _, s := range files {
		text += s.file.Doc.Text()
	}
	return text
}
