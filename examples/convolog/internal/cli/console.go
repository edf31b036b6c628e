package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/convolog/convolog/examples/convolog/internal/screen"
)

// A console is the input and output of a command.
type console struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	terminal bool // out is a terminal
	watched  bool // err is a terminal

	progressing bool  // a line of progress on err is not ended
	failed      error // the first error of a write to out
}

// columns is the width of a terminal of unknown width.
const columns = 80

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// printable returns a text without control characters for a terminal.
func printable(text string) string { return screen.Printable(text, "\n\t") }

func (con *console) print(text string) {
	if _, err := io.WriteString(con.out, text); err != nil && con.failed == nil {
		con.failed = err
	}
}

// width returns the number of columns of the terminal, or 0 if out is not a terminal.
func (con *console) width() int {
	if !con.terminal {
		return 0
	}
	if n, err := strconv.Atoi(con.getenv("COLUMNS")); err == nil && n >= 20 {
		return n
	}
	return columns
}

// cut returns a text on one line, shortened to a number of columns; 0 means no limit.
func cut(text string, width int) string {
	text = screen.Printable(strings.Join(strings.Fields(text), " "), "")
	if width <= 0 || len(text) <= width {
		return text
	}
	used := 0
	for i, r := range text {
		if used += wide(r); used > width {
			for ; i > 0 && used > width-1; used -= wide(r) {
				var size int
				r, size = utf8.DecodeLastRuneInString(text[:i])
				i -= size
			}
			return text[:i] + "…"
		}
	}
	return text
}

// wide returns the number of columns of a letter.
func wide(r rune) int {
	if r >= 0x1100 && (r <= 0x115f || r >= 0x2e80 && r <= 0xd7a3 || r >= 0xf900 && r <= 0xfaff || r >= 0xfe30 && r <= 0xff60 || r >= 0x1f300 && r <= 0x3fffd) {
		return 2
	}
	return 1
}

// Colours of the output.
const (
	bold  = "1"
	faint = "2"
	red   = "31"
	green = "32"
)

// paint makes a text printable, and colours it on a terminal unless NO_COLOR is set.
func (con *console) paint(colour, text string) string {
	text = printable(text)
	if !con.terminal || con.getenv("NO_COLOR") != "" || con.getenv("TERM") == "dumb" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// progress shows the progress of long work on a terminal.
func (con *console) progress(format string, args ...any) {
	if con.watched {
		con.progressing = true
		_, _ = fmt.Fprintf(con.err, "\r\x1b[K%s", cut(fmt.Sprintf(format, args...), columns-1))
	}
}

func (con *console) endProgress() {
	if con.progressing {
		con.progressing = false
		_, _ = io.WriteString(con.err, "\r\x1b[K")
	}
}

// value prints a value as JSON if --json is set, and otherwise calls text to print it.
func (c *call) value(v any, text func()) error {
	c.endProgress()
	if !c.json {
		text()
		return c.failed
	}
	var sb strings.Builder
	encoder := json.NewEncoder(&sb)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	lines := sb.String()
	if c.terminal { // a file gets the lines unchanged, with valid checksums
		lines = screen.JSON(lines)
	}
	c.print(lines)
	return cmp.Or(err, c.failed)
}

func (c *call) say(format string, args ...any) {
	c.print(printable(fmt.Sprintf(format, args...)) + "\n")
}

func count[N int | int64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
