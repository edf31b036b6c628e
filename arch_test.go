package convolog_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/convolog/convolog"

// imports is the allowed import graph: for each package of the module the
// packages of the module it may import, all relative to the module. A package
// that is not a key must not exist; "examples/..." stands for every package
// below examples. A new arrow is a decision: draw it in ARCHITECTURE.md first.
var imports = map[string][]string{
	".":                   {},
	"internal/abstract":   {},
	"internal/ahead":      {},
	"internal/checksum":   {},
	"internal/filedriver": {"internal/ahead", "internal/filelog", "internal/filename", "internal/jsontext", "session/driver", "transcript"},
	"internal/filelog":    {"session/driver"},
	"internal/filename":   {},
	"internal/imagesize":  {"transcript"},
	"internal/jsontext":   {},
	"internal/lazy":       {},
	"internal/neutral":    {"internal/quote", "transcript"},
	"internal/wiretest":   {"internal/lazy", "transcript"},
	"internal/quote":      {},
	"internal/quotetest":  {},
	"internal/recalltool": {},
	"internal/title":      {"internal/unseen"},
	"internal/unseen":     {"internal/lazy"},
	"internal/words":      {},
	"internal/pgtest":     {},
	"internal/page":       {"session", "transcript", "transcript/tokens"},
	"transcript":          {"internal/ahead", "internal/checksum", "internal/jsontext", "internal/title"},
	"transcript/tokens":   {"internal/imagesize", "transcript"},
	"transcript/redact":   {"internal/checksum", "internal/jsontext", "internal/lazy", "transcript"},
	// Nothing may import convlog: what an agent can reach has no channel logs.
	"session/serve/zyhive/convlog": {"internal/filelog", "internal/filename", "internal/jsontext", "internal/words", "session/driver", "transcript"},
	"transcript/dialect": {
		"internal/abstract", "internal/jsontext", "internal/recalltool", "internal/title", "internal/words", "transcript",
		"transcript/dialect/internal/chatgpt", "transcript/dialect/internal/claudeai", "transcript/dialect/internal/claudecode",
		"transcript/dialect/internal/codex", "transcript/dialect/internal/document", "transcript/dialect/internal/fields",
		"transcript/dialect/internal/flat", "transcript/dialect/internal/gemini", "transcript/dialect/internal/opencode",
		"transcript/dialect/internal/openviking", "transcript/dialect/internal/pi", "transcript/dialect/internal/rows", "transcript/dialect/internal/zyhive",
	},
	// A folder for each program, and the code that they share. None imports another.
	"transcript/dialect/internal/fields":     {"internal/jsontext", "transcript"},
	"transcript/dialect/internal/document":   {"internal/jsontext", "transcript"},
	"transcript/dialect/internal/rows":       {"internal/jsontext", "transcript"},
	"transcript/dialect/internal/thread":     {},
	"transcript/dialect/internal/chatgpt":    {"internal/jsontext", "transcript", "transcript/dialect/internal/fields", "transcript/dialect/internal/thread"},
	"transcript/dialect/internal/claudeai":   {"internal/jsontext", "transcript", "transcript/dialect/internal/fields", "transcript/dialect/internal/thread"},
	"transcript/dialect/internal/tree":       {"transcript", "transcript/dialect/internal/fields"},
	"transcript/dialect/internal/claudecode": {"internal/jsontext", "internal/words", "transcript", "transcript/dialect/internal/fields", "transcript/dialect/internal/rows", "transcript/dialect/internal/tree"},
	"transcript/dialect/internal/flat":       {"internal/jsontext", "transcript", "transcript/dialect/internal/fields"},
	"transcript/dialect/internal/openviking": {"internal/jsontext", "transcript", "transcript/dialect/internal/fields"},
	"transcript/dialect/internal/pi":         {"internal/jsontext", "internal/words", "transcript", "transcript/dialect/internal/fields", "transcript/dialect/internal/rows", "transcript/dialect/internal/tree"},
	"transcript/dialect/internal/zyhive":     {"internal/jsontext", "transcript", "transcript/dialect/internal/fields"},
	"transcript/dialect/internal/codex":      {"internal/jsontext", "transcript", "transcript/dialect/internal/fields", "transcript/dialect/internal/rows"},
	"transcript/dialect/internal/gemini":     {"internal/jsontext", "transcript", "transcript/dialect/internal/fields"},
	"transcript/dialect/internal/opencode":   {"transcript", "transcript/dialect/internal/fields"},
	"rebuild":                                {"internal/jsontext", "internal/neutral", "internal/quote", "internal/words", "transcript", "transcript/tokens"},
	"rebuild/wire":                           {"internal/jsontext", "rebuild/wire/internal/js", "transcript"},
	// The code that the formats share. No format imports another, and rebuild/wire imports none of them.
	"rebuild/wire/internal/js":       {"internal/jsontext"},
	"rebuild/wire/internal/format":   {"internal/imagesize", "internal/jsontext", "internal/neutral", "internal/quote", "rebuild", "rebuild/wire", "rebuild/wire/internal/js", "transcript"},
	"rebuild/wire/internal/messages": {"internal/jsontext", "internal/neutral", "rebuild", "rebuild/wire", "rebuild/wire/internal/format", "rebuild/wire/internal/js", "transcript"},
	"rebuild/wire/internal/openai":   {"internal/jsontext", "internal/neutral", "rebuild/wire/internal/format", "rebuild/wire/internal/js", "transcript"},
	"rebuild/wire/anthropic":         {"internal/jsontext", "internal/neutral", "rebuild", "rebuild/wire", "rebuild/wire/internal/format", "rebuild/wire/internal/js", "rebuild/wire/internal/messages", "transcript"},
	"rebuild/wire/bedrock":           {"internal/jsontext", "internal/neutral", "rebuild", "rebuild/wire", "rebuild/wire/internal/format", "rebuild/wire/internal/js", "rebuild/wire/internal/messages", "transcript"},
	"rebuild/wire/gemini":            {"internal/jsontext", "internal/neutral", "rebuild", "rebuild/wire", "rebuild/wire/internal/format", "rebuild/wire/internal/js", "transcript"},
	"rebuild/wire/openaichat":        {"internal/jsontext", "internal/neutral", "rebuild", "rebuild/wire", "rebuild/wire/internal/format", "rebuild/wire/internal/js", "rebuild/wire/internal/openai", "transcript"},
	"rebuild/wire/openairesponses":   {"internal/jsontext", "internal/neutral", "rebuild", "rebuild/wire", "rebuild/wire/internal/format", "rebuild/wire/internal/js", "rebuild/wire/internal/openai", "transcript"},
	"compact":                        {"internal/lazy", "internal/neutral", "internal/quote", "internal/words", "internal/recalltool", "rebuild", "transcript", "transcript/redact", "transcript/tokens"},
	"guard":                          {"internal/imagesize", "internal/lazy", "internal/neutral", "internal/quote", "internal/recalltool", "rebuild", "transcript", "transcript/tokens"},
	"guard/httpclient":               {"guard", "rebuild", "rebuild/wire", "rebuild/wire/anthropic", "rebuild/wire/openaichat", "transcript"},
	"guard/guardtest":                {"internal/lazy", "internal/wiretest", "transcript", "transcript/tokens"},
	"session/driver":                 {"transcript"},
	"session/driver/memdriver":       {"session/driver", "transcript"},
	"session/sessiontest":            {"session/driver", "transcript"},
	"session/blobs": {
		"internal/checksum", "internal/filelog", "internal/filename", "internal/imagesize", "internal/jsontext", "internal/quote", "rebuild", "session", "session/driver", "transcript",
	},
	"session/blobs/blobstest": {"session", "session/blobs"},
	// What the lines of one session say, and the sessions that a process has in memory.
	"session/internal/replay": {"compact", "internal/checksum", "internal/jsontext", "internal/lazy", "internal/title", "rebuild", "session/driver", "transcript", "transcript/tokens"},
	"session/internal/live":   {"rebuild", "session/driver", "session/internal/replay", "transcript"},
	"session": {
		"compact", "guard", "internal/checksum", "internal/filedriver", "internal/filelog", "rebuild", "session/driver", "session/internal/live",
		"session/internal/replay", "transcript", "transcript/redact", "transcript/tokens",
	},
	"session/retain": {"rebuild", "session", "transcript"},
	"session/erase":  {"compact", "rebuild", "session", "transcript"},
	"session/search": {"internal/jsontext", "internal/neutral", "internal/quote", "internal/recalltool", "internal/words", "rebuild", "session", "transcript"},
	"session/memory": {
		"compact", "guard", "internal/abstract", "internal/filelog", "internal/filename", "internal/jsontext", "internal/lazy", "internal/quote", "internal/recalltool", "internal/words", "rebuild",
		"session", "session/search", "transcript", "transcript/tokens",
	},
	"session/memory/memorytest": {"session/memory"},
	"session/turn":              {"guard", "internal/title", "rebuild", "rebuild/wire", "session", "transcript"},
	"session/exchange":          {"internal/neutral", "internal/page", "internal/recalltool", "rebuild", "session", "session/blobs", "session/driver", "session/retain", "transcript", "transcript/dialect"},
	// For tests, of nested modules too.
	"internal/copytest": {"compact", "rebuild/wire/anthropic", "session", "session/erase", "session/exchange", "session/memory", "session/turn", "transcript", "transcript/dialect"},
	"internal/storetest": {
		"compact", "guard/guardtest", "internal/filedriver", "internal/filelog", "internal/neutral", "internal/wiretest", "rebuild", "rebuild/wire", "rebuild/wire/anthropic",
		"session", "session/driver", "session/driver/memdriver", "transcript",
	},
	"internal/soak": {},
	"session/serve": {"internal/page", "rebuild", "session", "session/driver", "session/erase", "session/exchange", "session/memory", "session/retain", "session/search", "session/serve/internal/said", "session/turn", "transcript", "transcript/dialect"},
	// Surfaces, each over serve alone, as an application would write one.
	"session/serve/internal/said": {"session", "session/search", "transcript"},
	"session/serve/openviking":    {"rebuild", "session", "session/memory", "session/retain", "session/search", "session/serve", "session/serve/internal/said", "transcript", "transcript/dialect", "transcript/tokens"},
	"session/serve/uistream":      {"session", "session/serve", "session/serve/internal/said", "transcript"},
	"session/serve/zyhive":        {"session", "session/retain", "session/serve", "session/serve/internal/said", "transcript"},
	"examples/...":                {"..."},
}

// onlyIn holds arrows of the graph that few files may draw: by package and
// imported package. Tests may draw them anywhere.
var onlyIn = map[[2]string][]string{
	{"session", "internal/filedriver"}: {"session/open.go"},
	{"session", "internal/filelog"}:    {"session/open.go", "session/store.go"}, // the latter for its policies of syncs
}

// formats are the packages that speak to one API each, and what they share.
var formats = []string{
	"rebuild/wire", "rebuild/wire/anthropic", "rebuild/wire/bedrock", "rebuild/wire/gemini", "rebuild/wire/openaichat", "rebuild/wire/openairesponses",
}

// testImports holds what _test.go files may import beyond imports, their own
// package and any xxxtest package; "..." stands for everything.
var testImports = map[string][]string{
	"compact":                      formats,
	"guard/guardtest":              slices.Concat(formats, []string{"guard", "guard/httpclient", "rebuild"}),
	"guard/httpclient":             {"session", "session/driver/memdriver"},
	"guard":                        slices.Concat(formats, []string{"session", "session/driver/memdriver"}),
	"rebuild/wire/openairesponses": {"rebuild/wire/openaichat"},
	"rebuild/wire":                 slices.Concat(formats, []string{"rebuild"}),
	"rebuild":                      slices.Concat(formats, []string{"transcript/dialect"}),
	"transcript/dialect":           {"rebuild"},
	"session":                      slices.Concat(formats, []string{"guard/httpclient", "internal/neutral", "session/driver/memdriver", "transcript/redact"}),
	"internal/page":                {"internal/unseen"},
	"internal/soak":                {"..."},
	"session/internal/live":        {"session/driver/memdriver", "transcript/tokens"},
	"session/retain":               {"session/driver", "session/driver/memdriver", "session/erase", "session/exchange", "session/search", "session/turn", "transcript"},
	"session/blobs":                {"compact", "session/driver/memdriver", "session/erase", "session/exchange", "session/retain", "session/search", "session/turn"},
	"session/erase":                {"session/blobs", "session/driver", "session/driver/memdriver", "session/retain", "session/turn"},
	"session/search":               slices.Concat(formats, []string{"compact", "guard", "session/driver", "session/driver/memdriver", "session/retain", "transcript/tokens"}),
	"session/memory":               {"internal/neutral", "session/driver/memdriver", "session/erase", "session/exchange", "session/retain", "session/turn", "transcript/dialect", "transcript/redact"},
	"session/exchange":             slices.Concat(formats, []string{"compact", "internal/filelog", "session/blobs", "session/driver", "session/driver/memdriver", "session/erase", "session/memory", "session/retain", "session/search", "session/turn", "transcript/redact"}),
	"session/serve":                slices.Concat(formats, []string{"session/driver/memdriver", "session/serve/openviking", "session/serve/uistream", "session/serve/zyhive", "session/serve/zyhive/convlog"}),
	"session/serve/uistream":       {"rebuild", "session/driver", "session/driver/memdriver", "session/turn"},
	"session/sessiontest":          {"internal/checksum", "session/driver/memdriver"},
	"session/turn":                 {"compact", "guard/httpclient", "internal/filedriver", "session/driver", "session/driver/memdriver", "session/erase", "session/exchange", "session/search", "transcript/redact"},
}

// forTests are packages that no running program imports, examples included: only
// tests and packages whose names end in test.
var forTests = []string{"internal/storetest", "internal/wiretest"}

// The modules whose packages may be imported, and the further ones that
// _test.go files and the packages of forTests may import. The standard library always may.
var (
	modules     = []string{"github.com/google/uuid", "golang.org/x/sync", "golang.org/x/sys"}
	testModules = []string{"github.com/stretchr/testify"}
)

// topFolders and topFiles name everything at the root, and say whether it must
// exist. Hidden names, testdata, tests and what .gitignore names may be there
// too.
var (
	topFolders = map[string]bool{
		"compact": false, "docs": true, "examples": true, "guard": false, "internal": false,
		"rebuild": true, "session": true, "transcript": true,
	}
	topFiles = map[string]bool{
		"ARCHITECTURE.md": true, "CHANGELOG.md": true, "CONTRIBUTING.md": true,
		"LICENSE": true, "README.md": true, "SECURITY.md": true, "doc.go": true, "go.mod": true,
		"go.sum": true, "go.work": true, "go.work.sum": true,
	}
)

func TestImportGraph(t *testing.T) { report(t, checkImports(sources(t, os.DirFS(".")))) }

func TestTopLevel(t *testing.T) { report(t, checkTopLevel(os.DirFS("."))) }

// A library package neither reads the environment nor has an init function.
func TestNoHiddenInput(t *testing.T) { report(t, checkHiddenInput(sources(t, os.DirFS(".")))) }

// Importing a library package compiles no regular expression: hundreds of them
// cost every program megabytes and milliseconds at its start.
func TestStartCost(t *testing.T) { report(t, checkStartCost(sources(t, os.DirFS(".")))) }

// A source is one parsed Go file of the module.
type source struct {
	name string // path of the file, relative to the module
	pkg  string // path of its package, relative to the module, "." at the root
	test bool   // whether the name ends in _test.go
	fset *token.FileSet
	file *ast.File
	text []byte
}

// isLibrary reports whether s is part of what an application links.
func (s source) isLibrary() bool { return !s.test && !within(s.pkg, "examples") }

// at formats a finding about s as file:line: text.
func (s source) at(pos token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.name, s.fset.Position(pos).Line, fmt.Sprintf(format, args...))
}

// sources parses every Go file below the root of fsys, whatever its build
// constraints. It leaves out hidden folders, testdata and nested modules. The
// module itself is parsed once for all tests.
func sources(t *testing.T, fsys fs.FS) []source {
	t.Helper()
	parse := func() ([]source, error) { return parseTree(fsys) }
	if fsys == os.DirFS(".") {
		parse = parseModule
	}
	all, err := parse()
	require.NoError(t, err)
	return all
}

var parseModule = sync.OnceValues(func() ([]source, error) { return parseTree(os.DirFS(".")) })

func parseTree(fsys fs.FS) (all []source, err error) {
	fset := token.NewFileSet()
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name == "." {
				return nil
			}
			_, statErr := fs.Stat(fsys, path.Join(name, "go.mod"))
			if statErr == nil || hidden(d.Name()) || d.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		case path.Ext(name) != ".go" || hidden(d.Name()):
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, source{name, path.Dir(name), strings.HasSuffix(name, "_test.go"), fset, file, text})
		return nil
	})
	return all, err
}

func checkImports(all []source) (findings []string) {
	for _, s := range all {
		node := s.pkg
		if within(node, "examples") {
			node = "examples/..."
		}
		if _, ok := imports[node]; !ok {
			findings = append(findings, s.at(s.file.Package, "package %s is not in the import graph; draw it in imports, arch_test.go, or move the file", s.pkg))
			continue
		}
		for _, spec := range s.file.Imports {
			target := importPath(spec)
			files, ok := onlyIn[[2]string{s.pkg, strings.TrimPrefix(target, module+"/")}]
			if ok && !s.test && !slices.Contains(files, s.name) {
				findings = append(findings, s.at(spec.Pos(), "%s must import %s in %s only", s.pkg, strings.TrimPrefix(target, module+"/"), strings.Join(files, " and ")))
			}
			if slices.Contains(forTests, strings.TrimPrefix(target, module+"/")) && !s.test && !strings.HasSuffix(s.pkg, "test") {
				findings = append(findings, s.at(spec.Pos(), "%s must not import %s, which is for tests", s.pkg, strings.TrimPrefix(target, module+"/")))
				continue
			}
			if allowedImport(s, node, target) {
				continue
			}
			importer := s.pkg
			if s.test {
				importer = "tests of " + s.pkg
			}
			findings = append(findings, s.at(spec.Pos(), "%s must not import %s; the graph is imports in arch_test.go",
				importer, strings.TrimPrefix(target, module+"/")))
		}
	}
	return findings
}

// allowedImport reports whether s, which is judged as the given node of the
// graph, may import target.
func allowedImport(s source, node, target string) bool {
	if !within(target, module) {
		first, _, _ := strings.Cut(target, "/")
		inModule := func(m string) bool { return within(target, m) }
		return !strings.Contains(first, ".") ||
			slices.ContainsFunc(modules, inModule) ||
			(s.test || slices.Contains(forTests, s.pkg)) && slices.ContainsFunc(testModules, inModule)
	}
	target = path.Clean(strings.TrimPrefix(strings.TrimPrefix(target, module), "/"))
	if within(target, "examples") {
		parts := strings.SplitN(s.pkg, "/", 3)
		return parts[0] == "examples" && len(parts) > 1 && (within(target, path.Join(parts[:2]...)) || within(target, "examples/internal"))
	}
	if slices.Contains(imports[node], target) || slices.Contains(imports[node], "...") {
		return true
	}
	return s.test && (target == s.pkg ||
		strings.HasSuffix(path.Base(target), "test") ||
		slices.Contains(testImports[node], target) || slices.Contains(testImports[node], "..."))
}

func checkTopLevel(fsys fs.FS) (findings []string) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return []string{err.Error()}
	}
	folders, files := maps.Clone(topFolders), maps.Clone(topFiles)
	for _, e := range entries {
		name := e.Name()
		kind, known := "file", files
		if e.IsDir() {
			kind, known = "folder", folders
		}
		if _, ok := known[name]; !ok && !mayBeAtTop(name, e.IsDir()) {
			findings = append(findings, fmt.Sprintf("unexpected %s %s at the root of the module", kind, name))
		}
		delete(known, name)
	}
	for kind, missing := range map[string]map[string]bool{"folder": folders, "file": files} {
		for name, required := range missing {
			if required {
				findings = append(findings, fmt.Sprintf("%s %s is missing at the root of the module", kind, name))
			}
		}
	}
	slices.Sort(findings)
	return findings
}

// mayBeAtTop reports whether a name outside topFolders and topFiles may be at
// the root.
func mayBeAtTop(name string, dir bool) bool {
	if hidden(name) || dir {
		return hidden(name) || name == "testdata"
	}
	ext := path.Ext(name)
	return strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "coverage") ||
		ext == ".test" || ext == ".prof"
}

func checkHiddenInput(all []source) (findings []string) {
	readers := map[string][]string{
		"golang.org/x/sys/unix":    {"Environ", "Getenv"},
		"golang.org/x/sys/windows": {"Environ", "Getenv"},
		"os":                       {"Environ", "ExpandEnv", "Getenv", "LookupEnv"},
		"syscall":                  {"Environ", "Getenv"},
	}
	for _, s := range all {
		if !s.isLibrary() {
			continue
		}
		named := map[string]string{} // name in this file -> import path
		for _, spec := range s.file.Imports {
			target := importPath(spec)
			name := path.Base(target)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if readers[target] != nil && name == "." {
				findings = append(findings, s.at(spec.Pos(), "%s must not be imported with a dot", target))
			}
			named[name] = target
		}
		for n := range ast.Preorder(s.file) {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil && n.Name.Name == "init" {
					findings = append(findings, s.at(n.Pos(), "a library package has no init function"))
				}
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				if ok && slices.Contains(readers[named[x.Name]], n.Sel.Name) {
					findings = append(findings, s.at(n.Pos(), "%s.%s reads the environment; take an option instead",
						named[x.Name], n.Sel.Name))
				}
			}
		}
	}
	return findings
}

// compilesOne has one small pattern, which costs less than to put it off.
const compilesOne = "session/internal/replay/learned.go"

func checkStartCost(all []source) (findings []string) {
	for _, s := range all {
		if !s.isLibrary() || strings.HasSuffix(s.pkg, "test") || s.name == compilesOne {
			continue
		}
		for _, decl := range s.file.Decls {
			vars, ok := decl.(*ast.GenDecl)
			if !ok || vars.Tok != token.VAR {
				continue
			}
			ast.Inspect(vars, func(n ast.Node) bool {
				if call, ok := n.(*ast.SelectorExpr); ok {
					x, _ := call.X.(*ast.Ident)
					if x != nil && x.Name == "regexp" && strings.Contains(call.Sel.Name, "Compile") {
						findings = append(findings, s.at(call.Pos(), "a pattern is compiled at every program's start; use internal/lazy"))
					}
				}
				_, isFunc := n.(*ast.FuncLit)
				return !isFunc
			})
		}
	}
	return findings
}

// within reports whether the slash-separated path p is root or below it.
func within(p, root string) bool { return p == root || strings.HasPrefix(p, root+"/") }

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

func importPath(spec *ast.ImportSpec) string {
	// The parser has accepted the literal, so it unquotes.
	p, _ := strconv.Unquote(spec.Path.Value)
	return p
}

func report(t *testing.T, findings []string) {
	t.Helper()
	for _, f := range findings {
		t.Error(f)
	}
}
