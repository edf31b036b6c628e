package convolog_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
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

// The tests of the core need no feature: they compile and pass in a tree without any,
// in which .ci/run runs them.
func TestWallsCoreTests(t *testing.T) { report(t, checkCoreTests(sources(t, os.DirFS(".")), imports)) }

func TestCoreTestsCheckerFlags(t *testing.T) {
	graph := map[string][]string{
		"internal/storetest": {"session", "internal/copytest"}, "internal/copytest": {"session/exchange"}, "session": {"transcript"},
	}
	for _, tt := range []struct{ name, imports, want string }{
		{"session/a_test.go", "session/driver/memdriver", ""},
		{"session/a_test.go", "session/turn", "session/a_test.go:2: a test of the core must not need the feature session/turn"},
		{"session/a_test.go", "session/blobs/blobstest", "session/a_test.go:2: a test of the core must not need the feature session/blobs"},
		{"session/a_test.go", "internal/storetest", "session/a_test.go:2: a test of the core must not need the feature session/exchange"},
		{"session/search/a_test.go", "session/turn", ""},
		{"session/a.go", "internal/storetest", ""},
	} {
		text := fmt.Sprintf("package p\nimport _ %q\n", module+"/"+tt.imports)
		expect(t, checkCoreTests(sources(t, fstest.MapFS{tt.name: {Data: []byte(text)}}), graph), tt.want)
	}
}

func checkCoreTests(all []source, graph map[string][]string) (findings []string) {
	for _, s := range all {
		if s.pkg != "session" || !s.test {
			continue
		}
		for _, spec := range s.file.Imports {
			if feature := featureBelow(graph, strings.TrimPrefix(importPath(spec), module+"/")); feature != "" {
				findings = append(findings, s.at(spec.Pos(), "a test of the core must not need the feature %s; move it there or to internal/soak", feature))
			}
		}
	}
	return findings
}

// featureBelow returns a feature that a package is of or imports, also through others.
func featureBelow(graph map[string][]string, pkg string) string {
	feature := featureOf(pkg)
	for _, target := range graph[pkg] {
		if feature == "" {
			feature = featureBelow(graph, target)
		}
	}
	return feature
}
