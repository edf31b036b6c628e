package chat

import (
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
	p.send(tail(p.text))
}

func (p *painter) end() {
	p.send(tail(""))
	if strings.TrimSpace(p.text) != "" {
		p.print(p.markdown(p.text))
	}
	p.text = ""
}

// markdown renders a text for the width of the terminal. A text that cannot be rendered
// stays as it is.
func (p *painter) markdown(text string) string {
	style := "dark"
	if p.light.Load() {
		style = "light"
	}
	text = screen.Printable(text, "\n\t")
	r, err := glamour.NewTermRenderer(glamour.WithStandardStyle(style), glamour.WithWordWrap(max(10, int(p.width.Load())-4)))
	if err != nil {
		return text
	}
	if out, err := r.Render(text); err == nil {
		text = strings.Trim(out, "\n")
	}
	return text
}
