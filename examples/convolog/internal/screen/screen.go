// Package screen makes texts of any origin safe to print.
package screen

import (
	"fmt"
	"strings"
	"unicode"
)

// Printable replaces characters that control a terminal, break lines or change the
// direction of text. It leaves characters in keep unchanged.
func Printable(text, keep string) string {
	return strings.Map(func(r rune) rune {
		if commands(r) && !strings.ContainsRune(keep, r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// JSON escapes the same characters in lines of JSON, except for line breaks.
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
