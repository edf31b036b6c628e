package convolog_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/stretchr/testify/require"
)

// A pattern is a habit of phrasing that native engineers hardly have. One
// occurrence may be right, so occurrences are counted and not forbidden.
type pattern struct {
	name     string
	goal     int    // occurrences in 10,000 words
	hints    string // a text without any of them has no occurrence: most cost no more
	re       *regexp.Regexp
	harmless *regexp.Regexp // phrases that are removed before re is tried; may be nil
}

var patterns = []pattern{
	{name: "P1", goal: 3, hints: "what", re: regexp.MustCompile(`(?i)\bwhat(?:ever)? (?:is|was|were|are|has|had|have|it|its|they|there|an?|no|not|one|others?|another|came|comes?|stands?|stood|goes|went|gets|got|follows|remains|belongs|happens|happened|counts|matters|makes|made|does|did|can|could|may|might|must|would|will|should|never|only|each|every|this|that|these|those|fits|fails|failed|changes|changed|costs)\b`)},
	{name: "P2", goal: 2, hints: "that of|those of", re: regexp.MustCompile(`(?i)\b(?:that|those) of\b`)},
	{name: "P3", goal: 1, hints: "body", re: regexp.MustCompile(`(?i)\b(?:some|no|any|every)body\b`)},
	{name: "P4", goal: 5, hints: "say|said|tell|told|know|knew|speak|spoke", re: regexp.MustCompile(`(?i)\b(?:sa(?:ys?|id)|tells?|told|kn(?:ows?|ew|own)|sp(?:eaks?|oke)) (?:what|that|which|who|whose|how|whether|why|where|when|if|so|no|nothing|of|it|not|one)\b`)},
	{name: "P5", goal: 2, hints: "told|asked|given|looked|spoken|gone", re: regexp.MustCompile(`(?i)\b(?:is|are|was|were|be|been|being) (?:told|asked|given|looked|spoken|gone)\b`)},
	{name: "P6", goal: 1, hints: " no", re: regexp.MustCompile(`(?i)\b(?:is|are|was|were) (?:none|no [a-z]+)\b`), harmless: regexp.MustCompile(`(?i)\bthere (?:is|are|was|were) no [a-z]|\bno (?:longer|more|one|matter)\b`)},
	{name: "P7", goal: 4, hints: "behind|in front|beside|meanwhile", re: regexp.MustCompile(`(?i)\b(?:behind|in front of|besides?|meanwhile)\b`)},
	{name: "P8", goal: 1, hints: "stand|stood", re: regexp.MustCompile(`(?i)\bst(?:ands?|ood|anding) (?:for|in|there|behind)\b`)},
	{name: "P9", goal: 1, hints: " on| along|between| upon", re: regexp.MustCompile(`(?i)\b(?:go(?:es|ing)?|went) (?:on|along)\b|\bc[oa]m(?:es?|ing) (?:in between|upon)\b`)},
	{name: "P10", goal: 1, hints: "as far as|, too|, also if", re: regexp.MustCompile(`(?i)\bas far as\b|, too\b|, also if\b`)}, // and P13
	{name: "P11", goal: 7, hints: "unless| but| not", re: regexp.MustCompile(`(?i)\b(?:no|nothing|none)\b[^.,;:()]*\b(?:unless|but|not)\b`)},
	{name: "P12", goal: 5, hints: " has | have ", re: regexp.MustCompile(`(?i)\b(?:it|they|which|(?:the|an?|each|every|this|that|its) \w+) (?:has|have) (?:an?|the|no|its|their|all|two|none|other|another|only|nothing|what|words|[0-9]+)\b`)},
}

// The column "all" sums up the others.
const allGoal = 33

// A ceiling is lowered to a little above the rate, or to delete a plain sentence
// would exceed it.
const languageSlack = 2

const languageFile = "testdata/language.txt"

var language = table{
	file: languageFile,
	header: `# Ceilings of habits of phrasing, in 1,000 words of the comments, error strings
# and help texts of a package, of the comments of all tests, and of each document.
# They may only fall. A cell without a number is at its goal, as is a package
# without a row. Above a ceiling the test fails and lists the places; far below
# it the test fails until
#   go test . -run Language -update
# has lowered it. Raise a ceiling by hand, with the reason in the commit.
#
# P1   a clause with "what" in the place of a noun         goal 0.3
# P2   that of, those of                                        0.2
# P3   somebody, nobody, anybody, everybody                     0.1
# P4   things that say, tell, know or speak                     0.5
# P5   is told, asked, given, looked, spoken, gone              0.2
# P6   is none, are none, is no X                               0.1
# P7   behind, in front of, beside, besides, meanwhile          0.4
# P8   stands for, in, there, behind                            0.1
# P9   goes on, goes along, comes in between                    0.1
# P10  as far as; a trailing ", too" or ", also if"             0.1
# P11  no ... unless, but or not in one clause                  0.7
# P12  it has, for contains or holds                            0.5
# all  the sum                                                  3.3
`,
	columns: languageColumns(),
	last:    []string{"tests", "total"},
	tenths:  true,
}

func languageColumns() (columns []column) {
	for _, p := range patterns {
		columns = append(columns, column{name: p.name, limit: p.goal})
	}
	return append(columns, column{name: "all", limit: allGoal})
}

// prose is the English of one package or document.
type prose struct {
	words  int
	places map[string][]string // by pattern
}

// add counts the words and the patterns of a text without code.
func (p *prose) add(place, text string) {
	p.words += countWords(text)
	lower := strings.ToLower(text)
	for _, pattern := range patterns {
		rest := text
		if !slices.ContainsFunc(strings.Split(pattern.hints, "|"), func(hint string) bool { return strings.Contains(lower, hint) }) {
			continue
		}
		if pattern.harmless != nil {
			rest = pattern.harmless.ReplaceAllString(rest, "")
		}
		for _, found := range pattern.re.FindAllString(rest, -1) {
			p.places[pattern.name] = append(p.places[pattern.name], place+": "+found)
			p.places["all"] = append(p.places["all"], place+": "+found)
		}
	}
}

func countWords(text string) (n int) {
	for word := range strings.FieldsSeq(text) {
		if strings.ContainsFunc(word, unicode.IsLetter) {
			n++
		}
	}
	return n
}

// rate returns the occurrences of a pattern in 10,000 words.
func (p *prose) rate(name string) int {
	return (len(p.places[name])*10_000 + p.words - 1) / max(1, p.words)
}

// above reports whether a pattern occurs more often than at a rate. A part of an
// occurrence counts as one, or a short package could have none at all.
func (p *prose) above(name string, rate int) bool {
	return len(p.places[name]) > (rate*p.words+9_999)/10_000
}

// The English of no package is further from plain than it was. With -v the rates
// of all of them are logged.
func TestLanguage(t *testing.T) {
	fsys := os.DirFS(".")
	measured := readProse(t, fsys, slices.Concat(sources(t, fsys), nestedSources(t, fsys)))
	text, err := os.ReadFile(languageFile)
	if !*update {
		require.NoError(t, err)
	}
	ceilings, err := language.parse(string(text))
	require.NoError(t, err)
	if *update {
		ceilings = lowerRates(ceilings, measured)
		require.NoError(t, os.WriteFile(languageFile, []byte(language.format(ceilings)), 0o644))
	}
	if testing.Verbose() {
		t.Logf("occurrences in 1,000 words:\n%s", formatRates(measured))
	}
	report(t, checkRates(ceilings, measured))
}

// checkRates compares measured rates with their ceilings.
func checkRates(ceilings map[string]map[string]int, measured map[string]*prose) (findings []string) {
	add := func(format string, args ...any) { findings = append(findings, fmt.Sprintf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		p := measured[name]
		for _, c := range language.columns {
			ceiling, ok := ceilings[name][c.name]
			if !ok {
				ceiling = c.limit
			}
			places := p.places[c.name]
			switch {
			case p.above(c.name, ceiling):
				places = places[:min(len(places), 40)]
				add("%s: %s is %s in 1,000 words, over its ceiling of %s%s", name, c.name, tenths(p.rate(c.name)), tenths(ceiling), list(places))
			case ok && ceiling-max(p.rate(c.name), c.limit) > 10:
				add("%s: %s has fallen to %s; lower its ceiling of %s: go test . -run Language -update", name, c.name, tenths(p.rate(c.name)), tenths(ceiling))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ceilings)) {
		if measured[name] == nil {
			add("%s is gone but still has a row in %s: go test . -run Language -update", name, languageFile)
		}
	}
	return findings
}

// lowerRates returns the ceilings that measured rates allow: none higher than
// before, and none for rates at the goal. The first file lists all that is above.
func lowerRates(ceilings map[string]map[string]int, measured map[string]*prose) map[string]map[string]int {
	lowered := map[string]map[string]int{}
	for name, p := range measured {
		for _, c := range language.columns {
			ceiling, ok := ceilings[name][c.name]
			if !ok && len(ceilings) > 0 || !p.above(c.name, c.limit) {
				continue
			}
			if ceiling = cmp.Or(ceiling, p.rate(c.name)+languageSlack); lowered[name] == nil {
				lowered[name] = map[string]int{}
			}
			lowered[name][c.name] = max(c.limit, min(ceiling, p.rate(c.name)+languageSlack))
		}
	}
	return lowered
}

func formatRates(measured map[string]*prose) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-40s %7s", "", "words")
	for _, c := range language.columns {
		fmt.Fprintf(&b, " %5s", c.name)
	}
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		fmt.Fprintf(&b, "\n%-40s %7d", name, measured[name].words)
		for _, c := range language.columns {
			fmt.Fprintf(&b, " %5s", tenths(measured[name].rate(c.name)))
		}
	}
	return b.String()
}

// readProse collects the English of all packages and documents. Tests are one
// row, "tests"; those of the root quote patterns and are left out.
func readProse(t *testing.T, fsys fs.FS, all []source) map[string]*prose {
	t.Helper()
	measured := map[string]*prose{}
	add := func(name, place, text string) {
		for _, name := range []string{name, "total"} {
			if measured[name] == nil {
				measured[name] = &prose{places: map[string][]string{}}
			}
			measured[name].add(place, text)
		}
	}
	for _, s := range all {
		name := s.pkg
		if s.test {
			name = "tests"
		}
		if s.pkg == "." && s.test {
			continue
		}
		add(name, "", "")
		for _, group := range s.file.Comments {
			for _, text := range paragraphs(group.Text()) {
				add(name, strings.TrimSuffix(s.at(group.Pos(), ""), ": "), text)
			}
		}
		if !s.test {
			for _, literal := range messages(s) {
				text, _ := strconv.Unquote(literal.Value)
				add(name, strings.TrimSuffix(s.at(literal.Pos(), ""), ": "), text)
			}
		}
	}
	for _, name := range documents(t, fsys) {
		text, err := fs.ReadFile(fsys, name)
		require.NoError(t, err)
		for _, part := range markdown(string(text)) {
			add(name, name, part)
		}
	}
	return measured
}

// nestedSources parses the modules below the root of fsys.
func nestedSources(t *testing.T, fsys fs.FS) (all []source) {
	t.Helper()
	names, err := fs.Glob(fsys, "*/go.mod")
	require.NoError(t, err)
	for depth := "*/*/go.mod"; len(depth) < len("*/*/*/*/*/go.mod"); depth = "*/" + depth {
		more, err := fs.Glob(fsys, depth)
		require.NoError(t, err)
		names = append(names, more...)
	}
	for _, name := range names {
		if strings.Contains(name, "testdata/") {
			continue
		}
		root := path.Dir(name)
		below, err := fs.Sub(fsys, root)
		require.NoError(t, err)
		files, err := parseTree(below)
		require.NoError(t, err)
		for _, s := range files {
			s.name, s.pkg = path.Join(root, s.name), path.Join(root, s.pkg)
			all = append(all, s)
		}
	}
	return all
}

var (
	listItem  = regexp.MustCompile(`^(?:[-*•]|[0-9]+\.) `)
	codeSpan  = regexp.MustCompile("`[^`]*`")
	separator = regexp.MustCompile(`\n\n|\n *- |\n\|`)
)

// paragraphs returns the paragraphs and list items of a comment, without code.
func paragraphs(text string) (parts []string) {
	begin := true
	for line := range strings.SplitSeq(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || strings.HasPrefix(line, "\t"):
			begin = true
			continue
		case listItem.MatchString(trimmed):
			begin = true
		}
		if begin {
			parts = append(parts, trimmed)
		} else {
			parts[len(parts)-1] += " " + trimmed
		}
		begin = false
	}
	return parts
}

// messages returns the literals of a file that people read: in examples all of them,
// elsewhere the arguments of errors.New and fmt.Errorf. It leaves out literals of one or two words,
// and those with a "<".
func messages(s source) (found []*ast.BasicLit) {
	program := within(s.pkg, "examples")
	collect := func(n ast.Node) {
		for n := range ast.Preorder(n) {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.Count(lit.Value, " ") > 1 && !strings.Contains(lit.Value, "<") {
				found = append(found, lit)
			}
		}
	}
	if program {
		collect(s.file)
		return found
	}
	for n := range ast.Preorder(s.file) {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			continue
		}
		if fn, ok := call.Fun.(*ast.SelectorExpr); ok {
			x, _ := fn.X.(*ast.Ident)
			if x != nil && (x.Name == "errors" && fn.Sel.Name == "New" || x.Name == "fmt" && fn.Sel.Name == "Errorf") {
				for _, arg := range call.Args {
					collect(arg)
				}
			}
		}
	}
	return found
}

// documents lists the Markdown files that people read.
func documents(t *testing.T, fsys fs.FS) (names []string) {
	t.Helper()
	for _, glob := range []string{"*.md", "docs/*.md"} {
		found, err := fs.Glob(fsys, glob)
		require.NoError(t, err)
		names = append(names, found...)
	}
	return names
}

// markdown returns the paragraphs, list items and rows of tables of a text,
// without code and headings.
func markdown(text string) (parts []string) {
	for i, part := range strings.Split(text, "```") {
		for _, p := range separator.Split("\n"+part, -1) {
			p = strings.Join(strings.Fields(codeSpan.ReplaceAllString(p, "x")), " ")
			if i%2 == 0 && !strings.HasPrefix(p, "#") {
				parts = append(parts, strings.TrimPrefix(p, "- "))
			}
		}
	}
	return parts
}

// The patterns match the sentences that made us count them, and not what took
// their place.
func TestLanguagePatterns(t *testing.T) {
	for _, tt := range []struct{ want, today, better string }{
		{"P1", "shared is what a Store and its scopes have in common", "shared holds the state common to a Store and its scopes"},
		{"P6", "checked returns the options, or why they are none", "checked validates the options"},
		{"P1", "own takes a batch of this process as it was written, which is what a scan would return", "own folds a batch this process appended, without reading it back"},
		{"P6", "That it could not be noted is no failure of its own: the next one will", "If recording fails it is only logged"},
		{"P5", "the session has changed since it was looked at: read it again and decide anew", "session changed since it was read; read it again and retry"},
		{"P3", "somebody else holds the lock, another turn on this session for example", "lock is held, for example by another turn"},
		{"P1 P3", "errNotHere is all that a scope says of what is somebody else's, and of what nobody has", "errNotFound hides other owners' sessions: they look nonexistent"},
		{"P1", "Guard is what there is to know about the calls to one model", "A Guard describes how to call one model"},
		{"P4", "Only an answer with nothing in it is not, if its usage, or the estimate, says that the window was full", "An empty answer whose usage shows a full window counts as an overflow"},
		{"P2", "The size is that of the file", "The size is the size of the file"},
		{"P7", "The line behind the header", "The line after the header"},
		{"P8", "A row stands for a session", "A row describes a session"},
		{"P9", "A reader goes on there", "A reader continues there"},
		{"P10", "F reads as far as the damage", "F reads up to the damage"},
		{"P10", "F reads archives, too", "F also reads archives"},
		{"P11", "No lock is held unless it was asked for", "The lock is held only on request"},
		{"P12", "The row has the ID", "The row holds the ID"},
	} {
		p := &prose{places: map[string][]string{}}
		p.add("", tt.today)
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(p.places)), func(name string) bool { return name == "all" })
		for want := range strings.FieldsSeq(tt.want) {
			require.Contains(t, names, want, tt.today)
		}
		p = &prose{places: map[string][]string{}}
		p.add("", tt.better)
		require.Empty(t, p.places)
	}
}

func TestLanguageCheckerFlags(t *testing.T) {
	fsys := fstest.MapFS{
		"session/x.go": {Data: []byte("// Package p is plain.\n//\n//   - what is\n//     new\n//\n//\tnobody\npackage p\n\n" +
			"var err = errors.New(\"the size is that of one\")\n\nvar other = \"what it was\" // somebody\n")},
		"session/x_test.go":   {Data: []byte("package p\n\n// nobody waits\n")},
		"session/y/go.mod":    {},
		"session/y/y.go":      {Data: []byte("// Package y is behind it.\npackage y\n")},
		"A.md":                {Data: []byte("# What is guaranteed\n\n```\nWhat is this.\n```\n\n- It is so.\n\n- `what is` not, what is.\n")},
		"docs/B.md":           {Data: []byte("There is no list.\n")},
		"testdata/ignored.md": {Data: []byte("What is.\n")},
	}
	measured := readProse(t, fsys, slices.Concat(sources(t, fsys), nestedSources(t, fsys)))
	want := map[string][]string{
		"A.md": {"A.md: what is"}, "docs/B.md": nil, "session/y": {"session/y/y.go:1: behind"}, "tests": {"session/x_test.go:3: nobody"},
		"session": {"session/x.go:1: what is", "session/x.go:9: that of", "session/x.go:11: somebody"},
	}
	for name, places := range want {
		require.ElementsMatch(t, places, measured[name].places["all"], name)
	}
	require.Len(t, measured, len(want)+1, "and the total")

	rows := func(words, hits int) map[string]*prose {
		places := slices.Repeat([]string{"x.go:1: that of"}, hits)
		return map[string]*prose{"session": {words: words, places: map[string][]string{"P2": places}}}
	}
	ceiling := func(rate int) map[string]map[string]int { return map[string]map[string]int{"session": {"P2": rate}} }
	expect(t, checkRates(nil, rows(10_000, 2)), "")
	expect(t, checkRates(nil, rows(10_000, 3)), "session: P2 is 0.3 in 1,000 words, over its ceiling of 0.2:\n\tx.go:1: that of")
	expect(t, checkRates(nil, rows(100, 1)), "")
	expect(t, checkRates(ceiling(30), rows(10_000, 30)), "")
	expect(t, checkRates(ceiling(30), rows(10_000, 31)), "session: P2 is 3.1 in 1,000 words")
	expect(t, checkRates(ceiling(30), rows(10_000, 20)), "")
	expect(t, checkRates(ceiling(30), rows(10_000, 19)), "session: P2 has fallen to 1.9; lower its ceiling of 3.0")
	expect(t, checkRates(ceiling(30), nil), "session is gone")

	require.Equal(t, ceiling(20+languageSlack), lowerRates(ceiling(30), rows(10_000, 20)))
	require.Equal(t, ceiling(30), lowerRates(ceiling(30), rows(10_000, 40)), "an update raises nothing")
	require.Empty(t, lowerRates(ceiling(30), rows(10_000, 2)), "at the goal")
	require.Empty(t, lowerRates(map[string]map[string]int{"guard": {}}, rows(10_000, 40)), "a new package starts at the goal")
	reparsed, err := language.parse(language.format(ceiling(31)))
	require.NoError(t, err)
	require.Equal(t, ceiling(31), reparsed)
}

// .ci/subjects refuses a commit subject unless it is short and imperative.
func TestLanguageOfSubjects(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	for subject, ok := range map[string]bool{
		"session: move held next to lineOf":                                 true,
		"compact, exchange: name the subjects":                              true,
		"rebuild/wire: process empty answers":                               true,
		"README: embed the program":                                         true,
		`Revert "session: own the policies"`:                                true,
		"session: what looks for types is beside what writes":               false,
		"session: the steps of a commit need no op":                         false,
		"filelog: Flush is about the file":                                  false,
		"session: moved held":                                               false,
		"session: moves held":                                               false,
		"session: moving held":                                              false,
		"session: keep what a window says of a cut entry":                   false,
		"an append does not ask what its error means":                       false,
		"session: move held next to lineOf, which looks for types of lines": false,
		"session: move":                                                     false,
	} {
		cmd := exec.Command(bash, ".ci/subjects", "-")
		cmd.Stdin = strings.NewReader(subject + "\n")
		out, err := cmd.Output()
		require.Equal(t, ok, err == nil, "%s: %s", subject, out)
	}
}
