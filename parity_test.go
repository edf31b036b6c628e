package convolog_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every test that docs/PARITY.md names exists in the named package.
func TestParityTests(t *testing.T) {
	t.Parallel()
	exist := map[string]bool{}
	pattern := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	require.NoError(t, fs.WalkDir(os.DirFS("."), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		data, err := os.ReadFile(name)
		for _, found := range pattern.FindAllSubmatch(data, -1) {
			exist[path.Base(path.Dir(name))+" "+string(found[1])] = true
		}
		return err
	}))
	data, err := os.ReadFile("docs/PARITY.md")
	require.NoError(t, err)
	claims := 0
	// A claim is "session, serve: TestA, TestB (rule x), FuzzC".
	names := regexp.MustCompile(`((?:[a-z0-9]+, )*[a-z0-9]+): ((?:(?:Test|Fuzz|Benchmark)\w+(?: \([^)]*\)|, rules? [^;)]*)?(?:, )?)+)`)
	for line := range strings.Lines(string(data)) {
		for _, claim := range names.FindAllStringSubmatch(line, -1) {
			for _, test := range regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)\w+`).FindAllString(claim[2], -1) {
				for pkg := range strings.SplitSeq(claim[1], ", ") {
					claims++
					if pkg == "convolog" { // the command line
						pkg = "cli"
					}
					require.True(t, exist[pkg+" "+test], "%s: there is no %s\n%s", pkg, test, line)
				}
			}
		}
	}
	require.Greater(t, claims, 300)
}
