package convolog_test

import (
	"cmp"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const apiFile = "testdata/api.txt"

// The public names of the module are the lines of testdata/api.txt. A change of
// the API is a change of that file: go test . -run Walls -update
func TestWallsAPI(t *testing.T) {
	api := publicAPI(sources(t, os.DirFS(".")))
	if *update {
		require.NoError(t, os.WriteFile(apiFile, []byte(strings.Join(api, "\n")+"\n"), 0o644))
		return
	}
	golden, err := os.ReadFile(apiFile)
	require.NoError(t, err)
	report(t, compareAPI(strings.Split(strings.TrimSpace(string(golden)), "\n"), api))
}

func TestAPICheckerFlags(t *testing.T) {
	api := publicAPI(sources(t, fstest.MapFS{
		"session/a.go": {Data: []byte(`package session
type Store struct{ Field int }
func (s *Store) Load() {}
func (s *Store) load() {}
type store struct{}
func (store) Load() {}
type Driver interface { Append(); private() }
const A, b = 1, 2
var V int
func New() {}
`)},
		"session/a_windows.go":        {Data: []byte("package session\nfunc New() {}\n")},
		"session/a_test.go":           {Data: []byte("package session\nfunc T() {}\n")},
		"session/internal/x/x.go":     {Data: []byte("package x\nfunc X() {}\n")},
		"examples/x/x.go":             {Data: []byte("package x\nfunc X() {}\n")},
		"session/storetest/t.go":      {Data: []byte("package storetest\nfunc X() {}\n")},
		"session/driver/pg/go.mod":    {},
		"session/driver/pg/driver.go": {Data: []byte("package pg\nfunc X() {}\n")},
	}))
	require.Equal(t, []string{
		"session.A const",
		"session.Driver type",
		"session.Driver.Append interface method",
		"session.New func",
		"session.Store type",
		"session.Store.Load method",
		"session.V var",
		"session/storetest.X func",
	}, api)
	expect(t, compareAPI(api, api), "")
	expect(t, compareAPI(api[1:], api), "session.A const is new")
	expect(t, compareAPI(api, api[:7]), "session/storetest.X func is gone")
}

// publicAPI lists the exported names of the packages that others may import,
// test kits included, each once even if several systems declare it.
func publicAPI(all []source) (lines []string) {
	for pkg, files := range publicPackages(all) {
		for _, n := range exportedNames(files) {
			lines = append(lines, pkg+"."+n.name+" "+n.kind)
		}
	}
	slices.Sort(lines)
	return lines
}

func compareAPI(golden, api []string) (findings []string) {
	for _, name := range api {
		if !slices.Contains(golden, name) {
			findings = append(findings, name+" is new to "+apiFile+"; if it has to be public: go test . -run Walls -update")
		}
	}
	for _, name := range golden {
		if !slices.Contains(api, name) {
			findings = append(findings, name+" is gone but still in "+apiFile+": go test . -run Walls -update")
		}
	}
	return findings
}

func publicPackages(all []source) map[string][]source {
	public := map[string][]source{}
	for _, s := range all {
		if s.isLibrary() && !slices.Contains(strings.Split(s.pkg, "/"), "internal") {
			public[s.pkg] = append(public[s.pkg], s)
		}
	}
	return public
}

// An exportedName is "Store", or "Store.Load" for a method.
type exportedName struct{ name, kind string }

// exportedNames lists the exported names and methods of files, sorted.
func exportedNames(files []source) []exportedName {
	found := map[exportedName]bool{}
	add := func(owner, name, kind string) {
		if !ast.IsExported(name) || owner != "" && !ast.IsExported(owner) {
			return
		}
		if owner != "" {
			name = owner + "." + name
		}
		found[exportedName{name, kind}] = true
	}
	for _, s := range files {
		for _, decl := range s.file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil {
					add("", decl.Name.Name, "func")
				} else {
					add(receiverName(decl.Recv.List[0].Type), decl.Name.Name, "method")
				}
			case *ast.GenDecl:
				addSpecs(decl.Tok, decl.Specs, add)
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b exportedName) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind))
	})
}

func addSpecs(tok token.Token, specs []ast.Spec, add func(owner, name, kind string)) {
	for _, spec := range specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			for _, id := range spec.Names {
				add("", id.Name, tok.String())
			}
		case *ast.TypeSpec:
			add("", spec.Name.Name, "type")
			iface, ok := spec.Type.(*ast.InterfaceType)
			if !ok {
				continue
			}
			for _, field := range iface.Methods.List {
				for _, id := range field.Names {
					add(spec.Name.Name, id.Name, "interface method")
				}
			}
		}
	}
}
