// Package screen makes texts fit to be printed, wherever they are from.
package screen

import (
	"strings"
	"unicode"
)

// Printable returns text without the characters that command a terminal, break
// lines or turn them around, but for those in keep.
func Printable(text, keep string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Bidi_Control) && !strings.ContainsRune(keep, r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
