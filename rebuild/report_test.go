package rebuild_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The doc comment of Rule lists the rules that this package and the formats report,
// and no others.
func TestRules(t *testing.T) {
	reported := regexp.MustCompile(`(?:[nN]ote\(|rule = |Rule\()"([a-z-]+)"`)
	row := regexp.MustCompile(`(?m)^//\t([a-z-]+)  `)
	var listed, used []string
	require.NoError(t, fs.WalkDir(os.DirFS("."), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range reported.FindAllSubmatch(text, -1) {
			used = append(used, string(m[1]))
		}
		if name == "report.go" {
			for _, m := range row.FindAllSubmatch(text, -1) {
				listed = append(listed, string(m[1]))
			}
		}
		return err
	}))
	slices.Sort(listed)
	slices.Sort(used)
	require.Equal(t, slices.Compact(used), listed)
}
