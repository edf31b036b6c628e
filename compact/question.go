package compact

import (
	"strings"
	"unicode/utf8"

	"github.com/convolog/convolog/transcript"
)

// A text this short may mean nothing without the question that it answers, so
// the end of the answer before is carried with it: up to mostAsked runes, if
// the last asksWithin have a question mark.
const (
	shortWords = 8
	shortRunes = 48
	asksWithin = 240
	mostAsked  = 320
)

func isShort(text string) bool {
	return utf8.RuneCountInString(text) < shortRunes && len(strings.Fields(text)) < shortWords
}

// questionOf returns the end of a message that asks something, from the start
// of a paragraph or sentence, and the ID of its entry.
func questionOf(m transcript.Message) (text, entry string) {
	if m.Role != transcript.RoleAssistant || len(m.ToolCalls()) > 0 || len(m.Origins) == 0 {
		return "", ""
	}
	text = strings.TrimSpace(masked(plain(m.Text())))
	if !strings.ContainsAny(lastRunes(text, asksWithin), "?\uff1f؟՞⸮") {
		return "", ""
	}
	end := lastRunes(text, mostAsked)
	if at := strings.LastIndex(end, "\n\n"); at >= 0 {
		end = end[at:]
	} else if at := sentenceEnd(end); len(end) < len(text) && at < len(end) {
		end = end[at:]
	}
	return strings.TrimSpace(end), m.Origins[len(m.Origins)-1].Entry
}

func lastRunes(s string, n int) string {
	for i := len(s); i > 0; n-- {
		if n == 0 {
			return s[i:]
		}
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}
	return s
}
