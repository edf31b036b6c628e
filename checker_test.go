package convolog_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// The checks are only worth something if they can fail: each row holds one
// file and what must be said about it, or nothing.
func TestCheckerFlags(t *testing.T) {
	tests := []struct {
		name, file, source, want string
	}{
		{
			"allowed arrow", "rebuild/fold.go",
			`import _ "github.com/convolog/convolog/transcript"`, "",
		},
		{
			"upward arrow", "transcript/entry.go",
			`import _ "github.com/convolog/convolog/rebuild"`,
			"transcript/entry.go:2: transcript must not import rebuild",
		},
		{
			"upward arrow in a file for another system", "transcript/entry_windows.go",
			`import _ "github.com/convolog/convolog/session"`,
			"transcript/entry_windows.go:2: transcript must not import session",
		},
		{
			"siblings", "guard/do.go",
			`import _ "github.com/convolog/convolog/compact"`,
			"guard/do.go:2: guard must not import compact",
		},
		{
			"upward arrow in a test", "transcript/entry_test.go",
			`import _ "github.com/convolog/convolog/session"`,
			"transcript/entry_test.go:2: tests of transcript must not import session",
		},
		{
			"own package in a test", "compact/plan_test.go",
			`import _ "github.com/convolog/convolog/compact"`, "",
		},
		{
			"conformance suite in a test", "session/driver/memdriver/memdriver_test.go",
			`import _ "github.com/convolog/convolog/session/sessiontest"`, "",
		},
		{
			"conformance suite in a library", "session/store.go",
			`import _ "github.com/convolog/convolog/session/sessiontest"`,
			"session/store.go:2: session must not import session/sessiontest",
		},
		{
			"file driver in the file of Open", "session/open.go",
			`import _ "github.com/convolog/convolog/internal/filedriver"`, "",
		},
		{
			"file driver in another file", "session/store.go",
			`import _ "github.com/convolog/convolog/internal/filedriver"`,
			"session/store.go:2: session must import internal/filedriver in session/open.go only",
		},
		{
			"memory driver in a test", "session/store_test.go",
			`import _ "github.com/convolog/convolog/session/driver/memdriver"`, "",
		},
		{
			"memory driver in the store", "session/store.go",
			`import _ "github.com/convolog/convolog/session/driver/memdriver"`,
			"session/store.go:2: session must not import session/driver/memdriver",
		},
		{
			"package not in the map", "transcript/extra/extra.go", "",
			"transcript/extra/extra.go:1: package transcript/extra is not in the import graph",
		},
		{
			"test of a package not in the map", "internal/extra/extra_test.go", "",
			"internal/extra/extra_test.go:1: package internal/extra is not in the import graph",
		},
		{
			"example", "examples/chat/main.go",
			`import _ "github.com/convolog/convolog/session/driver/memdriver"`, "",
		},
		{
			"example's own package", "examples/chat/main.go",
			`import _ "github.com/convolog/convolog/examples/chat/view"`, "",
		},
		{
			"another example's package", "examples/chat/main.go",
			`import _ "github.com/convolog/convolog/examples/serve"`,
			"examples/chat/main.go:2: examples/chat must not import examples/serve",
		},
		{
			"example in a library", "session/store.go",
			`import _ "github.com/convolog/convolog/examples/chat"`,
			"session/store.go:2: session must not import examples/chat",
		},
		{
			"example in a test", "session/store_test.go",
			`import _ "github.com/convolog/convolog/examples/chat"`,
			"session/store_test.go:2: tests of session must not import examples/chat",
		},
		{"allowed module", "session/id.go", `import _ "golang.org/x/sys/unix"`, ""},
		{
			"module whose name only begins alike", "session/id.go",
			`import _ "golang.org/x/system"`,
			"session/id.go:2: session must not import golang.org/x/system",
		},
		{
			"the referees in a program", "examples/chat/main.go", `import _ "github.com/convolog/convolog/internal/wiretest"`,
			"examples/chat/main.go:2: examples/chat must not import internal/wiretest, which is for tests",
		},
		{"the referees in a test", "examples/chat/main_test.go", `import _ "github.com/convolog/convolog/internal/wiretest"`, ""},
		{"testify in a test", "session/id_test.go", `import _ "github.com/stretchr/testify/require"`, ""},
		{"testify in a package for tests", "internal/storetest/store.go", `import _ "github.com/stretchr/testify/require"`, ""},
		{
			"stores for tests in a library", "session/id.go", `import _ "github.com/convolog/convolog/internal/storetest"`,
			"session/id.go:2: session must not import internal/storetest, which is for tests",
		},
		{"stores for tests in a test", "session/id_test.go", `import _ "github.com/convolog/convolog/internal/storetest"`, ""},
		{
			"testify in a library", "session/id.go",
			`import _ "github.com/stretchr/testify/require"`,
			"session/id.go:2: session must not import github.com/stretchr/testify/require",
		},
		{
			"foreign module in a test", "session/id_test.go", `import _ "example.com/x"`,
			"session/id_test.go:2: tests of session must not import example.com/x",
		},
		{"foreign module in testdata", "session/testdata/x.go", `import _ "example.com/x"`, ""},
		{
			"environment", "guard/do.go", "import \"os\"\nvar _ = os.Getenv(\"X\")",
			"guard/do.go:3: os.Getenv reads the environment",
		},
		{
			"environment by another name", "guard/do.go", "import env \"os\"\nvar _ = env.LookupEnv",
			"guard/do.go:3: os.LookupEnv reads the environment",
		},
		{
			"environment of the kernel interface", "guard/do.go", "import \"syscall\"\nvar _ = syscall.Environ()",
			"guard/do.go:3: syscall.Environ reads the environment",
		},
		{
			"environment without a name", "guard/do.go", "import . \"os\"\nvar _ = Getenv(\"X\")",
			"guard/do.go:2: os must not be imported with a dot",
		},
		{"environment in a test", "guard/do_test.go", "import \"os\"\nvar _ = os.Getenv(\"X\")", ""},
		{"environment in an example", "examples/chat/main.go", "import \"os\"\nvar _ = os.Getenv(\"X\")", ""},
		{
			"init", "guard/do.go", "func init() {}",
			"guard/do.go:2: a library package has no init function",
		},
		{
			"pattern of a package", "guard/do.go", "import \"regexp\"\nvar re = regexp.MustCompile(`a`)",
			"guard/do.go:3: a pattern is compiled at every program's start",
		},
		{"pattern in a function", "guard/do.go", "import \"regexp\"\nvar re = func() any { return regexp.MustCompile(`a`) }", ""},
		{"method init", "guard/do.go", "type g int\nfunc (g) init() {}", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := sources(t, fstest.MapFS{tt.file: {Data: []byte("package p\n" + tt.source + "\n")}})
			expect(t, slices.Concat(checkImports(all), checkHiddenInput(all), checkStartCost(all)), tt.want)
		})
	}
}

func TestCheckerSkipsNestedModules(t *testing.T) {
	expect(t, checkImports(sources(t, fstest.MapFS{
		"go.mod":                           {},
		"examples/sdk/go.mod":              {},
		"examples/sdk/main.go":             {Data: []byte("package p\nimport _ \"example.com/x\"\n")},
		"session/driver/sqldriver/go.mod":  {},
		"session/driver/sqldriver/open.go": {Data: []byte("package p\nimport _ \"example.com/x\"\n")},
	})), "")
}

func TestCheckerTopLevel(t *testing.T) {
	tests := []struct {
		name, remove, add, want string
	}{
		{name: "complete"},
		{name: "folder not there yet", remove: "guard"},
		{name: "folder missing", remove: "session", want: "folder session is missing"},
		{name: "folder unexpected", add: "utils/x.go", want: "unexpected folder utils"},
		{name: "hidden folder", add: ".ci/run"},
		{name: "testdata", add: "testdata/x"},
		{name: "file missing", remove: "ARCHITECTURE.md", want: "file ARCHITECTURE.md is missing"},
		{name: "file unexpected", add: "NOTES.md", want: "unexpected file NOTES.md"},
		{name: "code at the root", add: "convolog.go", want: "unexpected file convolog.go"},
		{name: "test at the root", add: "readme_test.go"},
		{name: "hidden file", add: ".gitignore"},
		{name: "ignored file", add: "coverage.out"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for name := range topFolders {
				fsys[name+"/x"] = &fstest.MapFile{}
			}
			for name := range topFiles {
				fsys[name] = &fstest.MapFile{}
			}
			delete(fsys, tt.remove)
			delete(fsys, tt.remove+"/x")
			if tt.add != "" {
				fsys[tt.add] = &fstest.MapFile{}
			}
			expect(t, checkTopLevel(fsys), tt.want)
		})
	}
}

// expect fails t unless findings is one finding that begins with want, or
// nothing at all if want is empty.
func expect(t *testing.T, findings []string, want string) {
	t.Helper()
	if want == "" {
		report(t, findings)
		return
	}
	if len(findings) != 1 || !strings.HasPrefix(findings[0], want) {
		t.Errorf("findings = %q, want one beginning with %q", findings, want)
	}
}
