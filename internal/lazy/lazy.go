// Package lazy has regular expressions that are compiled at their first use.
// A program that imports a package with hundreds of them pays for none at its
// start, and only for those it uses later.
package lazy

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
)

// A Regexp is a regular expression that is compiled when it is first used. It
// is safe for several goroutines.
type Regexp struct {
	source string
	once   sync.Once
	re     *regexp.Regexp
	parsed sync.Once
	words  []string // each match contains one of them; nil: not known
}

// New returns the regular expression with that source, which is not compiled
// yet.
func New(source string) *Regexp { return &Regexp{source: source} }

// Or returns an expression that matches where r or source does. A nil r matches
// nothing.
func (r *Regexp) Or(source string) *Regexp {
	if r == nil {
		return New(source)
	}
	return New(r.source + "|" + source)
}

// Get returns the compiled expression. It panics if the source is not one, as
// [regexp.MustCompile] does; the tests of a package have to reach each Get.
func (r *Regexp) Get() *regexp.Regexp {
	r.once.Do(func() { r.re = regexp.MustCompile(r.source) })
	return r.re
}

// Find returns the first match in text and its groups, or nil. It looks first for the
// words of which every match contains one: a text without them costs little, and
// an expression whose words never come is not compiled.
func (r *Regexp) Find(text string) []string {
	r.parsed.Do(func() {
		if re, err := syntax.Parse(r.source, syntax.Perl); err == nil {
			r.words = wordsOf(re)
		}
	})
	if r.words != nil && !slices.ContainsFunc(r.words, func(w string) bool { return strings.Contains(text, w) }) {
		return nil
	}
	return r.Get().FindStringSubmatch(text)
}

// wordsOf returns strings of which each text that re matches contains one, nil if it
// knows none.
func wordsOf(re *syntax.Regexp) (words []string) {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return []string{string(re.Rune)}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return wordsOf(re.Sub[0])
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			of := wordsOf(sub)
			if of == nil {
				return nil
			}
			words = append(words, of...)
		}
	case syntax.OpConcat:
		longest := 0
		for _, sub := range re.Sub {
			if of := wordsOf(sub); of != nil {
				if n := len(slices.MinFunc(of, func(a, b string) int { return len(a) - len(b) })); n > longest {
					words, longest = of, n
				}
			}
		}
	default: // no word is sure
	}
	return words
}
