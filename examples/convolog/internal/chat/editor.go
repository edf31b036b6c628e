package chat

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"charm.land/bubbles/v2/spinner"
	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/rivo/uniseg"

	"github.com/convolog/convolog/examples/internal/plain"
)

// Screen runs the conversation on a terminal until the user ends it or ctx is done.
func (c *Chat) Screen(ctx context.Context, in io.Reader, out io.Writer) error {
	fmt.Fprint(out, "\x1b[?25h\x1b[?2004l") // a killed program leaves the cursor hidden
	ctx, cancel := context.WithCancel(ctx)
	c.prepare(lines{plain.Writer{Writer: out}}) // bubbletea overwrites lines above its first frame
	c.greet(ctx)
	paint := &painter{}
	c.prepare(paint)
	var running sync.Mutex // held by a turn or a command
	m := newEditor(paint)
	m.past = c.past(ctx)
	m.start = func(shown, text string) (stop func(), cmd tea.Cmd) {
		ctx, stop := context.WithCancel(ctx)
		return stop, func() tea.Msg {
			running.Lock()
			defer running.Unlock()
			defer stop()
			paint.lines("> " + strings.ReplaceAll(shown, "\n", "\n  "))
			return ended{quit: !c.enter(ctx, text)}
		}
	}
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out))
	paint.send = p.Send
	_, err := p.Run()
	cancel()
	running.Lock() // the received part of an answer is stored
	return err
}

// past returns the texts of the user. Without a readable history there is nothing to recall.
func (c *Chat) past(ctx context.Context) (texts []string) {
	h, err := c.Session.History(ctx)
	if err != nil {
		return nil
	}
	for i, m := range h.Messages {
		if h.StartsTurn(i) && m.Text() != "" {
			texts = append(texts, m.Text())
		}
	}
	return texts
}

// ended is a message: the running turn or command has ended.
type ended struct{ quit bool }

// An editor is the model of bubbletea: the input below the end of the running answer.
// Finished texts are printed above it and belong to the terminal.
type editor struct {
	paint *painter
	// start returns a command that carries out a text, and a function that cancels it.
	start func(shown, text string) (stop func(), cmd tea.Cmd)

	in        textarea.Model
	spin      spinner.Model
	height    int
	answer    string   // the end of the running one
	tail      string   // answer, rendered after a step of spin
	stop      func()   // of the running turn; nil at the prompt
	queue     []paste  // texts that were entered during it
	leaving   bool     // after it
	rendering bool     // a command of render runs
	pastes    []paste  // of the input
	past      []string // entered texts, oldest first
	at        int      // the recalled one, counted from the newest; 0 for the input
}

// A paste is a text, and a label that the screen shows in its place.
type paste struct{ label, text string }

func newEditor(paint *painter) *editor {
	in := textarea.New()
	in.Prompt, in.ShowLineNumbers, in.CharLimit = "> ", false, 0
	in.DynamicHeight, in.MaxHeight, in.MaxContentHeight = true, 10, 100_000
	in.SetVirtualCursor(false)
	in.KeyMap.InsertNewline.SetKeys("alt+enter", "shift+enter", "ctrl+j")
	in.KeyMap.Paste.SetEnabled(false) // the terminal pastes
	in.Focus()
	m := &editor{paint: paint, in: in, spin: spinner.New(spinner.WithSpinner(spinner.MiniDot))}
	m.style(true)
	return m
}

// style gives the input the colours for a background.
func (m *editor) style(dark bool) {
	styles := textarea.DefaultStyles(dark)
	styles.Focused.CursorLine = lipgloss.NewStyle()
	m.in.SetStyles(styles)
}

// Init asks for the colour of the background.
func (m *editor) Init() tea.Cmd { return tea.RequestBackgroundColor }

// Update handles keys, pastes, and news of the answer.
func (m *editor) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.height = msg.Height
		m.in.SetWidth(msg.Width)
		m.in.MaxHeight = max(1, msg.Height/3)
		m.paint.width.Store(int64(msg.Width))
	case tea.BackgroundColorMsg:
		m.paint.light.Store(!msg.IsDark())
		m.style(msg.IsDark())
	case tail:
		if m.answer = string(msg); msg == "" {
			m.tail = ""
		}
	case spinner.TickMsg:
		if m.stop != nil {
			m.spin, cmd = m.spin.Update(msg)
			cmd = tea.Batch(cmd, m.render())
		}
	case rendered:
		if m.rendering = false; m.answer != "" && strings.HasPrefix(m.answer, msg.answer) {
			m.tail = msg.tail
		}
	case ended:
		return m, m.next(msg.quit)
	case tea.PasteMsg:
		m.in.InsertString(m.fold(msg.Content))
	case tea.KeyPressMsg:
		return m, m.press(msg)
	}
	return m, cmd
}

// rendered is a message: the tail of an answer, which may be over.
type rendered struct{ answer, tail string }

// render returns a command: some answers take seconds, and keys come first.
func (m *editor) render() tea.Cmd {
	if m.rendering || m.answer == "" {
		return nil
	}
	m.rendering = true
	answer := m.answer
	return func() tea.Msg { return rendered{answer, m.paint.markdown(answer)} }
}

// press handles a key.
func (m *editor) press(key tea.KeyPressMsg) (cmd tea.Cmd) {
	switch name := key.String(); {
	case name == "ctrl+c" && m.stop != nil:
		m.queue = nil
		m.stop()
	case name == "ctrl+c":
		m.clear()
	case name == "ctrl+d" && m.in.Value() == "":
		if m.stop == nil {
			return tea.Quit
		}
		m.leaving = true
		m.stop()
	case name == "enter":
		return m.submit()
	case name == "up" && m.in.LineCount() == 1:
		m.recall(m.at + 1)
	case name == "down" && m.in.LineCount() == 1:
		m.recall(m.at - 1)
	default:
		for range m.runes(name) {
			m.in, cmd = m.in.Update(key)
		}
	}
	return cmd
}

func (m *editor) clear() {
	m.in.Reset()
	m.pastes, m.at = nil, 0
}

// recall shows the nth newest text of the past. It folds a long one, like a paste.
func (m *editor) recall(n int) {
	if n < 0 || n > len(m.past) {
		return
	}
	m.clear()
	if m.at = n; n > 0 {
		m.in.InsertString(m.fold(m.past[len(m.past)-n]))
	}
}

// submit starts a turn with the input, or queues it during another one.
func (m *editor) submit() tea.Cmd {
	shown := strings.TrimSpace(m.in.Value())
	text := shown
	for _, p := range m.pastes {
		text = strings.ReplaceAll(text, p.label, p.text)
	}
	m.clear()
	if shown == "" {
		return nil
	}
	m.past = append(m.past, text)
	if m.stop != nil {
		m.queue = append(m.queue, paste{shown, text})
		return nil
	}
	return m.run(paste{shown, text})
}

func (m *editor) run(p paste) (cmd tea.Cmd) {
	m.stop, cmd = m.start(p.label, p.text)
	return tea.Batch(cmd, m.spin.Tick)
}

// next follows the end of a turn.
func (m *editor) next(quit bool) tea.Cmd {
	m.stop = nil
	if quit || m.leaving {
		return tea.Quit
	}
	if len(m.queue) == 0 {
		return nil
	}
	first := m.queue[0]
	m.queue = m.queue[1:]
	return m.run(first)
}

// fold returns a label for a long text, which submit replaces. Short texts stay as they
// are. Pastes come with the line ends of a keyboard.
func (m *editor) fold(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	if len(text) < 2_000 && strings.Count(text, "\n") < 10 {
		return text
	}
	label := fmt.Sprintf("[paste %d: %d lines, %s bytes]", len(m.pastes)+1, strings.Count(text, "\n")+1, plain.Thousands(len(text)))
	label = strings.ReplaceAll(label, " ", "\u00a0") // no keyboard types it
	m.pastes = append(m.pastes, paste{label, text})
	return label
}

// runes returns how often the input needs a key: it moves and deletes by runes, but a
// character may have several. A label counts as one character.
func (m *editor) runes(key string) int {
	line := []rune(strings.Split(m.in.Value(), "\n")[m.in.Line()])
	before, after := string(line[:m.in.Column()]), string(line[m.in.Column():])
	unit := ""
	switch key {
	case "backspace", "ctrl+h", "left", "ctrl+b":
		for g := uniseg.NewGraphemes(before); g.Next(); {
			unit = g.Str()
		}
		for _, p := range m.pastes {
			if strings.HasSuffix(before, p.label) {
				unit = p.label
			}
		}
	case "delete", "ctrl+d", "right", "ctrl+f":
		unit, _, _, _ = uniseg.FirstGraphemeClusterInString(after, -1)
		for _, p := range m.pastes {
			if strings.HasPrefix(after, p.label) {
				unit = p.label
			}
		}
	}
	return max(1, utf8.RuneCountInString(unit))
}

// View shows the end of the answer, the state and the input, with the real cursor: input
// methods and screen readers need it.
func (m *editor) View() tea.View {
	var above []string
	if m.tail != "" {
		above = strings.Split(m.tail, "\n")
		above = above[max(0, len(above)-max(1, m.height-m.in.Height()-2)):]
	}
	if m.stop != nil {
		state := m.spin.View() + " Ctrl-C stops"
		if len(m.queue) > 0 {
			state += fmt.Sprintf("; %d queued", len(m.queue))
		}
		above = append(above, state)
	}
	v := tea.NewView(strings.Join(append(above, m.in.View()), "\n"))
	if v.Cursor = m.in.Cursor(); v.Cursor != nil {
		v.Cursor.Y += len(above)
	}
	return v
}
