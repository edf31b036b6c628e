package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"
)

// terminal prints everything: the answer, the tools, which run at the same
// time, and notes. It strips control characters from all texts.
//
// The zero values suit a file or a pipe: no line breaks, colour or spinner.
type terminal struct {
	w     io.Writer
	width func() int // in columns
	color bool
	moves bool // a line can be erased

	mu     sync.Mutex // guards w and all below
	answer *markdown  // not nil inside an answer
	inLine bool       // whether the last line is not ended
	spun   bool       // whether the last line is the spinner
	last   time.Time  // of the last output
}

// write prints bytes as they are. The caller holds the lock.
func (t *terminal) write(s string) {
	if s == "" {
		return
	}
	if t.spun {
		t.spun = false
		s = eraseLine + s
	}
	t.inLine = !strings.HasSuffix(s, "\n")
	t.last = time.Now()
	_, _ = io.WriteString(t.w, s)
}

func (t *terminal) columns() int {
	if t.width == nil {
		return 0
	}
	return t.width()
}

func (t *terminal) print(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.write(wrap(clean(fmt.Sprintf(format, args...)), t.columns(), ""))
}

func (t *terminal) stream(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.answer == nil {
		t.answer = &markdown{flow: flow{width: t.columns()}, color: t.color}
	}
	t.write(t.answer.feed(clean(text)))
}

// say prints a line outside of the conversation: indented, and on its own line
// even in the middle of an answer's line.
func (t *terminal) say(format string, args ...any) { t.sayIn("", format, args...) }

// note prints an action by neither user nor model.
func (t *terminal) note(who, format string, args ...any) {
	t.sayIn(dim, "%-9s %s", "["+who+"]", fmt.Sprintf(format, args...))
}

func (t *terminal) sayIn(style, format string, args ...any) {
	text := "  " + clean(fmt.Sprintf(format, args...))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLine()
	text = wrap(text, t.columns(), "    ")
	if t.color {
		text = paint(text, style)
	}
	t.write(text + "\n")
}

func (t *terminal) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLine()
}

// endLine is end; the caller holds the lock.
func (t *terminal) endLine() {
	if t.answer != nil {
		t.write(t.answer.flush())
		t.answer = nil
	}
	if t.inLine {
		t.write("\n")
	}
}

// entered records that the user ended a line.
func (t *terminal) entered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inLine = false
}

// clean removes control characters other than line breaks and tabs.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

func cut(s string, n int) string {
	s = strings.Join(strings.Fields(clean(s)), " ")
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n]) + "..."
	}
	return s
}
