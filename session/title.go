package session

import "strings"

const titleRunes = 60

// titleOf makes a title of a user's text: its first line with words in it,
// white space folded, cut at 60 runes. A text that programs put there, such as
// a reminder in tags, gives none.
func titleOf(text string) string {
	for line := range strings.Lines(text) {
		line = strings.Join(strings.Fields(line), " ")
		switch {
		case line == "":
			continue
		case strings.HasPrefix(line, "<") || strings.HasPrefix(line, "["):
			return ""
		}
		runes := []rune(strings.ToValidUTF8(line, "\uFFFD"))
		if len(runes) > titleRunes {
			return string(runes[:titleRunes]) + "…"
		}
		return string(runes)
	}
	return ""
}
