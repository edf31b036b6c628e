package main

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// markdown shows Markdown on a terminal while it comes in. Prose is broken
// between words; lines of code and tables stay whole. With colour the marks of
// headings, emphasis and code become styles; without colour they stay. Without
// colour and width the text stays as it is.
//
// A mark counts only if its end is in the same line: "2 * 3" and "*args" stay.
type markdown struct {
	flow
	color bool

	pending string // not shown yet
	inside  bool   // a line of prose whose beginning has been shown
	style   string // of that line
	before  rune   // the last of that line that has been shown
	fence   string // ends the block of code; empty outside of one
	inList  bool   // indented lines belong to a list
}

// feed takes more of the text and returns the part that can be shown now.
func (m *markdown) feed(s string) string {
	if m.width <= 0 && !m.color {
		return s
	}
	m.pending += s
	m.show(false)
	return m.take()
}

// flush returns the text that feed held back. A new text may begin.
func (m *markdown) flush() string {
	m.show(true)
	m.endWord()
	m.inside, m.fence, m.inList = false, "", false
	return m.take()
}

func (m *markdown) show(final bool) {
	for m.pending != "" {
		step := m.startLine
		if m.inside {
			step = m.prose
		}
		if !step(final) {
			return
		}
	}
}

func (m *markdown) consume(n int) string {
	s := m.pending[:n]
	m.pending = m.pending[n:]
	return s
}

// marks are the characters that begin lines other than prose.
const marks = " \t#`~->*+|.)0123456789"

// startLine shows the beginning of a line of prose, or a whole line of another
// kind. It returns false if it needs more text to tell which.
func (m *markdown) startLine(final bool) bool {
	line, _, ended := strings.Cut(m.pending, "\n")
	ended = ended || final
	text := strings.TrimLeft(line, " \t")
	if !ended && (m.fence != "" || strings.Trim(text, marks) == "" && len(text) < 12) {
		return false
	}
	indent := len(line) - len(text)
	marker := listMarker(text)
	switch {
	case m.fence != "" || strings.HasPrefix(text, "```") || strings.HasPrefix(text, "~~~"):
		return ended && m.code(line, text)
	case strings.HasPrefix(text, "|"), indent >= 4 && marker == 0 && !m.inList:
		return ended && m.whole(line, "")
	}
	m.inside, m.style, m.before = true, "", ' '
	m.inList = marker > 0 || m.inList && (indent > 0 || text == "")
	m.text(m.consume(indent), "")
	switch hashes := len(text) - len(strings.TrimLeft(text, "#")); {
	case marker > 0:
		m.text(m.consume(marker), m.styled(cyan))
		m.indent(indent + marker)
	case hashes > 0 && hashes <= 6 && strings.HasPrefix(text[hashes:], " ") && m.color:
		m.consume(hashes + 1)
		m.style = bold
	case strings.HasPrefix(text, "> "):
		m.text(m.consume(2), m.styled(dim))
		m.hang = strings.Repeat(" ", indent) + "> "
	default:
		m.indent(indent)
	}
	return true
}

// indent sets the beginning of lines that continue this one.
func (m *markdown) indent(n int) {
	if n <= m.width/2 {
		m.hang = strings.Repeat(" ", n)
	}
}

func (m *markdown) styled(style string) string {
	if m.color {
		return style
	}
	return ""
}

func (m *markdown) code(line, text string) bool {
	style := m.styled(cyan)
	switch {
	case m.fence == "":
		m.fence, style = text[:len(text)-len(strings.TrimLeft(text, text[:1]))], m.styled(dim)
	case strings.HasPrefix(text, m.fence) && strings.Trim(text, m.fence[:1]+" ") == "":
		m.fence, style = "", m.styled(dim)
	}
	return m.whole(line, style)
}

func (m *markdown) whole(line, style string) bool {
	m.endWord()
	m.out.WriteString(paint(line, style))
	m.col = len(line)
	m.consume(len(line))
	if m.pending != "" {
		m.consume(1)
		m.newline()
	}
	return true
}

func listMarker(text string) int {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	rest := text[digits:]
	if len(rest) < 2 || rest[1] != ' ' {
		return 0
	}
	if digits == 0 && strings.Contains("-*+", rest[:1]) || digits > 0 && strings.Contains(".)", rest[:1]) {
		return digits + 2
	}
	return 0
}

// longestSpan is how many bytes to wait for the end of emphasis.
const longestSpan = 1000

func (m *markdown) prose(final bool) bool {
	line, _, ended := strings.Cut(m.pending, "\n")
	ended = ended || final
	if line == "" {
		m.consume(1)
		m.newline()
		m.inside = false
		return true
	}
	length, inner, style := span(line, m.before)
	switch {
	case inner > 0:
		text := m.consume(length)
		if m.color {
			text = text[inner : length-inner]
		}
		m.text(text, m.style+m.styled(style))
		m.before = 'x'
		return true
	case length > 0 && !ended && len(line) < longestSpan:
		return false
	}
	n := max(length, 1)
	if more := strings.IndexAny(line[n:], "*`"); more >= 0 {
		n += more
	} else {
		n = len(line)
	}
	m.before, _ = utf8.DecodeLastRuneInString(line[:n])
	m.text(m.consume(n), m.style)
	return true
}

// span finds emphasis or code at the beginning of a line: its length, the
// length of its mark and its style. Without an end in the line, inner is 0 and
// length the mark's; without a mark both are 0.
func span(line string, before rune) (length, inner int, style string) {
	if line[0] != '*' && line[0] != '`' {
		return 0, 0, ""
	}
	mark := line[:len(line)-len(strings.TrimLeft(line, line[:1]))]
	rest := line[len(mark):]
	switch {
	case mark[0] == '`':
		style = cyan
	case mark == "**":
		style = bold
	case mark == "*":
		style = italic
	default:
		return 0, 0, ""
	}
	first, _ := utf8.DecodeRuneInString(rest)
	if mark[0] == '*' && (unicode.IsLetter(before) || unicode.IsDigit(before) || unicode.IsSpace(first)) {
		return 0, 0, ""
	}
	for from := 0; ; {
		i := strings.Index(rest[from:], mark)
		if i < 0 {
			return len(mark), 0, ""
		}
		end := from + i
		run := len(rest[end:]) - len(strings.TrimLeft(rest[end:], mark[:1]))
		if run == len(mark) && end > 0 && (mark[0] == '`' || rest[end-1] != ' ') {
			return len(mark) + end + len(mark), len(mark), style
		}
		from = end + run
	}
}
