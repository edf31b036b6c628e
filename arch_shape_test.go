package convolog_test

import (
	"go/ast"
	"regexp"
	"slices"
	"testing"
	"testing/fstest"
)

const (
	mostFields = 12 // of a private struct
	mostFlags  = 2  // booleans among them
)

// structShapes lists the private structs with more than mostFields fields, and
// the private structs with more than mostFlags booleans.
func structShapes(files []source) (wide, flags []string) {
	for _, s := range files {
		for n := range ast.Preorder(s.file) {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.IsExported() {
				continue
			}
			typ, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			fields, bools := 0, 0
			for _, field := range typ.Fields.List {
				fields += max(1, len(field.Names))
				if isBool(field.Type) {
					bools += max(1, len(field.Names))
				}
			}
			if fields > mostFields {
				wide = append(wide, s.at(spec.Pos(), "%s has %d fields", spec.Name.Name, fields))
			}
			if bools > mostFlags {
				flags = append(flags, s.at(spec.Pos(), "%s has %d booleans", spec.Name.Name, bools))
			}
		}
	}
	return wide, flags
}

// boolParameters lists the boolean parameters of private functions and methods.
// The last parameter may be a boolean if the doc comment names it.
func boolParameters(files []source) (found []string) {
	for _, s := range files {
		for _, decl := range s.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Name.IsExported() {
				continue
			}
			list := fn.Type.Params.List
			for i, field := range list {
				if !isBool(field.Type) {
					continue
				}
				for j, id := range field.Names {
					last := i == len(list)-1 && j == len(field.Names)-1
					if !last || !mentions(fn.Doc, id.Name) {
						found = append(found, s.at(id.Pos(), "%s takes the boolean %s", fn.Name.Name, id.Name))
					}
				}
			}
		}
	}
	return found
}

func mentions(doc *ast.CommentGroup, name string) bool {
	return doc != nil && regexp.MustCompile(`\b`+regexp.QuoteMeta(name)+`\b`).MatchString(doc.Text())
}

func isBool(typ ast.Expr) bool {
	switch typ := typ.(type) {
	case *ast.Ident:
		return typ.Name == "bool"
	case *ast.SelectorExpr:
		x, ok := typ.X.(*ast.Ident)
		return ok && x.Name == "atomic" && typ.Sel.Name == "Bool"
	}
	return false
}

func TestShapeCheckerFlags(t *testing.T) {
	for _, tt := range []struct{ name, source, want string }{
		{"12 fields", "type t struct { a, b, c, d, e, f, g, h, i, j, k int; error }", ""},
		{"13 fields", "type t struct { a, b, c, d, e, f, g, h, i, j, k, l int; error }", "rebuild/x.go:2: t has 13 fields"},
		{"13 fields of an exported struct", "type T struct { a, b, c, d, e, f, g, h, i, j, k, l int; error }", ""},
		{"13 fields of a local struct", "func f() { type t struct { a, b, c, d, e, f, g, h, i, j, k, l, m int } }", "rebuild/x.go:2: t has 13 fields"},
		{"2 booleans", "type t struct { a, b bool; c int }", ""},
		{"3 booleans", "type t struct { a, b bool; c atomic.Bool }", "rebuild/x.go:2: t has 3 booleans"},
		{"boolean parameter", "func f(sync bool, n int) {}", "rebuild/x.go:2: f takes the boolean sync"},
		{"boolean parameter of a method", "func (t) f(sync bool) {}", "rebuild/x.go:2: f takes the boolean sync"},
		{"boolean parameter of an exported function", "func F(sync bool) {}", ""},
		{"last boolean in the doc", "// f writes, and with sync set syncs.\nfunc f(n int, sync bool) {}", ""},
		{"last boolean not in the doc", "// f synchronizes.\nfunc f(n int, sync bool) {}", "rebuild/x.go:3: f takes the boolean sync"},
		{"one of two booleans in the doc", "// f writes, maybe sync and hard.\nfunc f(sync, hard bool) {}", "rebuild/x.go:3: f takes the boolean sync"},
		{"boolean result", "func f() (ok bool) { return }", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := sources(t, fstest.MapFS{"rebuild/x.go": {Data: []byte("package p\n" + tt.source + "\n")}})
			wide, flags := structShapes(files)
			expect(t, slices.Concat(wide, flags, boolParameters(files)), tt.want)
		})
	}
}
