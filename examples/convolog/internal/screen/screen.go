// Package screen makes texts of any origin safe to print.
package screen

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/convolog/convolog/internal/unseen"
)

// Printable replaces characters that control a terminal, break lines, change the
// direction of text or show nothing. It leaves characters in keep unchanged.
func Printable(text, keep string) string {
	return unseen.Replace(text, func(r rune) string {
		if strings.ContainsRune(keep, r) {
			return string(r)
		}
		return string(unicode.ReplacementChar)
	})
}

// JSON escapes the same characters in lines of JSON, except for line breaks.
func JSON(lines string) string {
	return unseen.Replace(lines, func(r rune) string {
		if r == '\n' {
			return "\n"
		}
		var sb strings.Builder
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&sb, `\u%04x`, unit)
		}
		return sb.String()
	})
}
