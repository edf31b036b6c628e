package compact

import (
	"regexp"
	"strings"
)

// echoed is the length of the runs of text that are compared, in bytes, and
// shortEcho what a text must have for that, in runes: a short one may well be a
// quotation.
const (
	echoed    = 32
	shortEcho = 400
)

var documentMark = regexp.MustCompile(`^\[(user|assistant|tool_result|left out|earlier summary)( called [^\]]*|, error|, continued)?\]: `)

// isEcho reports whether a text repeats what a model was given. What it keeps
// of the summary so far is no echo, so that is not compared.
func isEcho(text, piece string) bool {
	if documentMark.MatchString(text) {
		return true
	}
	for _, mark := range []string{openDocument, closeDocument, openSummary, closeSummary} {
		if strings.Contains(text, mark) {
			return true
		}
	}
	flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	text = flat(text)
	if repeats(text, flat(promptTexts))*5 > len(text) {
		return true
	}
	return len([]rune(text)) >= shortEcho && repeats(text, flat(piece))*2 > len(text)
}

// repeats is how many bytes of a text are found in another one. It finds every
// run of twice as many bytes as are compared.
func repeats(text, source string) int {
	known := make(map[string]bool, len(source)/echoed)
	for at := 0; at+echoed <= len(source); at += echoed {
		known[source[at:at+echoed]] = true
	}
	found, end := 0, 0 // the bytes before end are counted
	for at := 0; at+echoed <= len(text); at++ {
		if known[text[at:at+echoed]] {
			found += at + echoed - max(at, end)
			end = at + echoed
		}
	}
	return found
}
