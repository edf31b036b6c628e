// Package lazy has regular expressions that are compiled at their first use. A program
// that imports a package with hundreds of expressions compiles only those it uses.
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
	words  []string // each match contains one of these words; nil if unknown
}

// New returns a regular expression and does not compile it.
func New(source string) *Regexp { return &Regexp{source: source} }

// Or returns an expression that matches if r or source matches. A nil r never matches.
func (r *Regexp) Or(source string) *Regexp {
	if r == nil {
		return New(source)
	}
	return New(r.source + "|" + source)
}

// Get returns the compiled expression. Like [regexp.MustCompile] it panics if the source
// is invalid; the tests of a package must therefore reach each Get.
func (r *Regexp) Get() *regexp.Regexp {
	r.once.Do(func() { r.re = regexp.MustCompile(r.source) })
	return r.re
}

// Find returns the first match in text and its groups, or nil. If every match contains one
// of some words, Find first looks for these words. A text without them costs little, and
// an expression whose words never occur is never compiled.
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

// wordsOf returns strings such that every match of re contains one of them, or nil if it
// finds none.
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
	default: // a match need not contain any word
	}
	return words
}
