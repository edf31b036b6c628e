package guard

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed overflow.txt
var overflowText string

// A table is what overflow.txt says. The head of that file explains its lines.
type table struct {
	overflow map[string]Kind   // by code
	refused  map[string]string // the rule by code
	late     map[string]Kind   // by code, if no text decides
	rules    []*textRule
	sizes    map[string][]*expression // by sort
	found    map[string]*expression   // by name
}

// known is the table, read when the first error is classified: a program that
// meets none pays for none.
var known = sync.OnceValue(func() *table { return readTable(overflowText) })

// A textRule decides by the words of an error.
type textRule struct {
	name                string
	kind                Kind
	code                string      // what the error has besides; "": nothing
	match, also, unless *expression // nil: nothing
}

func (r *textRule) matches(codes []string, text string) bool {
	switch {
	case r.code != "" && !slices.Contains(codes, r.code):
		return false
	case !r.match.get().MatchString(text):
		return false
	case r.also != nil && !r.also.get().MatchString(text):
		return false
	default:
		return r.unless == nil || !r.unless.get().MatchString(text)
	}
}

// An expression is a regular expression of several alternatives, which is
// compiled when it is first asked for.
type expression struct {
	lines []string
	once  sync.Once
	re    *regexp.Regexp
}

func (e *expression) get() *regexp.Regexp {
	e.once.Do(func() { e.re = regexp.MustCompile("(?i)" + strings.Join(e.lines, "|")) })
	return e.re
}

// with returns e, or a new expression if it is nil, with one more alternative.
func (e *expression) with(line string) *expression {
	if e == nil {
		e = &expression{}
	}
	e.lines = append(e.lines, line)
	return e
}

// find returns the expression with that name.
func find(name string) *regexp.Regexp { return known().found[name].get() }

// readTable panics if a line is none that the head of overflow.txt explains.
func readTable(text string) *table {
	t := &table{
		overflow: map[string]Kind{}, refused: map[string]string{}, late: map[string]Kind{},
		sizes: map[string][]*expression{}, found: map[string]*expression{},
	}
	names := map[string][]string{} // of let
	for line := range strings.Lines(text) {
		key, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		if key == "" || key == "#" {
			continue
		}
		for name, lines := range names {
			rest = strings.ReplaceAll(rest, "{"+name+"}", "(?:"+strings.Join(lines, "|")+")")
		}
		if !t.ofRule(key, rest) {
			first, second, _ := strings.Cut(rest, " ")
			switch key {
			case "let":
				names[first] = append(names[first], second)
			case "code":
				t.overflow[second] = Kind(first)
			case "refuse":
				t.refused[second] = first
			case "late":
				t.late[second] = Kind(first)
			case "rule":
				t.rules = append(t.rules, &textRule{name: first, kind: Kind(second)})
			case "size":
				for _, slot := range []string{"p", "l", "o", "t"} {
					second = strings.ReplaceAll(second, "<"+slot+">", "(?P<"+slot+">(?:"+strings.Join(names["number"], "|")+"))")
				}
				t.sizes[first] = append(t.sizes[first], (*expression)(nil).with(second))
			case "find":
				t.found[first] = t.found[first].with(second)
			default:
				panic(fmt.Sprintf("overflow.txt: no such key: %s", line))
			}
		}
	}
	return t
}

// ofRule adds a line to the last rule and reports whether it is such a line.
func (t *table) ofRule(key, rest string) bool {
	if len(t.rules) == 0 {
		return false
	}
	r := t.rules[len(t.rules)-1]
	switch key {
	case "has":
		r.code = rest
	case "match":
		r.match = r.match.with(rest)
	case "also":
		r.also = r.also.with(rest)
	case "unless":
		r.unless = r.unless.with(rest)
	default:
		return false
	}
	return true
}
