package convolog_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// A room is a package that applications link: all its files without tests, and
// the types of the files that linux/amd64 builds.
type room struct {
	pkg   string // path of the package, relative to the module
	files []source
	built []source
	info  *types.Info
}

// countsAsTest reports whether only tests import a package.
func countsAsTest(pkg string) bool {
	return strings.HasSuffix(path.Base(pkg), "test") || pkg == "internal/soak"
}

// rooms returns the packages of the module, type-checked once for all tests.
func rooms(t *testing.T) []*room {
	t.Helper()
	all, err := moduleRooms()
	require.NoError(t, err)
	return all
}

var moduleRooms = sync.OnceValues(func() ([]*room, error) {
	all, err := parseModule()
	if err != nil {
		return nil, err
	}
	return checkTypes(all)
})

// checkTypes returns the rooms of all, sorted by package.
func checkTypes(all []source) ([]*room, error) {
	c := &checker{rooms: map[string]*room{}, loaded: map[string]*types.Package{}, std: linux()}
	for _, s := range all {
		c.fset = s.fset
		if !s.isLibrary() || s.pkg == "." {
			continue
		}
		if c.rooms[s.pkg] == nil {
			c.rooms[s.pkg] = &room{pkg: s.pkg}
		}
		r := c.rooms[s.pkg]
		r.files = append(r.files, s)
		if s.builtOnLinux() {
			r.built = append(r.built, s)
		}
	}
	var linked []*room
	for _, pkg := range slices.Sorted(maps.Keys(c.rooms)) {
		if countsAsTest(pkg) {
			continue
		}
		if _, err := c.Import(path.Join(module, pkg)); err != nil {
			return nil, err
		}
		linked = append(linked, c.rooms[pkg])
	}
	return linked, errors.Join(c.errs...)
}

// A checker type-checks packages from source, in this process: the test cache
// does not see the files that a go command in a child process reads. It checks
// the bodies of functions in the module alone, and does not read other modules
// or the internal packages of the standard library. Types that come from there
// are invalid; go/types reports no errors about them.
type checker struct {
	fset   *token.FileSet
	rooms  map[string]*room
	loaded map[string]*types.Package // nil: not available
	std    build.Context
	errs   []error // type errors of the module
}

// Import implements [types.Importer].
func (c *checker) Import(name string) (*types.Package, error) {
	pkg, ok := c.loaded[name]
	if !ok {
		c.loaded[name] = nil // until the package is complete
		var err error
		if pkg, err = c.load(name); err != nil {
			return nil, err
		}
		c.loaded[name] = pkg
	}
	if pkg == nil {
		return nil, fmt.Errorf("package %s is not available", name)
	}
	return pkg, nil
}

func (c *checker) load(name string) (*types.Package, error) {
	first, _, _ := strings.Cut(name, "/")
	switch r := c.rooms[strings.TrimPrefix(name, module+"/")]; {
	case r != nil:
		return c.checkRoom(name, r), nil
	case name == "unsafe":
		return types.Unsafe, nil
	case strings.Contains(first, "."), slices.Contains(strings.Split(name, "/"), "internal"):
		return nil, nil
	}
	return c.checkStandard(name)
}

func (c *checker) checkRoom(name string, r *room) *types.Package {
	r.info = &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	var files []*ast.File
	for _, s := range r.built {
		files = append(files, s.file)
	}
	conf := types.Config{Importer: c, Error: func(err error) {
		if !strings.Contains(err.Error(), "could not import") {
			c.errs = append(c.errs, err)
		}
	}}
	pkg, _ := conf.Check(name, c.fset, files, r.info)
	return pkg
}

func (c *checker) checkStandard(name string) (*types.Package, error) {
	found, err := c.std.ImportDir(filepath.Join(c.std.GOROOT, "src", filepath.FromSlash(name)), 0)
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, base := range found.GoFiles {
		file, err := parser.ParseFile(c.fset, filepath.Join(found.Dir, base), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	conf := types.Config{Importer: c, IgnoreFuncBodies: true, Error: func(error) {}}
	pkg, _ := conf.Check(name, c.fset, files, nil)
	return pkg, nil
}

// linux is the context of linux/amd64 without cgo, on any machine.
func linux() build.Context {
	ctx := build.Default
	ctx.GOOS, ctx.GOARCH, ctx.CgoEnabled = "linux", "amd64", false
	return ctx
}

func (s source) builtOnLinux() bool {
	ctx := linux()
	ctx.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(s.text)), nil }
	ok, err := ctx.MatchFile(path.Split(s.name))
	return ok && err == nil
}

func TestCheckTypes(t *testing.T) {
	fsys := fstest.MapFS{
		"doc.go":                   {Data: []byte("package convolog\n")},
		"transcript/a.go":          {Data: []byte("package transcript\ntype Entry struct{ ID string }\n")},
		"transcript/a_linux.go":    {Data: []byte("package transcript\nconst System = 1\n")},
		"transcript/a_other.go":    {Data: []byte("//go:build !linux\n\npackage transcript\nconst System = 2\n")},
		"session/sessiontest/a.go": {Data: []byte("package sessiontest\n")},
		"session/a.go": {Data: []byte(`package session

import (
	"` + module + `/transcript"
	"example.com/other"
)

func f(e transcript.Entry) string { return other.F(e.ID, transcript.System).Unknown }
`)},
	}
	house, err := checkTypes(sources(t, fsys))
	require.NoError(t, err)
	require.Len(t, house, 2)
	require.Equal(t, "session", house[0].pkg)
	require.Len(t, house[1].files, 3)
	require.Len(t, house[1].built, 2)
	require.Equal(t, 8, countLines(house[1].files))

	fsys["session/b.go"] = &fstest.MapFile{Data: []byte("package session\nvar _ = missing\n")}
	_, err = checkTypes(sources(t, fsys))
	require.ErrorContains(t, err, "undefined: missing")
}
