package compact

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// The texts that join the pieces of a part that is too long for one.
const (
	continues = "\n[continues in the next part]"
	continued = ", continued"
)

// pieces hands out a document piece by piece, in order. Each is as long as whoever
// asks for it says, so that a limit may depend on what became of the one before.
// Pieces end between two blocks; a block that is too long for one goes on in the
// next ones, and its marks say so.
type pieces struct {
	rest []part
}

func (p *pieces) done() bool { return len(p.rest) == 0 }

// next returns the next piece, for which fits holds: as many whole parts as
// there is room for, or else the beginning of one. It is empty if not even one
// character fits.
func (p *pieces) next(fits func(string) bool) string {
	n := largest(len(p.rest), func(n int) bool { return fits(joinParts(p.rest[:n])) })
	if n > 0 {
		piece := joinParts(p.rest[:n])
		p.rest = p.rest[n:]
		return piece
	}
	head := p.rest[0]
	begin := func(n int) string { return part{head.mark, head.body[:n]}.String() + continues }
	n = largest(len(head.body), func(n int) bool { return fits(begin(runeEnd(head.body, n))) })
	n = runeEnd(head.body, n)
	if n == 0 {
		return ""
	}
	if at := strings.LastIndexAny(head.body[:n], "\n "); at >= n*3/4 && fits(begin(at+1)) {
		n = at + 1
	}
	piece := begin(n)
	// Replaced, not changed: the parts may be read again.
	mark, _, _ := strings.Cut(head.mark, " called ")
	rest := part{strings.TrimSuffix(mark, continued) + continued, head.body[n:]}
	p.rest = p.rest[1:]
	if rest.body != "" {
		p.rest = append([]part{rest}, p.rest...)
	}
	return piece
}

// largest returns the greatest n up to limit for which ok holds, 0 if there is
// none. If ok does not hold for all smaller numbers too it may be a smaller one.
func largest(limit int, ok func(int) bool) int {
	low, high := 0, 1
	for high <= limit && ok(high) {
		low, high = high, high*2
	}
	if high > limit {
		if high = limit; low == limit || ok(limit) {
			return limit
		}
	}
	return low + sort.Search(high-low-1, func(n int) bool { return !ok(low + 1 + n) })
}

// runeEnd returns n, or the end of the character that n is inside of.
func runeEnd(s string, n int) int {
	for n < len(s) && !utf8.RuneStart(s[n]) {
		n++
	}
	return n
}
