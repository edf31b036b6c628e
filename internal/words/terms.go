package words

import (
	"strings"
	"unicode"
)

// Terms returns the folded words of a text, each as often as it occurs. They are words and
// numbers between spaces, without signs around them, and pairs of neighbouring characters
// of scripts without spaces.
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

// Printable returns a text as valid UTF-8 without control characters other than tabs and
// line feeds. A provider may refuse control characters, and a terminal obeys them.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' && r != '\n' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
