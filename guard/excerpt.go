package guard

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/lazy"
)

// noteRoom is about how many runes the notes of an excerpt have.
const noteRoom = 250

// A long text, of which a part is kept.
type longResult struct {
	text   []rune
	media  int    // images and documents beside it
	whole  string // where all of it is
	json   bool
	errors []span // lines that speak of errors
}

// span is a part of a text, in runes.
type span struct{ from, to int }

func newLongResult(text string, media int, whole string) *longResult {
	l := &longResult{text: []rune(text), media: media, whole: whole}
	start := strings.TrimLeft(text, " \t\r\n")
	l.json = start != "" && (start[0] == '{' || start[0] == '[') && json.Valid([]byte(text))
	at := 0
	for line := range strings.Lines(text) {
		n := utf8.RuneCountInString(line)
		if speaksOfErrors(line) {
			l.errors = append(l.errors, span{at, at + utf8.RuneCountInString(strings.TrimRight(line, "\r\n"))})
		}
		at += n
	}
	return l
}

// excerpt keeps about n runes of a text: two thirds at the beginning, the rest
// at the end, at line breaks where there are some near, and of these an eighth
// for lines of the middle that speak of errors.
func (l *longResult) excerpt(n int) string {
	head, tail := ends(l.text, n)
	errors := l.errorLines(len(head), len(l.text)-len(tail), n/8)
	if len(errors) > 0 {
		head, tail = ends(l.text, n-n/8)
		errors = l.errorLines(len(head), len(l.text)-len(tail), n/8)
	}
	var parts []string
	if len(head) > 0 {
		parts = append(parts, string(head))
	}
	note := fmt.Sprintf("[... %d of %d characters left out", len(l.text)-len(head)-len(tail), len(l.text))
	if l.media > 0 {
		note += fmt.Sprintf(", and %d images or documents", l.media)
	}
	if l.json {
		note += ", so this is no longer valid JSON"
	}
	parts = append(parts, note+"; "+l.whole+" ...]")
	if len(errors) > 0 {
		parts = append(parts, "[lines that speak of errors in what is left out:]")
		parts = append(parts, errors...)
		parts = append(parts, "[end of these lines]")
	}
	if len(tail) > 0 {
		parts = append(parts, string(tail))
	}
	return strings.Join(parts, "\n")
}

// ends returns the beginning and the end of a text, together about n runes.
func ends(text []rune, n int) (head, tail []rune) {
	n = min(max(n, 0), len(text))
	head, tail = text[:n-n/3], text[len(text)-n/3:]
	for i := len(head) - 1; i > len(head)*4/5; i-- {
		if head[i] == '\n' {
			head = head[:i]
			break
		}
	}
	for i := range len(tail) / 5 {
		if tail[i] == '\n' {
			return head, tail[i+1:]
		}
	}
	// Inside a line: what belongs to the rune before it is not begun with.
	for from := len(text) - len(tail); from < len(text) && joins(text, from); from++ {
		tail = tail[1:]
	}
	return head, tail
}

// joins reports whether the rune at i is a part of the character before it: a
// mark, a joiner, a tone of skin, the second half of a flag.
func joins(text []rune, i int) bool {
	const joiner = '\u200d'
	regional := func(r rune) bool { return r >= '\U0001F1E6' && r <= '\U0001F1FF' }
	r := text[i]
	if !regional(r) {
		return r == joiner || r >= '\U0001F3FB' && r <= '\U0001F3FF' || unicode.In(r, unicode.Mn, unicode.Me)
	}
	before := 0
	for i > before && regional(text[i-before-1]) {
		before++
	}
	return before%2 == 1
}

var errorWords = lazy.New(`(?i)\b(?:errors?|panic|panicked|fatal|fail(?:ed|ure|s)?|traceback|exception|segfault|assert(?:ion)?|undefined|denied|not found)\b|\bexit(?:ed)?(?: with)?(?: code| status)? [1-9]|\w(?:Error|Exception)\b`)

// errorStems are in every line that errorWords matches, and quick to look for.
var errorStems = []string{"err", "panic", "fatal", "fail", "trace", "except", "segf", "assert", "undef", "denied", "not f", "exit"}

func speaksOfErrors(line string) bool {
	low := strings.ToLower(line)
	return slices.ContainsFunc(errorStems, func(s string) bool { return strings.Contains(low, s) }) && errorWords.Get().MatchString(line)
}

// errorLines returns the lines between two places that speak of errors and have
// at most room runes together: the first and the last ones, in order. Long lines
// are cut.
func (l *longResult) errorLines(from, to, room int) []string {
	const most = 200 // runes of a line
	if room < 40 {
		return nil
	}
	var found []span
	take := func(s span) bool {
		room -= min(s.to-s.from, most) + 1
		if room >= 0 {
			found = append(found, s)
		}
		return room >= 0
	}
	lo, _ := slices.BinarySearchFunc(l.errors, from, func(s span, at int) int { return s.from - at })
	hi, _ := slices.BinarySearchFunc(l.errors, to, func(s span, at int) int { return s.to - at })
	// In turns from both sides: the first says why, the last how it ended.
	for in := l.errors[lo:max(lo, hi)]; len(in) > 0 && take(in[0]); {
		if in = in[1:]; len(in) == 0 || !take(in[len(in)-1]) {
			break
		}
		in = in[:len(in)-1]
	}
	slices.SortFunc(found, func(a, b span) int { return a.from - b.from })
	lines := make([]string, len(found))
	for i, s := range found {
		lines[i] = string(l.text[s.from:min(s.to, s.from+most)])
		if s.to-s.from > most {
			lines[i] += " [...]"
		}
	}
	return lines
}
