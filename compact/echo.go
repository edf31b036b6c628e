package compact

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/lazy"
)

// Of the conversation only runs of longEcho letters and more count, of the
// instructions those of longTask, in bytes: a summary may well consist of its
// sentences, but not of a piece of it. A text shorter than shortEcho, in runes,
// may be a quotation.
const (
	longTask  = 64
	longEcho  = 256
	shortEcho = 400
)

// firstMark is a mark of a [Document] or of the prompt at the beginning of a text.
// extraMark is what an echo may have or lack: a mark of a Document anywhere, or the
// number of an item in a list.
var (
	firstMark = lazy.New(`^(\[` + documentMarks + `|</?(conversation|summary_so_far)>)`)
	extraMark = lazy.New(`(?m)^\s*\d{1,3}[.)] |\[` + documentMarks)
)

const documentMarks = `(user|assistant|tool_result|left out|earlier summary)( called [^\]]*|, error|, continued)?\]: `

// isEcho reports whether a text repeats the text to be summarised. Text kept
// from the summary so far is not an echo, so it is not compared.
func isEcho(text, shown string) bool {
	if firstMark.Get().MatchString(text) {
		return true
	}
	said := letters(text)
	if repeats(said, letters(promptTexts), longTask)*5 > len(said) {
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
func repeats(text, source string, least int) (n int) {
	found := map[string]bool{} // whether the source has a run of the text
	for at := range len(text) - least + 1 {
		found[text[at:at+least]] = false
	}
	for at := range len(source) - least + 1 {
		if _, ok := found[source[at:at+least]]; ok {
			found[source[at:at+least]] = true
		}
	}
	end := 0
	for at := range len(text) - least + 1 {
		if found[text[at:at+least]] {
			n += at + least - max(at, end)
			end = at + least
		}
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
