// Package plain prints parts of conversations as plain lines.
package plain

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/convolog/convolog/internal/unseen"
	"github.com/convolog/convolog/transcript"
)

// Clean removes characters that control a terminal, change the direction of text or show
// nothing: a text of a model must do none of it.
func Clean(text string) string {
	return unseen.Replace(strings.ToValidUTF8(text, "\uFFFD"), func(c rune) string {
		if c == '\n' || c == '\t' {
			return string(c)
		}
		return ""
	})
}

// A Writer cleans texts. Each Write needs whole characters.
type Writer struct{ io.Writer }

func (w Writer) Write(text []byte) (int, error) {
	_, err := io.WriteString(w.Writer, Clean(string(text)))
	return len(text), err
}

// Message returns a line for each text, call and result of a message.
func Message(m transcript.Message) string {
	var sb strings.Builder
	for _, b := range m.Content {
		switch b := b.(type) {
		case transcript.TextBlock:
			fmt.Fprintf(&sb, "  [%s] %s\n", m.Role, Line(b.Text, 200))
		case transcript.ToolCallBlock:
			fmt.Fprintf(&sb, "  [%s:tool_use] %s(%s)\n", m.Role, b.Name, Line(string(b.Input), 100))
		case transcript.ToolResultBlock:
			fmt.Fprintf(&sb, "  [%s:tool_result] %s\n", m.Role, Line(b.Text(), 90))
		}
	}
	return sb.String()
}

// Usage shows how full a context window is, as a line and a bar of 30 cells. A cell is
// filled if it is fully used.
func Usage(used, window int) string {
	const cells = 30
	percent := 100 * float64(used) / float64(max(window, 1))
	filled := int(cells * min(percent, 100) / 100)
	return fmt.Sprintf("  Context usage: ~%s / %s tokens\n  [%s%s] %.1f%%\n", Thousands(used), Thousands(window),
		strings.Repeat("#", filled), strings.Repeat("-", cells-filled), percent)
}

// Thousands returns a number in groups of three digits.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Line returns at most n characters of a text, in one line.
func Line(text string, n int) string { return Cut(strings.Join(strings.Fields(text), " "), n) }

// Cut returns at most n characters of a text.
func Cut(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n]) + "..."
	}
	return text
}

// Turns returns the number of turns in the argument of a command, or 1 without one.
func Turns(arg string) (int, error) {
	n, err := strconv.Atoi(cmp.Or(arg, "1"))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a number of turns", arg)
	}
	return n, nil
}
