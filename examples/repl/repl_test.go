package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/examples/internal/script"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/guard/httpclient"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// strict answers by the script, and refuses the same requests as a provider.
func strict(r *repl) *guardtest.Model {
	m := &guardtest.Model{Window: r.window, Answer: func(req guardtest.Request) guardtest.Answer {
		text, calls := script.Reply(req.Messages)
		return guardtest.Answer{Text: text, Calls: calls}
	}}
	client := httpclient.Messages("http://strict.invalid", "")
	client.HTTP, client.Model = &http.Client{Transport: m}, "strict"
	r.model = client
	return m
}

// drive runs the program on lines of input in dir, which is the current folder, and
// returns its output. The model never receives an invalid request.
func drive(t *testing.T, window int, lines ...string) string {
	t.Helper()
	r := &repl{dir: "store", key: "main:cli:user", window: window}
	m := strict(r)
	var out bytes.Buffer
	require.NoError(t, r.run(t.Context(), strings.NewReader(strings.Join(lines, "\n")), &out))
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

// The program runs twice on one store: the second run shows the first.
func TestRestart(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("a.txt", []byte("alpha"), 0o600))
	out := drive(t, 180_000, "hello there", "read a.txt, and tell the time", "/history")
	contains(t, out, `You said "hello there".`, "Let me look.", `[tool] read_file({"path":"a.txt"})`, "This is what I found:\nalpha",
		"[user] hello there", "[user:tool_result] alpha", "[assistant] This is what I found: alpha")
	require.NotContains(t, out, "Restored")
	require.NotContains(t, out, "Pending")
	require.NotContains(t, out, "Error")
	_, history, _ := strings.Cut(out, "  [user]")

	out = drive(t, 180_000, "/history", "what do you remember")
	contains(t, out, "Restored: 2 previous turns", `Earlier messages of yours that I remember: 2; the first was "hello there"`)
	require.Contains(t, out, strings.TrimSuffix(history, "\n\n"))
}

func TestCommands(t *testing.T) {
	t.Chdir(t.TempDir())
	out := drive(t, 180_000,
		"one", "/nonsense", "/switchx", "/context", "/new second", "two", "/sessions",
		"/delete second", "/switch one", "/rewind", "/rewind 5", "/rewind x", "/history", "/continue", "/switch main:", "/switch 0", "/switch missing",
		"/delete sec", "/delete second", "/list", "/help", "", "   ", "/quit", "never read")
	contains(t, out,
		"unknown command /nonsense, not sent", "unknown command /switchx", "Context usage: ~", " / 180,000 tokens", "[------------------------------] 0.",
		"2 session(s):", "second", "1 turns, 2 msgs", " *", "one", "Error: this is the current session",
		"Restored: 1 previous turns", "Rewound 1 turn(s).", "Error: ", "fewer turns", "Error: ", `"x"`, "Error: nothing is pending",
		"Session: main:cli:user", "Error: ", "fits 2 sessions", "Error: ", "missing", "give at least 4 letters", "1 session(s):", "1 session(s):", "/new [label]")
	require.NotContains(t, out, "never read")
}

// The next start names the unfinished work of a run that failed or was killed, and can
// continue it.
func TestPending(t *testing.T) {
	t.Chdir(t.TempDir())
	drive(t, 180_000, "hello")
	r := &repl{dir: "store", key: "main:cli:user", window: 180_000}
	strict(r).Answer = guardtest.Always(guardtest.Unauthorized()) // the user's text stays
	var out bytes.Buffer
	require.NoError(t, r.run(t.Context(), strings.NewReader("are you there"), &out))
	contains(t, out.String(), "Restored: 1 previous turns", "Error: ", "401")
	contains(t, drive(t, 180_000, "/continue"), "Restored: 2 previous turns", "[user] are you there", "Pending: /continue", `You said "are you there".`)
}

// An interrupt cancels the running answer, not the program, and the text so far is kept.
func TestInterrupt(t *testing.T) {
	t.Chdir(t.TempDir())
	r := &repl{dir: "store", key: "main:cli:user", window: 180_000}
	events := 0
	strict(r).Pace = func(ctx context.Context) error {
		if events++; events == 5 { // in the middle of the first answer
			self, err := os.FindProcess(os.Getpid())
			require.NoError(t, err)
			require.NoError(t, self.Signal(os.Interrupt))
			<-ctx.Done()
		}
		return ctx.Err()
	}
	var out bytes.Buffer
	require.NoError(t, r.run(t.Context(), strings.NewReader("hello\nagain\n/history"), &out))
	contains(t, out.String(), "Stopped. The answer so far is kept.", `You said "again".`, "[user] hello", "[assistant] You", "[user] again", `[assistant] You said "again"`)
}

// A long conversation in a small window never stops: results are clipped, the history is
// compacted after a turn, and a restart shows the same.
func TestSmallWindow(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("big.txt", []byte(strings.Repeat("a line of a big file\n", 3000)), 0o600))
	out := drive(t, 6000, "remember the number 41", "read big.txt", "read big.txt again", "read big.txt", "what now", "/history")
	contains(t, out, "[tool] read_file", "[guard] clip: prompt ~", "This is what I found:", "[compact] ", " messages -> summary: history ~",
		`You said "what now"`, "[Previous conversation summary]")
	_, history, _ := strings.Cut(out, "  [user] [Prev")
	require.Contains(t, drive(t, 6000, "/history"), strings.TrimSuffix(history, "\n\n"))
}

func TestCompactCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	out := drive(t, 180_000, "hello", "/compact", "/compact x", "one", "two "+strings.Repeat("walrus ", 500), "three", "/compact", "/compact", "what did I say", "/history")
	contains(t, out, "Nothing to compact (~", "tokens): all of the history is to be kept.", "Error: ", `"x"`, "[compact] ", " messages -> summary: history ~",
		"Nothing to compact (~", `You said "what did I say"`, "[Previous conversation summary]")
}

// A message that alone is too long cannot be sent, but can be taken back.
func TestMessageTooLong(t *testing.T) {
	t.Chdir(t.TempDir())
	contains(t, drive(t, 6000, "hello", strings.Repeat("word ", 10_000), "/rewind", "again"),
		"Error: ", "Rewound 1 turn(s).", `You said "again". Earlier messages of yours that I remember: 1; the first was "hello".`)
}

func TestFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, r := range []*repl{{dir: "store"}, {dir: filepath.Join("a", "\x00"), key: "main:cli:user"}} {
		require.Error(t, r.run(t.Context(), strings.NewReader(""), &bytes.Buffer{}))
	}
}

// A cancelled answer of the script ends with the shown part.
func TestScriptIsAModel(t *testing.T) {
	var m turn.Model = script.Model{}
	ctx, cancel := context.WithCancel(t.Context())
	answer, err := m.Stream(ctx, transcript.Request{Messages: []transcript.Message{transcript.UserText("hello")}}, func(d wire.Delta) {
		if d.Text == "said " {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, transcript.StopAborted, answer.StopReason)
	require.Equal(t, "You said ", answer.Message.Text())
}
