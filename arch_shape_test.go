package convolog_test

import (
	"go/ast"
	"regexp"
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
