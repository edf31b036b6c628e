package main

import (
	"strings"
	"unicode"
)

// flow breaks text between words, at the width of a terminal. A word that is wider
// than a line, such as a URL, stays whole: the terminal breaks it where necessary,
// and a copy of it is whole.
type flow struct {
	width int    // in columns; 0 breaks nothing
	hang  string // begins continued lines

	out   strings.Builder
	col   int // columns used of the last line of out
	word  strings.Builder
	wide  int    // columns of word
	gap   int    // spaces before word
	style string // at the end of word
}

// text adds a text without line breaks, in the style of an SGR sequence. It holds back the
// last word, which the next call may continue.
func (f *flow) text(s, style string) {
	for i, part := range strings.Split(strings.ReplaceAll(s, "\t", "    "), " ") {
		if i > 0 {
			f.endWord()
			f.gap++
		}
		if part != "" {
			f.paint(style)
			f.word.WriteString(part)
			f.wide += columns(part)
		}
	}
}

func (f *flow) paint(style string) {
	if style == f.style {
		return
	}
	if f.style != "" {
		f.word.WriteString(plain)
	}
	f.word.WriteString(style)
	f.style = style
}

func (f *flow) endWord() {
	if f.word.Len() == 0 {
		return
	}
	f.paint("")
	if f.width > 0 && f.col > columns(f.hang) && f.col+f.gap+f.wide > f.width {
		f.out.WriteString("\n" + f.hang)
		f.col, f.gap = columns(f.hang), 0
	}
	f.out.WriteString(strings.Repeat(" ", f.gap) + f.word.String())
	f.col += f.gap + f.wide
	if f.width > 0 && f.col > f.width {
		f.col = (f.col-1)%f.width + 1
	}
	f.word.Reset()
	f.wide, f.gap = 0, 0
}

func (f *flow) newline() {
	f.endWord()
	f.out.WriteByte('\n')
	f.col, f.gap, f.hang = 0, 0, ""
}

func (f *flow) take() string {
	s := f.out.String()
	f.out.Reset()
	return s
}

// wrap breaks lines between words; continued lines begin with hang.
func wrap(s string, width int, hang string) string {
	if width <= 0 {
		return s
	}
	f := flow{width: width}
	for i, line := range strings.Split(s, "\n") {
		if i > 0 {
			f.newline()
		}
		f.hang = hang
		f.text(line, "")
	}
	f.endWord()
	return f.take()
}

const (
	bold   = "\x1b[1m"
	dim    = "\x1b[2m"
	italic = "\x1b[3m"
	cyan   = "\x1b[36m"
	plain  = "\x1b[0m"
)

func paint(s, style string) string {
	if style == "" {
		return s
	}
	return style + s + plain
}

// doubleWidth are the ranges of characters that take two columns.
var doubleWidth = [][2]rune{
	{0x1100, 0x115f},
	{0x2e80, 0xa4cf},
	{0xac00, 0xd7a3},
	{0xf900, 0xfaff},
	{0xfe30, 0xfe6f},
	{0xff00, 0xff60},
	{0xffe0, 0xffe6},
	{0x1f300, 0x1faff},
	{0x20000, 0x3fffd},
}

func columns(s string) (n int) {
	for _, r := range s {
		if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
			continue
		}
		n++
		for _, wide := range doubleWidth {
			if wide[0] <= r && r <= wide[1] {
				n++
			}
		}
	}
	return n
}
