package compact

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// The texts that join the pieces of a part too long for one.
const (
	continues = "\n[continues in the next part]"
	continued = ", continued"
)

// pieces hands out a document piece by piece, in order. The caller limits each
// piece, so a limit may depend on the result of the piece before. Pieces end
// between two blocks; a block that is too long continues in the next ones, and its
// marks show that.
type pieces []string

// next returns the next piece that fits: as many whole parts as there is room
// for, or else the beginning of a part. It is empty if not even one character
// fits.
func (p *pieces) next(fits func(string) bool) string {
	all := *p
	n := largest(len(all), func(n int) bool { return fits(joined(all[:n])) })
	if n > 0 {
		*p = all[n:]
		return joined(all[:n])
	}
	mark, body, _ := strings.Cut(all[0], markEnd)
	begin := func(n int) string { return mark + markEnd + body[:runeEnd(body, n)] + continues }
	n = runeEnd(body, largest(len(body), func(n int) bool { return fits(begin(n)) }))
	if n == 0 {
		return ""
	}
	if at := strings.LastIndexAny(body[:n], "\n "); at >= n*3/4 && fits(begin(at+1)) {
		n = at + 1
	}
	piece := begin(n)
	// Replaced, not changed: the parts may be read again.
	*p = all[1:]
	if n < len(body) {
		mark, _, _ = strings.Cut(mark, " called ")
		*p = append(pieces{strings.TrimSuffix(mark, continued) + continued + markEnd + body[n:]}, all[1:]...)
	}
	return piece
}

// largest returns the greatest n up to limit for which ok holds, or 0. It may
// miss the greatest unless ok holds for all smaller numbers.
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

// runeEnd returns n, or the end of the character that contains n.
func runeEnd(s string, n int) int {
	for n < len(s) && !utf8.RuneStart(s[n]) {
		n++
	}
	return n
}
