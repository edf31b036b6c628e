package main

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
)

// testConfig is the scripted model without waits on a store below dir.
func testConfig(t *testing.T, dir string) config {
	t.Helper()
	work := filepath.Join(dir, "work")
	require.NoError(t, os.MkdirAll(work, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(work, "a.txt"), []byte("alpha"), 0o600))
	c := config{
		dir: filepath.Join(dir, "store"), work: work, key: "main:cli:user", model: "scripted", window: 180_000,
		now: func() time.Time { return time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC) },
	}
	c.offline = scripted(c.window)
	c.offline.Pace = nil
	return c
}

// drive runs the program on lines of input and returns its output.
func drive(t *testing.T, dir string, lines ...string) string {
	t.Helper()
	return driveConfig(t, testConfig(t, dir), lines...)
}

// driveConfig is drive with flags. The model must never receive an invalid
// request.
func driveConfig(t *testing.T, c config, lines ...string) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), c, strings.NewReader(strings.Join(lines, "\n")), &out, nil))
	for _, r := range c.offline.Invalid() {
		t.Errorf("an invalid request: %s\n%s", r.Refused, r.Body)
	}
	return out.String()
}

// contains checks that the texts are in out, in this order.
func contains(t *testing.T, out string, texts ...string) {
	t.Helper()
	rest := out
	for _, text := range texts {
		_, after, ok := strings.Cut(rest, text)
		if !ok {
			t.Fatalf("no %q (in this order) in\n%s", text, out)
		}
		rest = after
	}
}

// The program runs twice on one store: the second run shows the first.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	out := drive(t, dir, "hello there", "read a.txt and tell the time", "/history")
	contains(t, out, `You said "hello there".`, "Let me look.", "This is what I found:", "[user:tool_result] alpha", "[user:tool_result] 2026-11-20T08:00:00Z", "Bye.")
	require.NotContains(t, out, "Restored")
	require.NotContains(t, out, "Pending")
	require.NotContains(t, out, "Error")
	first := out[strings.Index(out, "  [user]"):strings.Index(out, "\nBye.")]

	out = drive(t, dir, "/history", "what do you remember")
	contains(t, out, "Restored: 2 previous turns", "Earlier messages of yours that I remember: 2; the first was \"hello there\"")
	require.Contains(t, out, strings.TrimSpace(strings.TrimSuffix(first, "[main:cli:user] > ")))
}

func TestCommands(t *testing.T) {
	dir := t.TempDir()
	out := drive(t, dir,
		"one", "/nonsense", "/switchx", "/context", "/title My Project", "/new second", "two", "/sessions",
		"/delete second", "/switch my p", "/rewind", "/rewind 5", "/rewind x", "/history", "/continue", "/switch main:", "/switch 0", "/switch nobody",
		"/delete second", "/list", "/help", "", "   ", "/quit", "never read")
	contains(t, out,
		"Unknown command: /nonsense (not sent", "Unknown command: /switchx",
		"Context usage: ~", " / 180,000 tokens", "[------------------------------] 0.", "Messages:   2\n", "Plan:       nothing to compact",
		"Title: My Project", "New session: ", "(second)",
		"2 session(s):", "second", "1 turns, 2 msgs", " *", "My Project",
		"Cannot delete the current session. Switch first.",
		"Switched to: ", "(1 turns)",
		"Rewound 1 turn(s); 0 left", "Error: ", "Usage: /rewind", "(empty session)", "Nothing is pending",
		"Switched to: ", "Ambiguous: \"0\" fits", "Session not found: nobody",
		"Deleted: ", "1 session(s):", "/new [label]", "Bye.")
	require.NotContains(t, out, "never read", "it went on after /quit")
}

// A session can be named by its number in the last list, after key and title.
func TestNumberForkExport(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "out.md")
	out := drive(t, dir,
		"one", "/new second", "two", "/switch 2", "/sessions", "/switch 2", "/history", "/switch 3", "/switch 1", "/history",
		"/title 2", "/switch 1", "/switch 2", "/fork copy", "three", "/sessions", "/switch second", "/export "+file, "/export "+file, "/export x.doc")
	contains(t, out,
		"Session not found: 2", "2 session(s):", "    1  ", "second", "    2  ", "one", "Switched to: ", "[user] one", "Session not found: 3", "Switched to: ", "[user] two",
		"Title: 2", "Switched to: ", "Switched to: ", "Forked: ", "(1 turns)", "that I remember: 1;", "3 session(s):", "copy", "2 turns", "Session not found: second",
		"Exported: ", "Error: ", "exists", "Usage: /export")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	contains(t, string(text), "two", "three")
}

// A number refers to the list, even if an ID begins with it.
func TestNumberBeforePrefix(t *testing.T) {
	dir := t.TempDir()
	store, err := session.Open(filepath.Join(dir, "store"), nil)
	require.NoError(t, err)
	_, err = store.Create(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "other"}, &session.CreateOptions{ID: "1old", Title: "other"})
	require.NoError(t, err)
	require.NoError(t, store.Close())
	out := drive(t, dir, "/new mine", "/sessions", "/delete 1", "/delete 1old")
	contains(t, out, "  1  0", "Cannot delete the current session", "Deleted: 1old")
}

// The list of commands leaves room for two prompts on a screen of 24 by 80.
func TestHelpFits(t *testing.T) {
	var out bytes.Buffer
	r := &repl{out: &terminal{w: &out, width: func() int { return 80 }}, console: &console{}}
	require.NoError(t, help(t.Context(), r, ""))
	require.LessOrEqual(t, strings.Count(out.String(), "\n"), 22)
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "    ") {
			t.Errorf("the line before this one is too wide: %q", line)
		}
	}
}

// The scripted model is never requested from a service.
func TestModelOfService(t *testing.T) {
	c := testConfig(t, t.TempDir())
	c.model, c.url = "", "http://127.0.0.1:1"
	require.ErrorContains(t, run(t.Context(), c, strings.NewReader(""), io.Discard, nil), "-model")
	c.url = ""
	require.NoError(t, run(t.Context(), c, strings.NewReader(""), io.Discard, nil))
}

// Sessions are put away and brought back, and idle ones are found by their age.
func TestArchive(t *testing.T) {
	out := drive(t, t.TempDir(),
		"one about walruses", "/archive main:", "/new second", "/archive one", "/list", "/search walruses", "/switch one",
		"/restore one", "/archive", "/expire", "/expire x", "/expire 30 now", "/expire 30", "/expire 30 apply", "/delete one", "/list")
	contains(t, out,
		"Cannot archive the current session. Switch first.", "New session: ", "Archived: ", "2 session(s):", "(archived)", "walruses",
		"Error: ", "restore", "Restored: ", "Usage: /archive", "Usage: /expire", "Usage: /expire", "Usage: /expire",
		"archive 0 of 2 sessions, 0 bytes", "Archived: 0 session(s)", "Deleted: ", "1 session(s):")
}

// A word is erased wherever it is, and the conversation continues.
func TestErase(t *testing.T) {
	dir := t.TempDir()
	out := drive(t, dir, "my secret is xyzzy", "/erase", "/erase walrus", "/erase xyzzy", "/erase", "/search xyzzy", "and now?")
	contains(t, out, "Usage: /erase", "Nothing contains these words.", "In 1 session(s): 1 assistant, 1 user", "Erased: 1 assistant, 1 user", "Out of reach: ", `You said "and now?"`)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			data, readErr := os.ReadFile(path)
			if err = readErr; strings.Contains(string(data), "xyzzy") {
				t.Errorf("%s has the word", path)
			}
		}
		return err
	})
	require.NoError(t, err)
}

// The next start names the unfinished work of a killed program and can continue
// it.
func TestPending(t *testing.T) {
	dir := t.TempDir()
	drive(t, dir, "hello")
	// The model refuses: the user's text stays.
	refuses := httptest.NewServer(http.NotFoundHandler())
	defer refuses.Close()
	c := testConfig(t, dir)
	c.url = refuses.URL
	out := driveConfig(t, c, "are you there")
	contains(t, out, "Restored: 1 previous turns", "Error: ")
	got := drive(t, dir, "/continue")
	contains(t, got, "Restored: 2 previous turns", `Pending: "are you there" has no answer yet`, "/continue", `You said "are you there".`)
}

// An interrupt cancels the running answer, not the program, and the text so far
// is kept.
func TestInterrupt(t *testing.T) {
	dir := t.TempDir()
	c := testConfig(t, dir)
	stalled, events := make(chan struct{}), 0
	c.offline.Pace = func(ctx context.Context) error {
		if events++; events == 5 { // in the middle of the first answer
			close(stalled)
			<-ctx.Done()
		}
		return ctx.Err()
	}
	interrupts := make(chan os.Signal, 1)
	in, typed := io.Pipe()
	out := &watched{texts: make(chan string, 1000)}
	done := make(chan error, 1)
	go func() { done <- run(t.Context(), c, in, out, interrupts) }()

	_, err := io.WriteString(typed, "hello\n")
	require.NoError(t, err)
	<-stalled
	interrupts <- os.Interrupt
	out.await(t, "Cancelled.")
	_, err = io.WriteString(typed, "again\n")
	require.NoError(t, err)
	out.await(t, "script")
	out.await(t, "] > ")
	interrupts <- os.Interrupt // at the prompt it ends nothing
	out.await(t, "Nothing is running.")
	require.NoError(t, typed.Close())
	require.NoError(t, <-done)
	contains(t, drive(t, dir, "/history"), "[user] hello", `[assistant] You said`, "[user] again", `[assistant] You said "again"`)
}

// watched passes on the output.
type watched struct{ texts chan string }

func (w *watched) Write(p []byte) (int, error) {
	w.texts <- string(p)
	return len(p), nil
}

// await reads the output until it contains text.
func (w *watched) await(t *testing.T, text string) {
	t.Helper()
	for {
		select {
		case printed := <-w.texts:
			if strings.Contains(printed, text) {
				return
			}
		case <-time.After(time.Minute): // only a hang gets here
			t.Fatalf("%q was never printed", text)
		}
	}
}

func TestUsageBar(t *testing.T) {
	for _, tt := range []struct {
		used, window int
		line, bar    string
	}{
		{1234, 180_000, "Context usage: ~1,234 / 180,000 tokens", "[------------------------------] 0.7%"},
		{0, 100, "Context usage: ~0 / 100 tokens", "[------------------------------] 0.0%"},
		{50, 100, "Context usage: ~50 / 100 tokens", "[###############---------------] 50.0%"},
		{1_234_567, 1_000_000, "Context usage: ~1,234,567 / 1,000,000 tokens", "[##############################] 123.5%"},
	} {
		if got := usageLine(tt.used, tt.window); got != tt.line {
			t.Errorf("usageLine = %q, want %q", got, tt.line)
		}
		if got := usageBar(tt.used, tt.window); got != tt.bar {
			t.Errorf("usageBar(%d, %d) = %q, want %q", tt.used, tt.window, got, tt.bar)
		}
	}
}

// The tools see nothing outside their folder.
func TestToolsAreConfined(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("s"), 0o600))
	work := filepath.Join(dir, "work")
	require.NoError(t, os.Mkdir(work, 0o700))
	require.NoError(t, os.Symlink("../secret", filepath.Join(work, "link")))
	tools, err := openTools(work, time.Now)
	require.NoError(t, err)
	defer func() { _ = tools.close() }()
	for _, input := range []string{`{"path":"../secret"}`, `{"path":"/etc/passwd"}`, `{"path":"link"}`, `{"path":"."}`, `{}`, `[]`} {
		if text, err := tools.run(t.Context(), "read_file", []byte(input)); err == nil {
			t.Errorf("read_file(%s) = %q", input, text)
		}
	}
	_, err = tools.run(t.Context(), "list_directory", []byte(`{"path":".."}`))
	require.Error(t, err)
}
