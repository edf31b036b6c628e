// Package title makes the titles of sessions.
package title

import (
	"strings"
	"unicode"

	"github.com/convolog/convolog/internal/unseen"
)

// runes is the length of the longest title in runes.
const runes = 60

// Of makes a title from the text of a user: the first line after blocks that programs
// insert, with white space folded, cut at 60 runes. Such a block is a closed tag with its
// content, also with a heading before it, a fence of code with its content, or a line in
// brackets. A text that consists of blocks gives "".
func Of(text string) string {
	for rest, ok := text, true; ok; rest, ok = afterBlock(text) {
		text = strings.TrimSpace(rest)
	}
	line, _, _ := strings.Cut(text, "\n")
	return Cut(strings.Join(strings.Fields(Clean(line)), " "))
}

// Cut cuts a title at 60 runes.
func Cut(text string) string {
	left := runes
	for i := range text {
		if left--; left < 0 {
			return text[:i] + "…"
		}
	}
	return text
}

// Clean returns the stored form of a title: valid UTF-8 without control characters and
// without characters that a screen does not show. Each white space becomes a space.
func Clean(text string) string {
	spaced := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
	return unseen.Replace(spaced, func(rune) string { return "" })
}

// afterBlock returns the text after a block at the beginning of a trimmed text.
func afterBlock(text string) (rest string, ok bool) {
	switch {
	case text == "":
		return "", false
	case text[0] == '<': // a long line may contain many tags
		return afterTag(text)
	}
	line, rest, _ := strings.Cut(text, "\n")
	line = strings.TrimSpace(line)
	switch {
	case line[0] == '#':
		return afterTag(strings.TrimSpace(rest))
	case line[0] == '[':
		return rest, strings.IndexByte(line, ']') == len(line)-1
	case strings.HasPrefix(line, "```"), strings.HasPrefix(line, "~~~"):
		fence := line[:len(line)-len(strings.TrimLeft(line, line[:1]))]
		if strings.Contains(line[len(fence):], fence) {
			return "", false // inline code
		}
		for after := rest; after != ""; {
			if line, after, _ = strings.Cut(after, "\n"); strings.HasPrefix(strings.TrimSpace(line), fence) {
				return after, true
			}
		}
		return rest, true // the fence never ends: its first line becomes the title
	}
	return "", false
}

// afterTag returns the text after a closed tag at the beginning of a text.
func afterTag(text string) (rest string, ok bool) {
	tag, rest, ok := strings.Cut(text, ">")
	if !ok || !strings.HasPrefix(tag, "<") || strings.HasSuffix(tag, "/") {
		return rest, ok && strings.HasPrefix(tag, "<")
	}
	name, _, _ := strings.Cut(strings.Fields(tag + " ")[0], "/")
	if len(name) < 2 || !unicode.IsLetter(rune(name[1])) {
		return "", false
	}
	for depth := 1; depth > 0; depth-- {
		inside, after, closed := strings.Cut(rest, "</"+name[1:]+">")
		if !closed {
			return "", false
		}
		depth += strings.Count(inside, name+">") + strings.Count(inside, name+" ")
		rest = after
	}
	return rest, true
}
