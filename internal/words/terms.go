package words

import (
	"strings"
	"unicode"
)

// Terms returns the words of a text, folded, each as often as it occurs: words and
// numbers as they stand between spaces and signs, and pairs of neighbours of scripts
// that put no spaces between words.
func Terms(text string) (list []string) {
	for _, piece := range split(Fold(text)) {
		if isRun(piece) {
			list = append(list, pairs(piece)...)
			continue
		}
		list = append(list, piece)
	}
	return list
}

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
