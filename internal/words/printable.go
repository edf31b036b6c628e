package words

import (
	"strings"
	"unicode"
)

// Printable returns a text of valid UTF-8 without control characters, except tabs and
// line feeds: a provider may refuse them, and a terminal obeys them.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' && r != '\n' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
