package convolog_test

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// A use is a name that one file of a package takes from another.
type use struct {
	from, to string // names of files
	name     string // "newID", "Session.Append", "Options.Filters"
}

// uses lists the package-level names, methods and fields that a file of the room
// takes from another file, each once and sorted.
func (r *room) uses() []use {
	files := map[*token.File]string{}
	for _, s := range r.built {
		files[s.fset.File(s.file.FileStart)] = path.Base(s.name)
	}
	owners := r.owners()
	found := map[use]bool{}
	for _, s := range r.built {
		from := path.Base(s.name)
		for n := range ast.Preorder(s.file) {
			id, ok := n.(*ast.Ident)
			if !ok {
				continue
			}
			obj := r.info.Uses[id]
			if obj == nil || !obj.Pos().IsValid() {
				continue
			}
			// No local name crosses a file.
			if to, ok := files[s.fset.File(obj.Pos())]; ok && to != from {
				name := obj.Name()
				if owner := owners[obj.Pos()]; owner != "" {
					name = owner + "." + name
				}
				found[use{from, to, name}] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b use) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.name, b.name))
	})
}

// owners returns the type that owns the method or field declared at a position.
func (r *room) owners() map[token.Pos]string {
	owners := map[token.Pos]string{}
	for _, s := range r.built {
		for n := range ast.Preorder(s.file) {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					owners[n.Name.Pos()] = receiverName(n.Recv.List[0].Type)
				}
			case *ast.TypeSpec:
				for field := range ast.Preorder(n.Type) {
					if id, ok := field.(*ast.Ident); ok && r.isMember(id) {
						owners[id.Pos()] = n.Name.Name
					}
				}
			}
		}
	}
	return owners
}

// isMember reports whether id declares a field or a method.
func (r *room) isMember(id *ast.Ident) bool {
	switch obj := r.info.Defs[id].(type) {
	case *types.Var:
		return obj.IsField()
	case *types.Func:
		return true
	}
	return false
}

func TestUses(t *testing.T) {
	house, err := checkTypes(sources(t, fstest.MapFS{
		"session/a.go": {Data: []byte(`package session

type T struct{ list []U }
type U struct{ n int }
type I interface{ M() }
func (u U) M() {}
func f[E any](e E) E { return e }
const c = 1
`)},
		"session/b.go": {Data: []byte(`package session

import "slices"

func g(t T, i I) {
	for _, u := range slices.Backward(t.list) {
		_ = u.n
		u.M()
	}
	i.M()
	f(c)
	local := func(c int) int { return c }
	local(1)
}
`)},
		"session/b_windows.go": {Data: []byte("package session\n\nvar _ = c\n")},
		"session/b_test.go":    {Data: []byte("package session\n\nvar _ = c\n")},
	}))
	require.NoError(t, err)
	var names []string
	for _, u := range house[0].uses() {
		require.Equal(t, []string{"b.go", "a.go"}, []string{u.from, u.to})
		names = append(names, u.name)
	}
	require.Equal(t, []string{"I", "I.M", "T", "T.list", "U.M", "U.n", "c", "f"}, names)
}
