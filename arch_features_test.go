package convolog_test

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// features are the packages over the core, each with the features that it may
// import. A folder below a feature is a part of it.
var features = map[string][]string{
	"session/turn": {}, "session/search": {}, "session/retain": {}, "session/erase": {}, "session/blobs": {},
	"session/memory":   {"session/search"},
	"session/exchange": {"session/turn", "session/search", "session/retain", "session/erase", "session/blobs", "session/memory"},
	"session/serve":    {"session/turn", "session/search", "session/retain", "session/erase", "session/blobs", "session/memory", "session/exchange"},
}

// The core imports no feature, and a feature imports the core alone.
func TestWallsImports(t *testing.T) { report(t, checkFeatureImports(imports)) }

func TestFeatureImportsCheckerFlags(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{"session/turn", "session", ""},
		{"session/turn", "transcript", ""},
		{"session/turn", "session/search", "session/turn must not import the feature session/search"},
		{"session/memory", "session/search", ""},
		{"session/memory", "session/turn", "session/memory must not import the feature session/turn"},
		{"session/exchange", "session/blobs", ""},
		{"session/exchange", "session/serve", "session/exchange must not import the feature session/serve"},
		{"session/serve/zyhive", "session/memory", ""},
		{"session/blobs/blobstest", "session/blobs", ""},
		{"session", "session/turn", "session must not import the feature session/turn"},
		{"session/driver/memdriver", "session/blobs", "session/driver/memdriver must not import the feature session/blobs"},
		{"internal/page", "session/search", "internal/page must not import the feature session/search"},
		{"internal/copytest", "session/exchange", ""},
		{"examples/...", "...", ""},
	} {
		expect(t, checkFeatureImports(map[string][]string{tt.from: {tt.to}}), tt.want)
	}
}

func checkFeatureImports(graph map[string][]string) (findings []string) {
	for _, pkg := range slices.Sorted(maps.Keys(graph)) {
		own := featureOf(pkg)
		for _, target := range graph[pkg] {
			other := featureOf(target)
			if other == "" || other == own || countsAsTest(pkg) || slices.Contains(features[own], other) {
				continue
			}
			findings = append(findings, fmt.Sprintf("%s must not import the feature %s; the rule is features in arch_features_test.go", pkg, other))
		}
	}
	return findings
}

// featureOf returns the feature of a package, or "" if it is of none.
func featureOf(pkg string) string {
	for feature := range features {
		if within(pkg, feature) {
			return feature
		}
	}
	return ""
}

const tiesFile = "testdata/session_ties.txt"

// roomsToBe names the files of package session that move out into a feature. Any
// other file is of the core. Delete a row once its files are gone.
var roomsToBe = []struct{ files, feature string }{
	{"retention*.go", "retain"},
	{"archive.go", "retain"},
	{"turn.go", "turn"},
	{"draft.go", "turn"},
	{"lifecycle.go", "turn"},
	{"pin.go", "turn"},
	{"state.go", "turn"},
	{"title.go", "turn"},
	{"erase*.go", "erase"},
	{"blob*.go", "blobs"},
	{"redact.go", "redact"}, // becomes a Filter
	{"commit*.go", "memory"},
	{"copy*.go", "exchange"},
	{"uri.go", "other"},
	{"usage.go", "other"},
}

// A tie is a name of a feature that the core of session or another feature uses.
type tie struct{ from, to, name string }

// The core of session and each feature use the names of other features that are
// listed in testdata. The list may only shrink.
func TestWallsSession(t *testing.T) {
	all := rooms(t)
	at := slices.IndexFunc(all, func(r *room) bool { return r.pkg == "session" })
	require.NotEqual(t, -1, at)
	ties := sessionTies(all[at])
	text, err := os.ReadFile(tiesFile)
	require.NoError(t, err)
	listed, err := parseTies(string(text))
	require.NoError(t, err)
	if *update {
		listed = shrink(listed, ties)
		require.NoError(t, os.WriteFile(tiesFile, []byte(formatTies(listed)), 0o644))
	}
	report(t, checkTies(listed, ties))
}

func TestTiesCheckerFlags(t *testing.T) {
	src := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte("package session\n" + text)} }
	house, err := checkTypes(sources(t, fstest.MapFS{
		"session/append.go":     src("func a(s *Session) { s.sift(); _ = s.uncommitted.n }\n"),
		"session/store.go":      src("type Session struct{ uncommitted counter }\nfunc b(s *Session) { s.sift() }\n"),
		"session/copy.go":       src("func (s *Session) sift() { helper(); a(s) }\n"),
		"session/copy_check.go": src("func helper() {}\n"),
		"session/commit.go":     src("type counter struct{ n int }\nfunc c() { helper() }\n"),
	}))
	require.NoError(t, err)
	ties := sessionTies(house[0])
	require.Equal(t, map[tie][]string{
		{"core", "exchange", "Session.sift"}: {"append.go", "store.go"},
		{"core", "memory", "counter.n"}:      {"append.go"},
		{"core", "memory", "counter"}:        {"store.go"},
		{"memory", "exchange", "helper"}:     {"commit.go"},
	}, ties)
	listed := map[tie]int{}
	for tie, files := range ties {
		listed[tie] = len(files)
	}
	expect(t, checkTies(listed, ties), "")
	reparsed, err := parseTies(formatTies(listed))
	require.NoError(t, err)
	require.Equal(t, listed, reparsed)

	sift := tie{"core", "exchange", "Session.sift"}
	listed[sift] = 1
	expect(t, checkTies(listed, ties), "session: 2 files of core use Session.sift of exchange (append.go, store.go), 1 allowed")
	require.Equal(t, 1, shrink(listed, ties)[sift], "an update allows no more than before")
	listed[sift] = 3
	expect(t, checkTies(listed, ties), "session: 2 files of core use Session.sift of exchange, 3 listed")
	delete(listed, sift)
	expect(t, checkTies(listed, ties), "session: 2 files of core use Session.sift of exchange (append.go, store.go), 0 allowed")
	require.NotContains(t, shrink(listed, ties), sift)
	listed[sift] = 2
	delete(ties, sift)
	expect(t, checkTies(listed, ties), "session: 0 files of core use Session.sift of exchange, 2 listed")
	require.NotContains(t, shrink(listed, ties), sift)
}

// sessionTies returns the ties of package session with the files that use them.
func sessionTies(session *room) map[tie][]string {
	ties := map[tie][]string{}
	for _, u := range session.uses() {
		from, to := roomToBe(u.from), roomToBe(u.to)
		if to != "core" && from != to {
			tie := tie{from, to, u.name}
			ties[tie] = append(ties[tie], u.from)
		}
	}
	return ties
}

func roomToBe(file string) string {
	for _, r := range roomsToBe {
		if ok, _ := path.Match(r.files, file); ok {
			return r.feature
		}
	}
	return "core"
}

func checkTies(listed map[tie]int, ties map[tie][]string) (findings []string) {
	for tie, files := range ties {
		switch allowed := listed[tie]; {
		case len(files) > allowed:
			findings = append(findings, fmt.Sprintf("session: %d files of %s use %s of %s (%s), %d allowed by %s",
				len(files), tie.from, tie.name, tie.to, strings.Join(files, ", "), allowed, tiesFile))
		case len(files) < allowed:
			findings = append(findings, staleTie(tie, len(files), allowed))
		}
	}
	for tie, allowed := range listed {
		if ties[tie] == nil {
			findings = append(findings, staleTie(tie, 0, allowed))
		}
	}
	slices.Sort(findings)
	return findings
}

func staleTie(tie tie, files, listed int) string {
	return fmt.Sprintf("session: %d files of %s use %s of %s, %d listed in %s: go test . -run Walls -update",
		files, tie.from, tie.name, tie.to, listed, tiesFile)
}

// shrink returns the listed ties that are still there.
func shrink(listed map[tie]int, ties map[tie][]string) map[tie]int {
	left := map[tie]int{}
	for tie, allowed := range listed {
		if files := len(ties[tie]); files > 0 {
			left[tie] = min(files, allowed)
		}
	}
	return left
}

const tiesHeader = `# Names of a feature that the core of session, or another feature, uses, and
# the number of files that do. The list may only shrink:
#   go test . -run Walls -update
# removes ties that are gone and adds none. The features are roomsToBe in
# arch_features_test.go.
#
# from to name files
`

func formatTies(ties map[tie]int) string {
	var rows []string
	for tie, files := range ties {
		rows = append(rows, fmt.Sprintf("%s %s %s %d\n", tie.from, tie.to, tie.name, files))
	}
	slices.Sort(rows)
	return tiesHeader + strings.Join(rows, "")
}

func parseTies(text string) (map[tie]int, error) {
	ties := map[tie]int{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) != 4 {
			return nil, fmt.Errorf("%s: %q is not a tie", tiesFile, line)
		}
		files, err := strconv.Atoi(fields[3])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", tiesFile, err)
		}
		ties[tie{fields[0], fields[1], fields[2]}] = files
	}
	return ties, nil
}
