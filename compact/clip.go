package compact

import (
	"fmt"
	"unicode/utf8"
)

// clip returns a text of more than n runes as its first and its last ones, n
// in all, and between them a note of how many were left out.
func clip(s string, n int) string { return clipTo(s, n, max(n, 0)/3) }

// clipTo is clip with so many of the last runes.
func clipTo(s string, n, tail int) string {
	total := utf8.RuneCountInString(s)
	if total <= n {
		return s
	}
	n = max(n, 0)
	from, to := runeOffset(s, n-tail), runeOffset(s, total-tail)
	note := fmt.Sprintf("[... %d runes left out ...]", utf8.RuneCountInString(s[from:to]))
	if n == 0 {
		return note
	}
	return s[:from] + "\n" + note + "\n" + s[to:]
}

// runeOffset returns where character n of a text starts, in bytes.
func runeOffset(s string, n int) int {
	for i := range s {
		if n <= 0 {
			return i
		}
		n--
	}
	return len(s)
}
