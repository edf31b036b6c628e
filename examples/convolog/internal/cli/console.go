package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"

	"github.com/convolog/convolog/examples/convolog/internal/screen"
)

// A console is the input and output of a command.
type console struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	columns  int  // the width of the terminal, or 0
	terminal bool // out is a terminal
	watched  bool // err is a terminal
	asked    bool // in and err are terminals

	progressing bool  // a line of progress on err is not ended
	failed      error // the first error of a write to out
}

// columns is the width of a terminal of unknown width.
const columns = 80

// printable returns a text without control characters for a terminal.
func printable(text string) string { return screen.Printable(text, "\n\t") }

func (con *console) print(text string) {
	if _, err := io.WriteString(con.out, text); err != nil && con.failed == nil {
		con.failed = err
	}
}

// Write prints help.
func (con *console) Write(text []byte) (int, error) {
	con.print(string(text))
	return len(text), con.failed
}

// width returns the number of columns of the terminal, or 0 if out is not a terminal.
func (con *console) width() int {
	if !con.terminal {
		return 0
	}
	n, _ := strconv.Atoi(con.getenv("COLUMNS"))
	return cmp.Or(n, con.columns, columns)
}

// cut returns a text on one line, shortened to a number of columns; 0 means no limit.
func cut(text string, width int) string {
	text = screen.Printable(strings.Join(strings.Fields(text), " "), "")
	if width <= 0 || len(text) <= width {
		return text
	}
	used, kept := 0, 0
	for g := uniseg.NewGraphemes(text); g.Next(); {
		if used += g.Width(); used > width {
			return text[:kept] + "…"
		}
		if used < width {
			_, kept = g.Positions()
		}
	}
	return text
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
	if colour == "" || !con.terminal || con.getenv("NO_COLOR") != "" || con.getenv("TERM") == "dumb" {
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
	c.print(screen.JSON(sb.String())) // export writes lines with valid checksums
	return cmp.Or(err, c.failed)
}

// confirm asks a question on a terminal, after show. Without a terminal it needs --yes.
func (c *call) confirm(ctx context.Context, question string, show func()) error {
	switch {
	case c.yes:
		return nil
	case !c.asked || c.json:
		return wrong("this deletes for good, and there is no terminal for a question: --yes confirms it")
	}
	show()
	_, _ = io.WriteString(c.err, printable(question+" [y/N] "))
	answer, err := bufio.NewReader(c.input(ctx)).ReadString('\n')
	if err != nil {
		_, _ = io.WriteString(c.err, "\n")
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was deleted")
	}
	return nil
}

// input returns the standard input. Reads fail when ctx ends: a read of a terminal continues
// after Ctrl-C.
func (con *console) input(ctx context.Context) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, con.in)
		_ = w.CloseWithError(err) // never fails
	}()
	context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
	return r
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
