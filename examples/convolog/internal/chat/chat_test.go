package chat

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/examples/internal/script"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/guard/httpclient"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// talk runs a conversation without an editor on lines of input, and returns its output.
// The model never receives an invalid request.
func talk(t *testing.T, rule guardtest.Rule, lines ...string) string {
	t.Helper()
	if rule == nil {
		rule = func(r guardtest.Request) guardtest.Answer {
			text, calls := script.Reply(r.Messages)
			return guardtest.Answer{Text: text, Calls: calls}
		}
	}
	m := &guardtest.Model{Answer: rule}
	client := httpclient.Messages("http://strict.invalid", "")
	client.HTTP, client.Attempts = &http.Client{Transport: m}, 1
	store, err := session.Open("store", nil)
	require.NoError(t, err)
	s, err := store.Load(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	require.NoError(t, err)
	c := &Chat{Store: store, Session: s, Model: client, Guard: &guard.Guard{Model: "claude-strict", Window: 180_000}}
	var out bytes.Buffer
	require.NoError(t, c.Plain(t.Context(), strings.NewReader(strings.Join(lines, "\n")), &out))
	require.NoError(t, store.Close())
	for _, req := range m.Invalid() {
		t.Errorf("an invalid request: %s\n%s", req.Refused, req.Body)
	}
	return out.String()
}

// contains checks that the texts are in out, in this order.
func contains(t *testing.T, out string, texts ...string) {
	t.Helper()
	rest := out
	for _, text := range texts {
		_, after, ok := strings.Cut(rest, text)
		require.True(t, ok, "no %q (in this order) in\n%s", text, out)
		rest = after
	}
}

func TestCommands(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("a.txt", []byte("al\x1b[31mpha"), 0o600))
	out := talk(t, nil, "hello", "read a.txt", "/new second", "two", "/sessions", "/switch hello", "/nonsense", "/context", "/compact x", "/compact",
		"/rewind", "/continue", "/export", "/export a.md", "/export a.md", "/export a.doc", "/switch missing", "/help", "/quit", "never")
	contains(t, out, "Type a message", `You said "hello"`, `[tool] read_file({"path":"a.txt"})`, "al[31mpha", "Session: ", "two",
		"*", "second", "1 turns", "hello", "2 turns", "Restored: 2 previous turns", "[assistant] This is", "unknown command /nonsense", "Context usage: ~", "0.",
		"Error: ", `"x"`, "not smaller", "Rewound 1", "Error: nothing is pending", "Exported: ", ".md", "Exported: a.md", "Error: ", "exists", "Error: want a file", "Error: ", "missing", "/rewind [n]")
	require.NotContains(t, out, "never")
	require.NotContains(t, out, "\x1b")
	text, err := os.ReadFile("a.md")
	require.NoError(t, err)
	require.Contains(t, string(text), "hello")
}

// A cut answer and one that failed can be continued after a restart.
func TestContinue(t *testing.T) {
	t.Chdir(t.TempDir())
	contains(t, talk(t, guardtest.Always(guardtest.Unauthorized()), "hello"), "Error: ", "401")
	contains(t, talk(t, nil, "/continue"), "Pending: /continue", `You said "hello"`)
	talk(t, guardtest.Always(guardtest.EndAfter(5, guardtest.Say("an answer that ends too early"))), "again")
	contains(t, talk(t, nil, "/continue"), "Restored: 2 previous turns", "Pending: /continue", "I am a script")
}

// stopped is a model whose answer is stopped in the middle.
type stopped struct{ stop func() }

func (m stopped) Stream(ctx context.Context, req transcript.Request, show func(wire.Delta)) (*transcript.Response, error) {
	return script.Model{}.Stream(ctx, req, func(d wire.Delta) {
		show(d)
		m.stop()
	})
}

// A stopped answer keeps its beginning.
func TestStopped(t *testing.T) {
	store := session.OpenDriver(memdriver.New(nil), nil)
	s, err := store.Load(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	c := &Chat{Store: store, Session: s, Model: stopped{stop}, Guard: &guard.Guard{}}
	var out bytes.Buffer
	c.prepare(lines{&out})
	require.True(t, c.enter(ctx, "hello"))
	contains(t, out.String(), "You \n", "Stopped. The answer so far is kept.")
	h, err := s.History(t.Context())
	require.NoError(t, err)
	require.Equal(t, "You ", h.Messages[1].Text())
	require.True(t, c.enter(t.Context(), "/continue"))
}

// The model can look up entries that its history no longer shows.
func TestRecallTools(t *testing.T) {
	t.Chdir(t.TempDir())
	contains(t, talk(t, nil, "the code is walrus"+strings.Repeat(" and so on", 500), "fine", "/compact"), "messages -> summary")
	search := guardtest.Start(guardtest.Echo, guardtest.Call(guardtest.Tool("recall_search", `{"query":"walrus"}`)))
	contains(t, talk(t, search, "which code", "/export a.md"), "[tool] recall_search", "Exported")
	text, err := os.ReadFile("a.md")
	require.NoError(t, err)
	contains(t, string(text), "recall_search", "</details>", "the code is walrus", "</details>")
}

// A growing answer is rendered, and its finished blocks are printed.
func TestPainter(t *testing.T) {
	var tails, printed []string
	p := &painter{send: func(msg tea.Msg) {
		if text, ok := msg.(tail); ok {
			tails = append(tails, string(text))
		} else {
			printed = append(printed, fmt.Sprint(msg))
		}
	}}
	p.width.Store(40)
	p.part("**bold** \x1b[2J \u202e 👩‍👩‍👧")
	shown := p.markdown(tails[0])
	require.Contains(t, shown, "bold")
	require.NotContains(t, shown, "**")
	require.NotContains(t, shown, "\x1b[2J")
	require.NotContains(t, shown, "\u202e")
	require.Contains(t, shown, "👩‍👩‍👧")
	p.part("\n\n" + strings.Repeat("word ", 1_000) + "\n\nlast")
	require.Len(t, printed, 1)
	require.Equal(t, "last", p.text)
	p.end()
	require.Empty(t, p.text)
	require.Equal(t, "", tails[len(tails)-1])
	require.Len(t, printed, 2)
}

// The screen renders the end of a long answer alone. Code stays code.
func TestEnd(t *testing.T) {
	require.Equal(t, "", end(""))
	short := strings.Repeat("x ", long-1)
	require.Equal(t, short, end(short))
	code := "```go\n" + strings.Repeat("x := 1\n", 100_000)
	require.Less(t, len(end(code)), 2*long+10)
	require.True(t, strings.HasPrefix(end(code), "```go\nx := 1\n"))
	require.True(t, strings.HasSuffix(code, strings.TrimPrefix(end(code), "```go\n")))
	require.True(t, utf8.ValidString(end(strings.Repeat("日本 ", long))))
}

// Lists and quotes that are deeper than the terminal is wide stay as they are: rendering them
// takes hours.
func TestDeepNesting(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("> ", 1_000), strings.Repeat(">", 1_000), strings.Repeat("- ", 1_000) + "x", strings.Repeat("1. > * ", 500) + "x",
		strings.Repeat("x\n\t", 3) + strings.Repeat("\t", 200) + "- x",
	} {
		for _, width := range []int64{5, 34, 80, 200} {
			p := &painter{}
			p.width.Store(width)
			require.Equal(t, strings.Join(strings.Fields(text), ""), strings.Join(strings.Fields(p.markdown(text)), ""))
		}
	}
	for _, text := range []string{"> - 1. **x**", "- a\n  - b\n    - **x**", "```\n1 2 3 4 5 6\n                  return\n```\n**x**"} {
		p := &painter{}
		p.width.Store(80)
		require.NotContains(t, p.markdown(text), "**", text)
	}
}
