package compact

import "fmt"

// clip returns a text of more than n runes as its first and its last ones, n
// in all, and between them a note of how many were left out.
func clip(s string, n int) string { return clipTo(s, n, max(n, 0)/3) }

// clipTo is clip with so many of the last runes.
func clipTo(s string, n, tail int) string {
	runes := []rune(s)
	gone := len(runes) - max(n, 0)
	note := fmt.Sprintf("[... %d runes left out ...]", gone)
	switch {
	case gone <= 0:
		return s
	case gone == len(runes):
		return note
	}
	return string(runes[:n-tail]) + "\n" + note + "\n" + string(runes[len(runes)-tail:])
}
