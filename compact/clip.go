package compact

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/lazy"
)

// leftOut is the note where a text was shortened.
var leftOut = lazy.New(`\[\.\.\. ([0-9]{1,15}) runes left out \.\.\.\]`)

// clip returns a text of more than n runes as its first and its last ones, n
// in all, and between them a note of how many were left out. The count includes
// the runes that an earlier note stands for if that note is left out itself.
func clip(s string, n int) string { return clipTo(s, n, max(n, 0)/3) }

// clipTo is clip with so many of the last runes.
func clipTo(s string, n, tail int) string {
	total := utf8.RuneCountInString(s)
	if total <= n {
		return s
	}
	n = max(n, 0)
	from, to := runeOffset(s, n-tail), runeOffset(s, total-tail)
	note := fmt.Sprintf("[... %d runes left out ...]", countRunes(s[from:to]))
	if n == 0 {
		return note
	}
	return s[:from] + "\n" + note + "\n" + s[to:]
}

// countRunes counts the characters of a text, those its notes speak of among
// them.
func countRunes(s string) int {
	n := utf8.RuneCountInString(s)
	if !strings.Contains(s, "[... ") {
		return n
	}
	for _, m := range leftOut.Get().FindAllStringSubmatch(s, -1) {
		if before, err := strconv.Atoi(m[1]); err == nil {
			n += before - len(m[0])
		}
	}
	return n
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
