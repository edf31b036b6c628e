package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
)

// terminal is what everything is printed on: the answer, the tools, which run
// at the same time, and lines about what goes on besides.
type terminal struct {
	w io.Writer

	mu     sync.Mutex // guards w and inLine
	inLine bool       // whether the last line is not ended
}

// Write prints a part of the conversation.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p) > 0 {
		t.inLine = p[len(p)-1] != '\n'
	}
	return t.w.Write(p)
}

// say prints a line that is not the conversation: indented, and on a line of
// its own even if an answer is in the middle of one.
func (t *terminal) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLine()
	_, _ = fmt.Fprintf(t.w, "  "+format+"\n", args...)
}

// note says what somebody other than user and model did.
func (t *terminal) note(who, format string, args ...any) {
	t.say("%-9s %s", "["+who+"]", fmt.Sprintf(format, args...))
}

// end ends the line that an answer is in the middle of, if it is.
func (t *terminal) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLine()
}

// endLine is end for who holds the lock.
func (t *terminal) endLine() {
	if t.inLine {
		_, _ = io.WriteString(t.w, "\n")
	}
	t.inLine = false
}

// entered takes note that the user has ended a line.
func (t *terminal) entered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inLine = false
}

// clean takes out of a text what a terminal would obey: control characters
// other than line breaks and tabs.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

// cut shortens a text to n runes, on one line.
func cut(s string, n int) string {
	s = strings.Join(strings.Fields(clean(s)), " ")
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n]) + "..."
	}
	return s
}
