package convolog_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Every library package and every exported name of it has a doc comment:
// types, functions, methods, constants and variables, the methods of an
// interface and the fields of an Options, whose comments name the defaults.
// The comment of any other struct speaks for its fields.
func TestDocumented(t *testing.T) { report(t, checkDocumented(sources(t, os.DirFS(".")))) }

func TestDocCheckerFlags(t *testing.T) {
	tests := []struct {
		name, source, want string
	}{
		{"documented func", "// F does.\nfunc F() {}", ""},
		{"func", "func F() {}", "rebuild/x.go:3: F has no doc comment"},
		{"unexported func", "func f() {}", ""},
		{"directive is no comment", "//go:noinline\nfunc F() {}", "rebuild/x.go:4: F has no doc comment"},
		{"method", "// T is.\ntype T int\n\nfunc (t *T) M() {}", "rebuild/x.go:6: T.M has no doc comment"},
		{"generic method", "// T is.\ntype T[E any] []E\n\nfunc (t T[E]) M() {}", "rebuild/x.go:6: T.M has no doc comment"},
		{"method of unexported type", "type t int\n\nfunc (t) M() {}", ""},
		{"type", "type T int", "rebuild/x.go:3: T has no doc comment"},
		{"types in a group", "// All of them.\ntype (\n\tT int\n)", "rebuild/x.go:5: T has no doc comment"},
		{"const", "const C = 1", "rebuild/x.go:3: C has no doc comment"},
		{"const with line comment", "const C = 1 // the first", ""},
		{"group with one comment", "// Kinds of things.\nconst (\n\tC = 1\n\tD = 2\n)", ""},
		{"name in a group without", "var (\n\tc = 1\n\tD = 2\n)", "rebuild/x.go:5: D has no doc comment"},
		{"field of a struct", "// T is.\ntype T struct {\n\tF int\n}", ""},
		{"option", "// Options is.\ntype Options struct {\n\tF int\n}", "rebuild/x.go:5: Options.F has no doc comment"},
		{"option with line comment", "// Options is.\ntype Options struct {\n\tF int // in bytes\n}", ""},
		{"options under one comment", "// Options is.\ntype Options struct {\n\t// Both are bytes.\n\tF int\n\tG int\n}", ""},
		{
			"option after a gap", "// Options is.\ntype Options struct {\n\t// In bytes.\n\tF int\n\n\tG int\n}",
			"rebuild/x.go:8: Options.G has no doc comment",
		},
		{"embedded option", "// Options is.\ntype Options struct {\n\terror\n}", ""},
		{"interface method", "// T is.\ntype T interface {\n\tM()\n}", "rebuild/x.go:5: T.M has no doc comment"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := "// Package p is.\npackage p\n" + tt.source + "\n"
			expect(t, checkDocumented(sources(t, fstest.MapFS{"rebuild/x.go": {Data: []byte(text)}})), tt.want)
		})
	}
	t.Run("package", func(t *testing.T) {
		expect(t, checkDocumented(sources(t, fstest.MapFS{"rebuild/x.go": {Data: []byte("package p\n")}})),
			"rebuild/x.go:1: package rebuild has no package comment")
	})
}

func checkDocumented(all []source) (findings []string) {
	first, documented := map[string]source{}, map[string]bool{}
	for _, s := range all {
		if !s.isLibrary() {
			continue
		}
		if _, ok := first[s.pkg]; !ok {
			first[s.pkg] = s
		}
		documented[s.pkg] = documented[s.pkg] || has(s.file.Doc)
		missing := func(pos token.Pos, name string) {
			findings = append(findings, s.at(pos, "%s has no doc comment", name))
		}
		for _, decl := range s.file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				name, exported := decl.Name.Name, decl.Name.IsExported()
				if decl.Recv != nil {
					receiver := receiverName(decl.Recv.List[0].Type)
					name = receiver + "." + name
					exported = exported && ast.IsExported(receiver)
				}
				if exported && !has(decl.Doc) {
					missing(decl.Name.Pos(), name)
				}
			case *ast.GenDecl:
				checkSpecs(s, decl, missing)
			}
		}
	}
	for pkg, s := range first {
		if !documented[pkg] {
			findings = append(findings, s.at(s.file.Package, "package %s has no package comment", pkg))
		}
	}
	return findings
}

// A newcomer's documents are short.
func TestDocumentsAreShort(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(text)
	}
	readme := read("README.md")
	require.LessOrEqual(t, countWords(withoutTables(readme)), 900, "README.md")
	require.LessOrEqual(t, strings.Count(read("ARCHITECTURE.md"), "\n"), 120, "ARCHITECTURE.md")
	for _, name := range documents(t, os.DirFS(".")) {
		if page := path.Base(name); page == strings.ToLower(page) { // of a task
			require.LessOrEqual(t, strings.Count(read(name), "\n"), 200, name)
		}
	}
	for line := range strings.Lines(readme + read("ARCHITECTURE.md")) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 121, line)
		if strings.HasPrefix(line, "- ") {
			require.LessOrEqual(t, strings.Count(line, "`"), 4, "more than two identifiers in %s", line)
		}
	}
	for _, s := range sources(t, os.DirFS(".")) {
		if slices.Contains([]string{"session/doc.go", "guard/doc.go", "transcript/doc.go"}, s.name) {
			require.LessOrEqual(t, countWords(s.file.Doc.Text()), 600, s.name)
		}
	}
}

// withoutTables returns the text of a document without code and tables.
func withoutTables(document string) (text string) {
	for i, part := range strings.Split(document, "```") {
		for line := range strings.Lines(part) {
			if i%2 == 0 && !strings.HasPrefix(line, "|") {
				text += line
			}
		}
	}
	return text
}

// Links, names of tests and quotations of the documents are right.
func TestDocumentsAreTrue(t *testing.T) {
	fsys := os.DirFS(".")
	peers, err := parseTree(os.DirFS("internal/peerbench/testdata/frameworks"))
	require.NoError(t, err)
	tests := testNames(slices.Concat(sources(t, fsys), nestedSources(t, fsys), peers))
	for _, name := range documents(t, fsys) {
		report(t, checkDocument(fsys, name, tests))
	}
}

func TestDocumentCheckerFlags(t *testing.T) {
	fsys := fstest.MapFS{
		"a/x_test.go": {Data: []byte("package a\n\nfunc Example() {\n\tfirst()\n\tif a {\n\t\tsecond()\n\t}\n\tthird()\n}\n")},
		"docs/B.md":   {Data: []byte("# What is *in* `B`?\n")},
	}
	for _, tt := range []struct{ name, text, want string }{
		{"links", "[a](../a/x_test.go) and [b](B.md#what-is-in-b), [c](https://c.example/x.md)", ""},
		{"no file", "see [a](../a/y_test.go)", "docs/A.md: no file ../a/y_test.go"},
		{"no heading", "see [a](B.md#b)", "docs/A.md: no heading #b in B.md"},
		{"link in code", "```\n[a](y)\n```\n", ""},
		{"test", "`TestThere` and ExampleThere_more, `x.ExampleOptions`", ""},
		{"no test", "`TestThe` fails", "docs/A.md: no test TestThe"},
		{"command", "`go test ./a -run 'TestThere$'`, `go test ./a ./b -run There`", ""},
		{"command of another package", "`go test ./a -run ExampleOptions`", "docs/A.md: no test ExampleOptions in a"},
		{"quotation", "[a](../a/x_test.go)\n\n```go\nif a {\n\tsecond()\n}\n```\n", ""},
		{"omission", "[a](../a/x_test.go)\n\n```go\nfirst()\n// ...\nthird()\n```\n", ""},
		{"order", "[a](../a/x_test.go)\n\n```go\nthird()\n// ...\nfirst()\n```\n", "docs/A.md: no linked file has the code: third()"},
		{"no quotation", "[a](../a/x_test.go)\n\n```go\nfourth()\n```\n", "docs/A.md: no linked file has the code: fourth()"},
		{"not linked", "```go\nfirst()\n```\n", "docs/A.md: no linked file has the code: first()"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fsys["docs/A.md"] = &fstest.MapFile{Data: []byte(tt.text)}
			tests := map[string][]string{"TestThere": {"b", "a"}, "ExampleThere_more": {"a"}, "ExampleOptions": {"b"}}
			expect(t, checkDocument(fsys, "docs/A.md", tests), tt.want)
		})
	}
}

// testNames returns the packages of all tests, fuzz targets, benchmarks and examples, by
// name.
func testNames(all []source) map[string][]string {
	names := map[string][]string{}
	for _, s := range all {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && s.test && f.Recv == nil {
				names[f.Name.Name] = append(names[f.Name.Name], s.pkg)
			}
		}
	}
	return names
}

var (
	documentLink = regexp.MustCompile(`\]\(([^():#]*)(?:#([^()]*))?\)`)
	testName     = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark|Example)[A-Z][A-Za-z0-9_]*`)
	testCommand  = regexp.MustCompile(`go test \./([a-z/]+) -(?:run|bench|fuzz) '?((?:Test|Fuzz|Benchmark|Example)[A-Z][A-Za-z0-9_]*)`)
	noAnchor     = regexp.MustCompile(`[^\pL\pN _-]`)
)

// checkDocument checks that the relative links of a document lead to files and
// headings, and that the tests it names exist, in the package of a command. Each block of Go code must be a part
// of a linked Go file, except for its indent; a line "// ..." leaves out lines.
func checkDocument(fsys fs.FS, name string, tests map[string][]string) (findings []string) {
	add := func(format string, args ...any) {
		findings = append(findings, fmt.Sprintf(name+": "+format, args...))
	}
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		add("%v", err)
	}
	var linked []string // the text of Go files
	parts := strings.Split(string(text), "```")
	for i, part := range parts {
		if i%2 == 1 {
			continue
		}
		for _, link := range documentLink.FindAllStringSubmatch(part, -1) {
			target := name
			if link[1] != "" {
				target = path.Join(path.Dir(name), link[1])
			}
			file, err := fs.ReadFile(fsys, target)
			if info, statErr := fs.Stat(fsys, target); statErr != nil || err != nil && !info.IsDir() {
				add("no file %s", link[1])
			} else if link[2] != "" && !slices.Contains(anchors(string(file)), link[2]) {
				add("no heading #%s in %s", link[2], link[1])
			}
			if strings.HasSuffix(target, ".go") {
				linked = append(linked, string(file))
			}
		}
		for _, test := range testName.FindAllString(part, -1) {
			if tests[test] == nil {
				add("no test %s", test)
			}
		}
		for _, command := range testCommand.FindAllStringSubmatch(part, -1) {
			if pkgs := tests[command[2]]; pkgs != nil && !slices.Contains(pkgs, command[1]) {
				add("no test %s in %s", command[2], command[1])
			}
		}
	}
	for i, part := range parts {
		code, isGo := strings.CutPrefix(part, "go\n")
		if i%2 == 1 && isGo && !slices.ContainsFunc(linked, func(file string) bool { return quotes(file, code) }) {
			first, _, _ := strings.Cut(code, "\n")
			add("no linked file has the code: %s", first)
		}
	}
	return findings
}

// anchors returns the anchors of the headings of a document.
func anchors(document string) (all []string) {
	for line := range strings.Lines(document) {
		if strings.HasPrefix(line, "#") {
			text := noAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#"))), "")
			all = append(all, strings.ReplaceAll(text, " ", "-"))
		}
	}
	return all
}

// quotes reports whether the pieces of code, between lines "// ...", follow each other
// in a file.
func quotes(file, code string) bool {
	file = trimLines(file)
	for piece := range strings.SplitSeq(trimLines(code), "// ...\n") {
		_, rest, ok := strings.Cut(file, "\n"+piece)
		if !ok {
			return false
		}
		file = "\n" + rest
	}
	return true
}

func trimLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}

// checkSpecs calls missing for every exported name decl leaves undocumented. A
// comment on a group documents its constants and variables, not its types.
func checkSpecs(s source, decl *ast.GenDecl, missing func(token.Pos, string)) {
	covers := paragraph{s: s}
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			ok := covers.covered(spec, has(spec.Doc) || has(spec.Comment)) || has(decl.Doc)
			for _, name := range spec.Names {
				if name.IsExported() && !ok {
					missing(name.Pos(), name.Name)
				}
			}
		case *ast.TypeSpec:
			if !spec.Name.IsExported() {
				continue
			}
			if !has(spec.Doc) && (decl.Lparen.IsValid() || !has(decl.Doc)) {
				missing(spec.Name.Pos(), spec.Name.Name)
			}
			switch typ := spec.Type.(type) {
			case *ast.StructType:
				if strings.HasSuffix(spec.Name.Name, "Options") {
					checkFields(s, spec.Name.Name, typ.Fields, missing)
				}
			case *ast.InterfaceType:
				checkFields(s, spec.Name.Name, typ.Methods, missing)
			}
		}
	}
}

// checkFields does for the fields of an Options and the methods of an interface
// what checkSpecs does for names.
func checkFields(s source, owner string, fields *ast.FieldList, missing func(token.Pos, string)) {
	covers := paragraph{s: s}
	for _, field := range fields.List {
		ok := covers.covered(field, has(field.Doc) || has(field.Comment))
		for _, name := range field.Names {
			if name.IsExported() && !ok {
				missing(name.Pos(), owner+"."+name.Name)
			}
		}
	}
}

// A paragraph follows lines that stand together: the comment above the first
// of them speaks for those under it, up to a blank line.
type paragraph struct {
	s    source
	last int // line on which the previous node ended
	ok   bool
}

// covered reports whether n is documented, given whether it has a comment of
// its own.
func (p *paragraph) covered(n ast.Node, own bool) bool {
	line := func(pos token.Pos) int { return p.s.fset.Position(pos).Line }
	p.ok = own || p.ok && line(n.Pos()) == p.last+1
	p.last = line(n.End())
	return p.ok
}

// has reports whether a comment group has text besides directives.
func has(doc *ast.CommentGroup) bool { return doc != nil && doc.Text() != "" }

func receiverName(typ ast.Expr) string {
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.ParenExpr:
			typ = t.X
		case *ast.IndexExpr:
			typ = t.X
		case *ast.IndexListExpr:
			typ = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}
