package compact

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/lazy"
)

// echoed is the length of the runs of letters that are compared, in bytes, and
// shortEcho what a text must have for that, in runes: a short one may well be a
// quotation.
const (
	echoed    = 32
	shortEcho = 400
)

var documentMark = lazy.New(`^\[(user|assistant|tool_result|left out|earlier summary)( called [^\]]*|, error|, continued)?\]: `)

// refuseRepeated says why a text is no summary of what was shown: it has that in
// it, or itself.
func refuseRepeated(text, shown string) error {
	switch {
	case isEcho(text, shown):
		return ErrEcho
	case isLoop(text):
		return fmt.Errorf("%w: %q", ErrLoop, oneLine(text, 80))
	}
	return nil
}

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
	if repeats(said, letters(promptTexts))*5 > len(said) {
		return true
	}
	return utf8.RuneCountInString(text) >= shortEcho && repeats(said, letters(shown))*4 > len(said)*3
}

// letters is a text without anything else, in lower case: numbers, marks and line
// breaks between them are easily put in.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
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

// The numbers of isLoop: the length of the runs, and the runes that a text has
// at least.
const (
	looped    = 16
	shortLoop = 200
)

// isLoop reports whether a text goes round in circles.
func isLoop(text string) bool {
	said := []rune(strings.Join(strings.Fields(text), ""))
	if len(said) < shortLoop {
		return false
	}
	different := map[string]bool{}
	for at := 0; at+looped <= len(said); at++ {
		different[string(said[at:at+looped])] = true
	}
	return len(different)*5 < len(said)
}
