// Package lazy has regular expressions that are compiled at their first use.
// A program that imports a package with hundreds of them pays for none at its
// start, and only for those it uses later.
package lazy

import (
	"regexp"
	"sync"
)

// A Regexp is a regular expression that is compiled when it is first used. It
// is safe for several goroutines.
type Regexp struct {
	source string
	once   sync.Once
	re     *regexp.Regexp
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
