package chat

import (
	"fmt"
	"image/color"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"
)

// typist presses keys in an editor, and notes its turns.
type typist struct {
	*editor
	entered []string // texts
	shown   []string
	stopped int
}

func newTypist() *typist {
	y := &typist{editor: newEditor(&painter{})}
	y.start = func(shown, text string) (func(), tea.Cmd) {
		y.entered, y.shown = append(y.entered, text), append(y.shown, shown)
		return func() { y.stopped++ }, nil
	}
	y.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	return y
}

var keys = map[string]tea.Key{
	"Enter": {Code: tea.KeyEnter}, "AltEnter": {Code: tea.KeyEnter, Mod: tea.ModAlt}, "Up": {Code: tea.KeyUp}, "Down": {Code: tea.KeyDown},
	"Home": {Code: tea.KeyHome}, "Left": {Code: tea.KeyLeft}, "Right": {Code: tea.KeyRight},
	"Backspace": {Code: tea.KeyBackspace}, "Delete": {Code: tea.KeyDelete},
	"CtrlC": {Code: 'c', Mod: tea.ModCtrl}, "CtrlD": {Code: 'd', Mod: tea.ModCtrl},
}

// press presses named keys and types other words. It returns the last command.
func (y *typist) press(names ...string) (cmd tea.Cmd) {
	for _, name := range names {
		if key, ok := keys[name]; ok {
			_, cmd = y.Update(tea.KeyPressMsg(key))
			continue
		}
		for _, r := range name { // as terminals send a joined emoji
			_, cmd = y.Update(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
	return cmd
}

func quits(cmd tea.Cmd) bool {
	if cmd == nil {
		return false
	}
	_, ok := cmd().(tea.QuitMsg)
	return ok
}

// Keys move over whole characters and delete them, whatever their runes and widths.
func TestCharacters(t *testing.T) {
	const family, accent, flag = "👩‍👩‍👧", "e\u0301", "🇯🇵"
	for _, tt := range []struct{ keys, want string }{
		{"日本語 Home Right Right Backspace", "日語"},
		{"日本語 Left Left Delete", "日語"},
		{"a" + family + " Backspace", "a"},
		{"a" + family + " Left Delete", "a"},
		{"a" + family + "b Home Right Right Backspace", "ab"},
		{accent + accent + " Backspace", accent},
		{flag + flag + " Backspace", flag},
		{flag + flag + " Home Delete", flag},
		{family + " AltEnter " + family + " Left Backspace", family + family},
		{"Backspace Delete Left Right", ""},
	} {
		y := newTypist()
		y.press(strings.Fields(tt.keys)...)
		require.Equal(t, tt.want, y.in.Value(), tt.keys)
	}
}

// A long paste is one label in the input, and is sent whole, with line feeds.
func TestPaste(t *testing.T) {
	var text strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	y := newTypist()
	y.press("see")
	y.Update(tea.PasteMsg{Content: strings.ReplaceAll(text.String(), "\n", "\r")})
	require.Contains(t, y.in.Value(), "see[paste\u00a01:\u00a05001\u00a0lines")
	y.press("x", "Left", "Left", "Right", "y")
	y.Update(tea.PasteMsg{Content: "short\r\npaste"})
	y.press("Enter")
	require.Equal(t, []string{"see" + text.String() + "yshort\npastex"}, y.entered)
	require.Contains(t, y.shown[0], "lines,")

	y.Update(ended{})
	y.Update(tea.PasteMsg{Content: text.String()})
	y.Update(tea.PasteMsg{Content: strings.Repeat("long ", 1_000)})
	y.press("Backspace", "Home", "Delete", "Enter")
	require.Len(t, y.entered, 1, "both labels are gone")
	y.press("[paste", "1:", "Enter")
	require.Equal(t, "[paste1:", y.entered[1])
}

// Up and Down recall earlier texts, long ones as labels.
func TestRecall(t *testing.T) {
	y := newTypist()
	long := strings.Repeat("long ", 1_000)
	y.past = []string{"one", long}
	y.press("Up")
	require.Contains(t, y.in.Value(), "lines,")
	y.press("Up", "Up")
	require.Equal(t, "one", y.in.Value())
	y.press("Down", "Enter")
	require.Equal(t, []string{long}, y.entered)
	y.press("Up", "Down")
	require.Empty(t, y.in.Value())
	y.press("a", "AltEnter", "b", "Up", "c")
	require.Equal(t, "ac\nb", y.in.Value(), "in several lines the keys move")
}

// Ctrl-C stops a turn and forgets the queue, and clears at the prompt. Ctrl-D ends.
func TestStop(t *testing.T) {
	y := newTypist()
	require.False(t, quits(y.press("draft", "CtrlC")))
	require.Empty(t, y.in.Value())
	y.press("one", "Enter", "two", "Enter", "three", "Enter")
	require.Equal(t, []string{"one"}, y.entered)
	require.Contains(t, y.View().Content, "2 queued")
	y.Update(ended{})
	require.Equal(t, []string{"one", "two"}, y.entered)
	y.press("draft", "CtrlC")
	require.Equal(t, 1, y.stopped)
	require.Equal(t, "draft", y.in.Value())
	y.Update(ended{})
	require.Len(t, y.entered, 2)

	require.False(t, quits(y.press("Home", "CtrlD")))
	require.Equal(t, "raft", y.in.Value())
	require.True(t, quits(y.press("CtrlC", "CtrlD")))
	y.press("four", "Enter")
	require.False(t, quits(y.press("CtrlD")))
	require.Equal(t, 2, y.stopped)
	_, cmd := y.Update(ended{})
	require.True(t, quits(cmd))
	_, cmd = newTypist().Update(ended{quit: true})
	require.True(t, quits(cmd))
}

// The view fits the terminal: it shows the end of a long answer, and the real cursor is in
// the input.
func TestView(t *testing.T) {
	y := newTypist()
	y.press("one", "Enter", "日本")
	y.Update(tail(strings.Repeat("line\n\n", 100) + "last"))
	y.Update(rendered{answer: "of the last round", tail: "old"})
	require.NotContains(t, y.View().Content, "old")
	show := y.render()
	require.Nil(t, y.render(), "two at once")
	y.Update(show())
	y.Update(tea.BackgroundColorMsg{Color: color.White})
	require.True(t, y.paint.light.Load())
	v := y.View()
	rows := strings.Split(v.Content, "\n")
	require.LessOrEqual(t, len(rows), 24)
	require.Contains(t, v.Content, "last")
	require.Equal(t, len(rows)-1, v.Cursor.Y)
	require.Equal(t, len("> ")+4, v.Cursor.X)
	y.Update(tail(""))
	require.Nil(t, y.render())
	y.Update(rendered{answer: "line", tail: "late"})
	require.NotContains(t, y.View().Content, "late")
	y.Update(tail("more"))
	y.Update(y.spin.Tick())
	require.True(t, y.rendering)
}
