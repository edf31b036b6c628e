package convolog_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "lower the ceilings and rewrite the lists in testdata")

const ceilingsFile = "testdata/ceilings.txt"

// A column of the ceilings.
type column struct {
	name  string
	grain int // a ceiling is a multiple of it
	slack int // a ceiling may be this much higher than the measured value
	limit int // of a package without a row; 0: none
}

var columns = []column{
	{"lines", 50, 100, 3500},
	{"files", 1, 2, 25},
	{"names", 1, 2, 60},
	{"methods", 1, 2, 0},
	{"largest", 1, 2, 0},
	{"wide", 1, 0, 0},
	{"flags", 1, 0, 0},
	{"bools", 1, 0, 0},
	{"floors", 1, 2, 0},
	{"up", 1, 2, 0},
}

// summed are the columns of the row "total". The row "public" has the columns
// names and methods.
var summed = []string{"lines", "files", "wide", "flags", "bools", "up"}

const ceilingsHeader = `# Ceilings of the packages that applications link. They may only fall.
# Above a ceiling, the test fails. Well below it, the test fails until
#   go test . -run Walls -update
# has lowered it. The command raises no ceiling and adds a row for a new
# package. Raise a ceiling by hand, with the reason in the commit. After a merge
# conflict keep the higher values and run the command.
#
# lines    of all files but tests, up to the next 50
# files    but tests
# names    exported types, functions, constants and variables
# methods  exported, of exported types; methods of interfaces are not counted
# largest  exported methods of the type that has most
# wide     private structs with more than 12 fields
# flags    private structs with more than 2 booleans
# bools    boolean parameters of private functions, except a last one that the
#          doc comment names
# floors   the longest chain of files that use each other; a circle of n files
#          is n floors
# up       arrows, from a file to a file that it uses, against the order of
#          files with the fewest such arrows
# total    the sum of the rows
# public   the names in api.txt: with test kits, without internal packages
`

// measures are the values of rows and columns.
type measures struct {
	rows   map[string]map[string]int
	places map[string][]string // by row and column, "session wide": the places that count
}

// Each package, and the module as a whole, stays under its ceilings.
func TestWallsCeilings(t *testing.T) {
	measured := measure(rooms(t), sources(t, os.DirFS(".")))
	text, err := os.ReadFile(ceilingsFile)
	if !*update {
		require.NoError(t, err)
	}
	ceilings, err := sizes.parse(string(text))
	require.NoError(t, err)
	if *update {
		ceilings = lower(ceilings, measured.rows)
		require.NoError(t, os.WriteFile(ceilingsFile, []byte(sizes.format(ceilings)), 0o644))
	}
	report(t, checkCeilings(ceilings, measured))
}

func TestCeilingsCheckerFlags(t *testing.T) {
	lines := func(n int) map[string]map[string]int {
		return map[string]map[string]int{"session": {"lines": n, "flags": 1}}
	}
	house := measures{lines(240), map[string][]string{"session flags": {"x.go:1: t has 3 booleans"}}}
	for _, tt := range []struct {
		name     string
		ceilings map[string]map[string]int
		want     string
	}{
		{"same", lines(240), ""},
		{"a little lower", lines(340), ""},
		{"much lower", lines(350), "session: lines has fallen to 240; lower its ceiling of 350"},
		{"higher", lines(200), "session: lines is 240, over its ceiling of 200"},
		{"higher, with places", map[string]map[string]int{"session": {"lines": 250}}, "session: flags is 1, over its ceiling of 0:\n\tx.go:1: t has 3 booleans"},
		{"no row", map[string]map[string]int{}, "session has no row"},
		{"row too many", map[string]map[string]int{"guard": {}, "session": lines(250)["session"]}, "guard is gone"},
	} {
		t.Run(tt.name, func(t *testing.T) { expect(t, checkCeilings(tt.ceilings, house), tt.want) })
	}

	require.Equal(t, lines(250), lower(lines(300), house.rows))
	require.Equal(t, lines(200), lower(lines(200), house.rows), "an update raises nothing")
	guard := map[string]map[string]int{"guard": {"lines": 100}}
	require.Equal(t, lines(250), lower(guard, house.rows), "a small package gets a row, and a package that is gone loses it")
	require.Empty(t, lower(guard, lines(3501)), "a large package gets none")

	reparsed, err := sizes.parse(sizes.format(lines(250)))
	require.NoError(t, err)
	require.Equal(t, lines(250)["session"], reparsed["session"])
}

func TestMeasure(t *testing.T) {
	all := sources(t, fstest.MapFS{
		"session/a.go":             {Data: []byte("package session\ntype S struct{}\nfunc (S) A() { b() }\nfunc (S) B() {}\n")},
		"session/b.go":             {Data: []byte("package session\nfunc b() { S{}.A() }\n")},
		"session/a_test.go":        {Data: []byte("package session\nfunc T() {}\n")},
		"internal/page/a.go":       {Data: []byte("package page\nfunc F() {}\n")},
		"session/sessiontest/a.go": {Data: []byte("package sessiontest\nfunc Run() {}\n")},
	})
	house, err := checkTypes(all)
	require.NoError(t, err)
	m := measure(house, all)
	require.Equal(t, map[string]map[string]int{
		"session":       {"lines": 6, "files": 2, "names": 1, "methods": 2, "largest": 2, "wide": 0, "flags": 0, "bools": 0, "floors": 2, "up": 1},
		"internal/page": {"lines": 2, "files": 1, "names": 1, "methods": 0, "largest": 0, "wide": 0, "flags": 0, "bools": 0, "floors": 1, "up": 0},
		"total":         {"lines": 8, "files": 3, "wide": 0, "flags": 0, "bools": 0, "up": 1},
		"public":        {"names": 2, "methods": 2},
	}, m.rows)
	require.Len(t, m.places["session up"], 2, "S and S.A")
}

func measure(rooms []*room, all []source) measures {
	m := measures{map[string]map[string]int{"total": {}}, map[string][]string{}}
	for _, r := range rooms {
		row := map[string]int{"lines": countLines(r.files), "files": len(r.files), "largest": largestType(r.files)}
		row["names"], row["methods"] = countNames(r.files)
		wide, flags := structShapes(r.files)
		for name, places := range map[string][]string{"wide": wide, "flags": flags, "bools": boolParameters(r.files)} {
			row[name] = len(places)
			m.places[r.pkg+" "+name] = places
		}
		_, arrows := r.fileGraph()
		order, up := arrows.order()
		row["floors"], row["up"] = arrows.floors(), up
		m.places[r.pkg+" up"] = r.usesUp(order)
		m.rows[r.pkg] = row
		for _, name := range summed {
			m.rows["total"][name] += row[name]
		}
	}
	public := map[string]int{}
	for _, files := range publicPackages(all) {
		plain, methods := countNames(files)
		public["names"] += plain
		public["methods"] += methods
	}
	m.rows["public"] = public
	return m
}

// checkCeilings compares measured values with their ceilings.
func checkCeilings(ceilings map[string]map[string]int, m measures) (findings []string) {
	add := func(format string, args ...any) { findings = append(findings, fmt.Sprintf(format, args...)) }
	for _, pkg := range slices.Sorted(maps.Keys(m.rows)) {
		if ceilings[pkg] == nil {
			add("%s has no row in %s; for a package of at most 3,500 lines, 25 files and 60 names: go test . -run Walls -update", pkg, ceilingsFile)
			continue
		}
		for _, c := range columns {
			value, measured := m.rows[pkg][c.name]
			ceiling := ceilings[pkg][c.name]
			switch {
			case measured && value > ceiling:
				add("%s: %s is %d, over its ceiling of %d%s", pkg, c.name, value, ceiling, list(m.places[pkg+" "+c.name]))
			case measured && ceiling-value > c.slack:
				add("%s: %s has fallen to %d; lower its ceiling of %d: go test . -run Walls -update", pkg, c.name, value, ceiling)
			}
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(ceilings)) {
		if m.rows[pkg] == nil {
			add("%s is gone but still has a row in %s: go test . -run Walls -update", pkg, ceilingsFile)
		}
	}
	return findings
}

func list(places []string) string {
	if len(places) == 0 {
		return ""
	}
	return ":\n\t" + strings.Join(places, "\n\t")
}

// lower returns the ceilings that measured values allow: no value higher than
// before, no row for a package that is gone, and a row for each new package that
// keeps the limits of its columns.
func lower(ceilings, measured map[string]map[string]int) map[string]map[string]int {
	lowered := map[string]map[string]int{}
	for pkg, values := range measured {
		row := map[string]int{}
		small := true
		for _, c := range columns {
			value, ok := values[c.name]
			if !ok {
				continue
			}
			row[c.name] = (value + c.grain - 1) / c.grain * c.grain
			if ceilings[pkg] != nil {
				row[c.name] = min(row[c.name], ceilings[pkg][c.name])
			}
			small = small && (c.limit == 0 || value <= c.limit)
		}
		if small || ceilings[pkg] != nil || len(ceilings) == 0 {
			lowered[pkg] = row
		}
	}
	return lowered
}

// A table is a file of ceilings: a row for each package, a column for each measure.
type table struct {
	file    string
	header  string // comment lines
	columns []column
	last    []string // rows at the end
	tenths  bool     // values are written with one decimal
}

var sizes = table{file: ceilingsFile, header: ceilingsHeader, columns: columns, last: []string{"total", "public"}}

func (tb table) parse(text string) (map[string]map[string]int, error) {
	ceilings := map[string]map[string]int{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" || fields[0] == "package" {
			continue
		}
		if len(fields) != len(tb.columns)+1 {
			return nil, fmt.Errorf("%s: row of %s has %d columns, want %d", tb.file, fields[0], len(fields)-1, len(tb.columns))
		}
		row := map[string]int{}
		for i, field := range fields[1:] {
			if field == "-" {
				continue
			}
			if tb.tenths {
				field = strings.Replace(field, ".", "", 1)
			}
			value, err := strconv.Atoi(field)
			if err != nil {
				return nil, fmt.Errorf("%s: row of %s: %w", tb.file, fields[0], err)
			}
			row[tb.columns[i].name] = value
		}
		ceilings[fields[0]] = row
	}
	return ceilings, nil
}

func (tb table) format(ceilings map[string]map[string]int) string {
	var b strings.Builder
	b.WriteString(tb.header + "\n")
	write := func(pkg string, cell func(c column) string) {
		fmt.Fprintf(&b, "%-32s", pkg)
		for _, c := range tb.columns {
			fmt.Fprintf(&b, " %7s", cell(c))
		}
		b.WriteString("\n")
	}
	write("package", func(c column) string { return c.name })
	packages := slices.DeleteFunc(slices.Sorted(maps.Keys(ceilings)), func(pkg string) bool { return slices.Contains(tb.last, pkg) })
	for _, pkg := range append(packages, tb.last...) {
		if ceilings[pkg] == nil && tb.tenths {
			continue
		}
		write(pkg, func(c column) string {
			value, ok := ceilings[pkg][c.name]
			switch {
			case !ok:
				return "-"
			case tb.tenths:
				return tenths(value)
			}
			return strconv.Itoa(value)
		})
	}
	return b.String()
}

func tenths(value int) string { return fmt.Sprintf("%d.%d", value/10, value%10) }
