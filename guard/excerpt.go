package guard

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/internal/quote"
	"github.com/convolog/convolog/transcript"
)

// A longText is a text to be shortened.
type longText struct {
	text   []rune
	note   string // on the omitted text
	errors []errorLine
}

// An errorLine is a line that mentions errors, and its range of runes.
type errorLine struct {
	from, to int
	text     string // as it is quoted
}

// shorten cuts the middle out of the text of a result, so that the size is at most
// limit, or close to it. It reports whether the result became smaller.
func shorten(r transcript.ToolResultBlock, whole string, limit int, size func(transcript.Block) int) (text string, ok bool) {
	was := size(r)
	if was <= limit {
		return "", false
	}
	l := newLongText(r.Text())
	if n := len(mediaOf(r)); n > 0 {
		l.note = fmt.Sprintf(", and %d images or documents", n) + l.note
	}
	l.note += "; " + whole + " ...]"
	keep, now := len(l.text), was
	for range 40 { // approach the limit: estimates are not linear, and cuts fall on line breaks
		keep = max(min(keep*limit/max(now, 1), keep-keep/16-1), 0)
		text = l.excerpt(keep)
		if now = size(r.WithContent(transcript.TextBlock{Text: text})); now <= limit || keep == 0 {
			break
		}
	}
	return text, now < was
}

func newLongText(text string) *longText {
	const most = 200 // runes quoted from a line
	l := &longText{text: []rune(text)}
	if strings.IndexAny(strings.TrimSpace(text), "{[") == 0 && json.Valid([]byte(text)) {
		l.note = ", so this is no longer valid JSON"
	}
	at := 0
	for line := range strings.Lines(text) {
		from := at
		at += utf8.RuneCountInString(line)
		if line = strings.TrimRight(line, "\r\n"); speaksOfErrors(line) {
			e := errorLine{from, from + utf8.RuneCountInString(line), line}
			if e.to-from > most {
				e.text = string(l.text[from:from+most]) + " [...]"
			}
			l.errors = append(l.errors, e)
		}
	}
	return l
}

// excerpt keeps about n runes of a text: two thirds at the beginning and the rest at
// the end, cut at nearby line breaks. If omitted lines mention errors, they get an
// eighth of n.
func (l *longText) excerpt(n int) string {
	head, tail := ends(l.text, n)
	errors := l.errorLines(len(head), len(l.text)-len(tail), n/8)
	if len(errors) > 0 {
		head, tail = ends(l.text, n-n/8)
		errors = l.errorLines(len(head), len(l.text)-len(tail), n/8)
	}
	parts := []string{
		quote.Brackets(string(head)),
		fmt.Sprintf("[... %d of %d characters left out%s", len(l.text)-len(head)-len(tail), len(l.text), l.note),
	}
	if len(errors) > 0 {
		parts = append(parts, "[lines that speak of errors in what is left out:]")
		for _, e := range errors {
			parts = append(parts, quote.Brackets(e.text))
		}
		parts = append(parts, "[end of these lines]")
	}
	parts = append(parts, quote.Brackets(string(tail)))
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "\n")
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
	if i := slices.Index(tail[:len(tail)/5], '\n'); i >= 0 {
		return head, tail[i+1:]
	}
	for len(tail) > 0 && combines(tail[0]) { // inside a line
		tail = tail[1:]
	}
	return head, tail
}

// combines reports whether a rune modifies the one before it: a mark, a joiner or a
// skin tone.
func combines(r rune) bool {
	return r == '\u200d' || r >= '\U0001F3FB' && r <= '\U0001F3FF' || unicode.In(r, unicode.Mn, unicode.Me)
}

var (
	errorWords = lazy.New(`\b(?:errors?|panic|panicked|fatal|fail(?:ed|ure|s)?|traceback|exception|segfault|assert(?:ion)?|undefined|denied|not found)\b|\bexit(?:ed)?(?: with)?(?: code| status)? [1-9]`)
	errorTypes = lazy.New(`\w(?:Error|Exception)\b`)
)

func speaksOfErrors(line string) bool {
	return errorWords.Find(strings.ToLower(line)) != nil || errorTypes.Find(line) != nil
}

// errorLines returns the first and the last lines between two places that mention
// errors, in order. Together they take at most room runes.
func (l *longText) errorLines(from, to, room int) (found []errorLine) {
	if room < 40 {
		return nil
	}
	in := slices.DeleteFunc(slices.Clone(l.errors), func(e errorLine) bool { return e.from < from || e.to > to })
	for len(in) > 0 {
		// Take lines from both ends in turn: the first holds the cause, the last the
		// outcome.
		e, rest := in[0], in[1:]
		if len(found)%2 == 1 {
			e, rest = in[len(in)-1], in[:len(in)-1]
		}
		if room -= utf8.RuneCountInString(e.text) + 1; room < 0 {
			break
		}
		found, in = append(found, e), rest
	}
	slices.SortFunc(found, func(a, b errorLine) int { return a.from - b.from })
	return found
}
