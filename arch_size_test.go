package convolog_test

import (
	"bytes"
	"go/ast"
)

// countLines counts the lines of files, whatever their build constraints.
func countLines(files []source) (count int) {
	for _, s := range files {
		count += bytes.Count(s.text, []byte("\n"))
	}
	return count
}

// countNames counts the exported names of files and, apart from them, the
// exported methods of exported types. Fields and the methods of interfaces are
// parts of a type.
func countNames(files []source) (plain, methods int) {
	for _, n := range exportedNames(files) {
		switch n.kind {
		case "method":
			methods++
		case "interface method":
		default:
			plain++
		}
	}
	return plain, methods
}

// largestType counts the exported methods of the type that has most.
func largestType(files []source) (most int) {
	methods := map[string]map[string]bool{}
	for _, s := range files {
		for _, decl := range s.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || !fn.Name.IsExported() {
				continue
			}
			receiver := receiverName(fn.Recv.List[0].Type)
			if methods[receiver] == nil {
				methods[receiver] = map[string]bool{}
			}
			methods[receiver][fn.Name.Name] = true
			most = max(most, len(methods[receiver]))
		}
	}
	return most
}
