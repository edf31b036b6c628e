package chat

import (
	"regexp"
	"strings"
	"sync/atomic"

	tea "charm.land/bubbletea/v2"
	"charm.land/glamour/v2"
	"charm.land/lipgloss/v2"

	"github.com/convolog/convolog/examples/convolog/internal/screen"
)

// long is the size from which a growing answer is printed up to the end of a block, in
// bytes: rendering all of it at each part would take ever longer.
const long = 4_000

// tail is a message: the end of the running answer.
type tail string

// A painter is the output of a screen. It renders Markdown, and prints finished texts above
// the input.
type painter struct {
	send  func(tea.Msg)
	text  string // of the answer, not printed
	width atomic.Int64
	light atomic.Bool // the background
}

// print leaves rendered lines above the input, in the colours that the terminal can show.
func (p *painter) print(text string) { p.send(tea.Println(lipgloss.Sprint(text))()) }

func (p *painter) lines(text string) {
	p.print(lipgloss.Wrap(screen.Printable(text, "\n\t"), int(p.width.Load()), " "))
}

func (p *painter) part(text string) {
	p.text += text
	if i := strings.LastIndex(p.text, "\n\n"); i > long && strings.Count(p.text[:i], "```")%2 == 0 {
		p.print(p.markdown(p.text[:i]))
		p.text = p.text[i+2:]
	}
	p.send(tail(end(p.text)))
}

// end returns the last 4 to 8 kB of a text for the screen. Code stays code.
func end(text string) string {
	if len(text) < 2*long {
		return text
	}
	cut := (len(text)/long - 1) * long // moves rarely, so that lines stay in place
	cut += strings.IndexAny(text[cut:], " \n") + 1
	before, text := text[:cut], text[cut:]
	if strings.Count(before, "```")%2 == 1 {
		fence, _, _ := strings.Cut(before[strings.LastIndex(before, "```"):], "\n")
		text = fence + "\n" + text
	}
	return text
}

func (p *painter) end() {
	p.send(tail(""))
	if strings.TrimSpace(p.text) != "" {
		p.print(p.markdown(p.text))
	}
	p.text = ""
}

// markdown renders a text for the width of the terminal. A text that cannot be rendered
// stays as it is. So does a text with deep lists and quotes: the rendering would take hours.
func (p *painter) markdown(text string) string {
	style := "dark"
	if p.light.Load() {
		style = "light"
	}
	text = screen.Printable(text, "\n\t")
	if nested(text, int(p.width.Load())) {
		return lipgloss.Wrap(text, int(p.width.Load()), " ")
	}
	r, err := glamour.NewTermRenderer(glamour.WithStandardStyle(style), glamour.WithWordWrap(max(10, int(p.width.Load())-4)))
	if err != nil {
		return text
	}
	if out, err := r.Render(text); err == nil {
		text = strings.Trim(out, "\n")
	}
	return text
}

// marks are the beginnings of lists and quotes at the beginning of a line.
var (
	marks = regexp.MustCompile(`^(?:\s*(?:>|[-*+]\s|\d+[.)]\s))+`)
	mark  = regexp.MustCompile(`[^\s\d]`)
)

// nested reports whether lists and quotes in a text may be deep for a width: many begin in
// one line, or after much space. A list needs two columns for each level.
func nested(text string, width int) bool {
	for line := range strings.Lines(text) {
		prefix := marks.FindString(line)
		if len(mark.FindAllString(prefix, -1)) > 3 || len(prefix)+3*strings.Count(prefix, "\t") > min(width/2, 40) {
			return true
		}
	}
	return false
}
