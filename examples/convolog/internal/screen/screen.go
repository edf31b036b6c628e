// Package screen makes texts fit to be printed, wherever they are from.
package screen

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/convolog/convolog/internal/unseen"
)

// Printable returns text without the characters that command a terminal, break
// lines, turn them around or hide, but for those in keep.
func Printable(text, keep string) string {
	return unseen.Replace(text, func(r rune) string {
		if strings.ContainsRune(keep, r) {
			return string(r)
		}
		return string(unicode.ReplacementChar)
	})
}

// JSON returns lines of JSON with escapes for the same characters.
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
