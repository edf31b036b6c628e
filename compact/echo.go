package compact

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/lazy"
)

// echoed is the length of the runs of letters that are looked for, in bytes.
// Of the conversation only runs of longEcho and more count: a summary may well
// consist of its sentences, but not of a piece of it. A text shorter than
// shortEcho, in runes, may be a quotation.
const (
	echoed    = 32
	longEcho  = 256
	shortEcho = 400
)

// documentMark is a mark of a [Document] at the beginning of a text. extraMark is
// what an echo may have or lack: such a mark anywhere, or the number of an item in
// a list.
var (
	documentMark = lazy.New(`^\[` + documentMarks)
	extraMark    = lazy.New(`(?m)^\s*\d{1,3}[.)] |\[` + documentMarks)
)

const documentMarks = `(user|assistant|tool_result|left out|earlier summary)( called [^\]]*|, error|, continued)?\]: `

// isEcho reports whether a text repeats the text to be summarised. Text kept
// from the summary so far is not an echo, so it is not compared.
func isEcho(text, shown string) bool {
	if documentMark.Get().MatchString(text) {
		return true
	}
	for _, mark := range []string{openDocument, closeDocument, openSummary, closeSummary} {
		if strings.HasPrefix(text, mark) {
			return true
		}
	}
	said := letters(text)
	if repeats(said, letters(promptTexts), 2*echoed)*5 > len(said) {
		return true
	}
	return utf8.RuneCountInString(text) >= shortEcho && repeats(said, letters(shown), longEcho)*4 > len(said)*3
}

// letters is a text without marks, and without anything but letters and digits, in
// lower case: marks and line breaks between them are easily put in or left out.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return r
	}, extraMark.Get().ReplaceAllString(strings.ToLower(s), ""))
}

// repeats is how many bytes of a text go on as another one does somewhere, for
// at least so many bytes.
func repeats(text, source string, least int) int {
	const most = 64 // places of one run that are tried
	known := make(map[string][]int, len(source)/echoed)
	for at := 0; at+echoed <= len(source); at += echoed {
		if run := source[at : at+echoed]; len(known[run]) < most {
			known[run] = append(known[run], at)
		}
	}
	found := 0
	for at := 0; at+echoed <= len(text); {
		n := 0
		for _, from := range known[text[at:at+echoed]] {
			n = max(n, together(text[at:], source[from:]))
		}
		if n < least {
			at++ // what begins here may go on longer elsewhere
			continue
		}
		found += n
		at += n
	}
	return found
}

// together is how many bytes two texts begin with.
func together(x, y string) int {
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	return n
}

// The numbers of isLoop, in bytes: the length of the runs, and what a text has at
// least.
const (
	looped    = 64
	shortLoop = 200
)

// isLoop reports whether a text goes round in circles.
func isLoop(text string) bool {
	said := strings.Join(strings.Fields(text), "")
	if len(said) < shortLoop {
		return false
	}
	runs := len(said) - looped + 1
	different := make(map[string]bool, runs)
	for at := range runs {
		different[said[at:at+looped]] = true
	}
	return len(different)*5 < runs
}
