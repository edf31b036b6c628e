package convolog_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// banned are phrases that plain English does not need: each hides a subject or
// an object. CONTRIBUTING.md has the rule.
var banned = regexp.MustCompile(`\b(is told of|are told|takes note|does so|by then|tells of|otherwise than|caller's again|so many|what is left)\b`)

// harmless are phrases that have words of the banned ones and say something else.
var harmless = strings.NewReplacer("told apart", "", "what is left out", "")

// asks finds sentences that begin with a relative clause in the place of their
// subject.
var asks = regexp.MustCompile(`(?:^|[.:;!] )(?:\*\*)?(Who|What|Whoever) [^.?]*(?:\.|;|:|$)`)

// Comments and documents are in plain English.
func TestLanguage(t *testing.T) {
	for _, f := range checkLanguage(t, os.DirFS("."), sources(t, os.DirFS("."))) {
		t.Errorf("say it plainly: %s", f)
	}
}

func TestLanguageCheckerFlags(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"F reports every repair.", ""},
		{"F asks what is new.", ""},
		{"F returns. What fails is left.", "session/x.go:4: . What fails is left."},
		{"Whoever holds the lock waits.", "session/x.go:4: Whoever holds"},
		{"F does\n// so for others.", "session/x.go:4: does so"},
		{"Batches are told apart by their IDs.", ""},
		{"F returns what is left.", "session/x.go:4: what is left"},
		{"F lists what is left out.", ""},
		{"F clips so\n// many runes.", "session/x.go:4: so many"},
		{"Observers are told.", "session/x.go:4: are told"},
	} {
		fsys := fstest.MapFS{"session/x.go": {Data: []byte("// Package p is.\npackage p\n\n// " + tt.text + "\nfunc f() {}\n")}}
		expect(t, checkLanguage(t, fsys, sources(t, fsys)), tt.want)
	}
	text := "# What is guaranteed\n\n```\nWhat is this.\n```\n\nIt is so.\n\n- What is not.\n"
	expect(t, checkLanguage(t, fstest.MapFS{"A.md": {Data: []byte(text)}}, nil), "A.md: What is not")
}

func checkLanguage(t *testing.T, fsys fs.FS, all []source) (findings []string) {
	t.Helper()
	judge := func(text string) []string {
		text = strings.Join(strings.Fields(text), " ")
		return append(banned.FindAllString(harmless.Replace(text), -1), asks.FindAllString(text, -1)...)
	}
	for _, s := range all {
		if within(s.pkg, ".") && s.test {
			continue
		}
		for _, group := range s.file.Comments {
			for part := range strings.SplitSeq(group.Text(), "\n\n") {
				for _, f := range judge(part) {
					findings = append(findings, s.at(group.Pos(), "%s", f))
				}
			}
		}
	}
	names, err := fs.Glob(fsys, "*.md")
	require.NoError(t, err)
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		require.NoError(t, err)
		for i, part := range strings.Split(string(text), "```") {
			for _, p := range regexp.MustCompile(`\n\n|\n- |\n\|`).Split("\n"+part, -1) {
				if i%2 == 1 || strings.HasPrefix(strings.TrimSpace(p), "#") {
					continue // code or a heading
				}
				for _, f := range judge(strings.TrimPrefix(strings.TrimSpace(p), "- ")) {
					findings = append(findings, path.Base(name)+": "+f)
				}
			}
		}
	}
	return findings
}
