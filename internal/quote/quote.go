// Package quote prepares texts of people, tools and files for a model that also sees words
// of this library. A line of the library begins at the margin, and a line of a quoted text
// is indented. So no quoted text can imitate the library or a message of the user. User
// messages are sent unchanged. Packages rebuild, compact, guard, memory and search call
// it. In prompts of compact and memory, prompt.go also escapes imitations of their marks.
package quote

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	indent = "  "
	// ends are the characters that a reader may treat as the end of a line.
	ends = "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029"
	// fillers are invisible letters and symbols.
	fillers = "\u115f\u1160\u2800\u3164\uffa0"
)

var indents = func() *strings.Replacer {
	pairs := []string{"\r\n", "\r\n" + indent}
	for _, end := range ends {
		pairs = append(pairs, string(end), string(end)+indent)
	}
	return strings.NewReplacer(pairs...)
}()

// Rest indents every line of a text except the first, which continues a line of the library.
func Rest(text string) string { return indents.Replace(text) }

// Lines indents every line of a text.
func Lines(text string) string { return indent + Rest(text) }

// Brackets indents the lines of a text that begin with a bracket, once. Use it for long
// texts to which the library adds only notes in brackets.
func Brackets(text string) string {
	if !strings.ContainsAny(text, "[［") {
		return text
	}
	var sb strings.Builder
	for text != "" {
		line := text
		if at := strings.IndexAny(text, ends); at >= 0 {
			_, size := utf8.DecodeRuneInString(text[at:])
			line = text[:at+size]
		}
		text = text[len(line):]
		shown := strings.TrimLeftFunc(line, isUnseen)
		if !strings.HasPrefix(line, indent) && (strings.HasPrefix(shown, "[") || strings.HasPrefix(shown, "［")) {
			sb.WriteString(indent)
		}
		sb.WriteString(line)
	}
	return sb.String()
}

// isUnseen reports whether a character is invisible.
func isUnseen(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.M) || strings.ContainsRune(fillers, r)
}
