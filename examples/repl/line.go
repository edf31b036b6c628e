package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// lines is the source of the user's input: one text for each read.
type lines interface {
	// read prints the prompt. It returns io.EOF, perhaps with a last text, at the
	// end of the input.
	read(prompt string) (string, error)
}

// piped reads lines from a file, a pipe or a dumb terminal.
type piped struct {
	in  *bufio.Reader
	out *terminal
}

func (p *piped) read(prompt string) (string, error) {
	p.out.print("%s", prompt)
	return p.in.ReadString('\n')
}

// console edits lines on a terminal, from open to close. The terminal is raw only
// while a line is read. Between reads Ctrl-C is an interrupt, and input waits,
// unseen.
type console struct {
	in, out *os.File
	color   bool
	before  *term.State // of the terminal, to be restored
	quiet   func()      // sets the mode between reads
	editor  *term.Terminal
	keys    *keys
	shelf   shelf
	past    []string // the lines read, oldest first
	stopped bool     // nothing was read since a Ctrl-C at the prompt

	mu      sync.Mutex // guards reading, closed and the modes of the terminal
	reading bool
	closed  bool
}

// openConsole returns nil if in and out are not a terminal that lines can be
// edited on.
func openConsole(in io.Reader, out io.Writer) (*console, error) {
	i, _ := in.(*os.File)
	o, _ := out.(*os.File)
	if i == nil || o == nil || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(i.Fd())) || !term.IsTerminal(int(o.Fd())) {
		return nil, nil
	}
	before, err := term.GetState(int(i.Fd()))
	if err != nil {
		return nil, err
	}
	c := &console{in: i, out: o, before: before, quiet: quieter(i, before), color: os.Getenv("NO_COLOR") == ""}
	c.keys = &keys{ctx: context.Background(), tty: i, shelf: &c.shelf, suspend: c.suspend, chunks: make(chan chunk, 1)}
	c.editor = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{c.keys, o}, "")
	c.editor.History = (*recall)(c)
	c.editor.AutoCompleteCallback = c.key
	c.enter(false)
	return c, nil
}

func (c *console) width() int {
	width, _, err := term.GetSize(int(c.out.Fd()))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}

// enter sets the modes for reading a line or for the time between. It ignores
// errors: reading reports a closed terminal.
func (c *console) enter(reading bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.reading = reading
	if reading {
		_, _ = term.MakeRaw(int(c.in.Fd()))
	} else {
		c.quiet()
	}
	c.editor.SetBracketedPasteMode(true)
}

// leave restores the terminal, for another program or for good.
func (c *console) leave(closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = c.closed || closed
	c.editor.SetBracketedPasteMode(false)
	_ = term.Restore(int(c.in.Fd()), c.before)
}

func (c *console) close() { c.leave(true) }

// resume restores the modes after a resize or another program's use.
func (c *console) resume() {
	c.mu.Lock()
	reading := c.reading
	c.mu.Unlock()
	c.enter(reading)
	if reading {
		_ = c.editor.SetSize(c.width(), 24)
		_, _ = c.editor.Write(nil) // draws the line again
	}
}

// suspend is for Ctrl-Z at the prompt. It returns when the program continues.
func (c *console) suspend() {
	c.leave(false)
	suspend()
	c.resume()
}

// read returns one text. A line that ends with a backslash continues.
func (c *console) read(prompt string) (string, error) {
	prompt = clean(prompt)
	if c.color {
		prompt = paint(strings.TrimSuffix(prompt, " "), bold) + " "
	}
	_ = c.editor.SetSize(c.width(), 24)
	c.editor.SetPrompt(prompt)
	defer c.enter(false)
	c.enter(true)
	var text strings.Builder
	for {
		line, err := c.editor.ReadLine()
		if err != nil {
			return "", err
		}
		before, more := strings.CutSuffix(line, `\`)
		text.WriteString(c.shelf.expand(before))
		if more {
			text.WriteString("\n")
			c.editor.SetPrompt("... ")
			continue
		}
		c.remember(strings.TrimSpace(text.String()))
		c.stopped = false
		return text.String(), nil
	}
}

func (c *console) remember(text string) {
	if text != "" && (len(c.past) == 0 || c.past[len(c.past)-1] != text) {
		c.past = append(c.past, text)
	}
}

// key handles the keys that the editor does not handle.
func (c *console) key(line string, pos int, key rune) (string, int, bool) {
	switch {
	case key == keyErase:
		n := c.shelf.lastLength(line[:pos])
		return line[:pos-n] + line[pos:], pos - n, true
	case key == keyStop:
		c.keys.closed = line == "" && c.stopped
		if line == "" && !c.stopped {
			_, _ = c.editor.Write([]byte("  Ctrl-C again, or Ctrl-D, leaves\n"))
		}
		c.stopped = true
		return "", 0, true
	case key >= ' ' && utf8.RuneCountInString(line) >= fullLine:
		if text := c.shelf.expand(line[:pos]); text != "" {
			start := c.shelf.keep(text, "typed") + string(key)
			return start + line[pos:], len(start), true
		}
	}
	return "", 0, false
}

// recall is the past of a console, in the form for the editor.
type recall console

func (h *recall) Add(string) {} // the whole text is remembered, not the last line

func (h *recall) Len() int { return len(h.past) }

func (h *recall) At(i int) string {
	return h.shelf.put(h.past[len(h.past)-1-i], "recalled")
}
