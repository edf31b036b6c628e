package guard

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/convolog/convolog/internal/lazy"
)

//go:embed overflow.txt
var overflowText string

// A table holds the contents of overflow.txt. The head of that file explains its lines.
type table struct {
	rules []*rule
	sizes map[string]patterns     // by sort
	found map[string]*lazy.Regexp // by name
}

// known returns the table, which it reads when the first error is classified. A program
// without errors does not pay for the table.
var known = sync.OnceValue(func() *table { return readTable(overflowText) })

// A rule decides by the codes of an error, or by its words.
type rule struct {
	name                string // a "-" in it becomes the deciding sign
	kind                Kind
	refused             string   // if the kind is [Part]
	signs               []string // each decides: "code invalid_api_key", "status 413"
	has                 []string // a text needs one of these signs, if there are any
	match, also, unless patterns
}

// patterns are alternatives, for texts in lower case.
type patterns []*lazy.Regexp

func (ps patterns) match(text string) bool {
	return slices.ContainsFunc(ps, func(p *lazy.Regexp) bool { return p.Find(text) != nil })
}

// decides reports whether the rule matches an error, and returns the name of the
// decision.
func (r *rule) decides(signs []string, text string) (name string, ok bool) {
	for _, s := range signs {
		if slices.Contains(r.signs, s) {
			return strings.Replace(r.name, "-", s, 1), true
		}
	}
	known := func(s string) bool { return slices.Contains(signs, s) }
	return r.name, r.match.match(text) && (r.has == nil || slices.ContainsFunc(r.has, known)) &&
		(r.also == nil || r.also.match(text)) && !r.unless.match(text)
}

func find(name string) *regexp.Regexp { return known().found[name].Get() }

// readTable reads overflow.txt, and panics on a line with an unknown key.
func readTable(text string) *table {
	t := &table{sizes: map[string]patterns{}, found: map[string]*lazy.Regexp{}}
	names := map[string][]string{} // expressions by the names of let
	var r *rule
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		key, rest, _ := strings.Cut(line, " ")
		for name, lines := range names {
			rest = strings.ReplaceAll(rest, "{"+name+"}", "(?:"+strings.Join(lines, "|")+")")
		}
		first, second, _ := strings.Cut(rest, " ")
		switch key {
		case "", "#":
		case "let":
			names[first] = append(names[first], second)
		case "rule":
			kind, refused, _ := strings.Cut(second, " ")
			r = &rule{name: first, kind: Kind(kind), refused: refused}
			t.rules = append(t.rules, r)
		case "code", "status":
			r.signs = append(r.signs, line)
		case "has":
			r.has = append(r.has, rest)
		case "match":
			r.match = append(r.match, lazy.New(rest))
		case "also":
			r.also = append(r.also, lazy.New(rest))
		case "unless":
			r.unless = append(r.unless, lazy.New(rest))
		case "size":
			for _, slot := range []string{"p", "l", "o", "t", "n"} {
				second = strings.ReplaceAll(second, "<"+slot+">", "(?P<"+slot+">(?:"+strings.Join(names["number"], "|")+"))")
			}
			t.sizes[first] = append(t.sizes[first], lazy.New(second))
		case "find":
			t.found[first] = t.found[first].Or("(?i)" + second)
		default:
			panic(fmt.Sprintf("overflow.txt: no such key: %s", line))
		}
	}
	return t
}
