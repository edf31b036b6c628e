// Package screen makes texts fit to be printed, wherever they are from.
package screen

import (
	"fmt"
	"strings"
	"unicode"
)

// Printable returns text without the characters that command a terminal, break
// lines or turn them around, but for those in keep.
func Printable(text, keep string) string {
	return strings.Map(func(r rune) rune {
		if commands(r) && !strings.ContainsRune(keep, r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// JSON returns lines of JSON with escapes for the same characters.
func JSON(lines string) string {
	var sb strings.Builder
	for _, r := range lines {
		if commands(r) && r != '\n' {
			fmt.Fprintf(&sb, `\u%04x`, r)
		} else {
			sb.WriteRune(r)
		}
	}
	return sb.String()
}

func commands(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Bidi_Control) }
