package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// dirVariable makes the test binary the program, on a store below that folder;
// stallVariable makes its first answer stop in the middle until it is cancelled.
const (
	dirVariable   = "REPL_TEST_DIR"
	stallVariable = "REPL_TEST_STALL"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirVariable); dir != "" {
		if err := asProgram(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func asProgram(dir string) error {
	c := config{dir: filepath.Join(dir, "store"), work: dir, key: "main:cli:user", window: 180_000, now: time.Now, offline: scripted(180_000)}
	events := 0
	c.offline.Pace = func(ctx context.Context) error {
		if events++; events == 6 && os.Getenv(stallVariable) != "" {
			<-ctx.Done()
		}
		return ctx.Err()
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	return run(context.Background(), c, os.Stdin, os.Stdout, interrupts)
}

// screen is the program on its own terminal.
type screen struct {
	t   *testing.T
	pty *os.File
	tty *os.File // the program's end
	cmd *exec.Cmd

	mu     sync.Mutex
	output strings.Builder
	from   int // await has read the part before
}

func startScreen(t *testing.T, dir string, columns uint16, env ...string) *screen {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	s := &screen{t: t, pty: os.NewFile(uintptr(fd), "pty"), tty: tty, cmd: exec.Command(os.Args[0])}
	s.cmd.Env = append(append(os.Environ(), "TERM=xterm", "NO_COLOR=", dirVariable+"="+dir), env...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		_ = s.tty.Close()
		_ = s.pty.Close()
	})
	go s.collect()
	return s
}

func (s *screen) collect() {
	buf := make([]byte, 4096)
	for {
		n, err := s.pty.Read(buf)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.output.Write(buf[:n])
		s.mu.Unlock()
	}
}

func (s *screen) send(text string) {
	s.t.Helper()
	_, err := s.pty.WriteString(text)
	require.NoError(s.t, err)
}

// await returns the output since the last call, up to the end of text, without
// escapes.
func (s *screen) await(text string) string {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		all := s.output.String()
		s.mu.Unlock()
		plain := escapeSequence.ReplaceAllString(all, "")
		if i := strings.Index(plain[min(s.from, len(plain)):], text); i >= 0 {
			printed := plain[s.from : s.from+i+len(text)]
			s.from += i + len(text)
			return printed
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%q was never printed after %d bytes of\n%q", text, s.from, plain)
		}
	}
}

// raw is all that was printed, with escapes.
func (s *screen) raw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.String()
}

const testPrompt = "[main:cli:user] > "

// ends checks that the program ends, and restores the terminal.
func (s *screen) ends() {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Wait())
	modes, err := unix.IoctlGetTermios(int(s.tty.Fd()), unix.TCGETS)
	require.NoError(s.t, err)
	const usual = unix.ICANON | unix.ECHO | unix.ISIG
	require.EqualValues(s.t, usual, modes.Lflag&usual)
}

// messages returns the texts of the session in the store.
func messages(t *testing.T, dir string) (user, assistant []string) {
	t.Helper()
	store, err := session.Open(filepath.Join(dir, "store"), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	s, err := store.Load(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	require.NoError(t, err)
	h, err := s.History(t.Context())
	require.NoError(t, err)
	for _, m := range h.Messages {
		if m.Role == transcript.RoleUser {
			user = append(user, m.Text())
		} else {
			assistant = append(assistant, m.Text())
		}
	}
	return user, assistant
}

// Each paste is one turn and arrives whole, even while the model works; a typed
// line is not cut where the editor's buffer ends.
func TestPaste(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("näher, ", 100_000/7) + "the end 12345"
	twelve := "line 1" + strings.Repeat("\n\tand \x1b[31mmore", 11)
	typed := strings.Repeat("0123456789", 500) + "!"
	s := startScreen(t, dir, 80)
	s.await(testPrompt)
	s.send("\x1b[200~" + long + "\x1b[201~")
	s.await("[pasted\u00a01:\u00a0100,008")
	s.send("\r")
	s.await("script")
	s.await(testPrompt)
	s.send("see:x\x7f \x1b[200~" + strings.ReplaceAll(twelve, "\n", "\r") + "\x1b[201~\r" + "while it works\r" + "\x1b[200~one line\x1b[201~ more\r")
	s.await("12\u00a0lines")
	s.await(testPrompt)
	s.await(testPrompt)
	s.await(testPrompt)
	s.send(typed + "\r")
	s.await("script")
	s.await(testPrompt)
	s.send("gone\x1b[200~" + twelve + "\x1b[201~\x7f\x17a\\\rb\x1b\rc\r")
	s.await("script")
	s.await(testPrompt)
	s.send("\x04")
	s.await("Bye.")
	s.ends()
	user, _ := messages(t, dir)
	require.Equal(t, []string{long, "see: " + twelve, "while it works", "one line more", typed, "a\nb\nc"}, user)
	require.NotContains(t, s.raw(), "\x1b[31m", "an escape of a text was printed")
}

// Ctrl-C keeps the answer so far and brings the prompt back. A second one at once does
// not leave; two at the prompt do. The next start shows the conversation, and the user's
// texts are its history.
func TestStopKillRestart(t *testing.T) {
	dir := t.TempDir()
	s := startScreen(t, dir, 80, stallVariable+"=1")
	s.await(testPrompt)
	s.send("first question\r")
	s.await("You said")
	s.await("\x20")
	s.send("\x03")
	s.await("Cancelled.")
	s.await(testPrompt)
	s.send("\x03")
	s.await("Ctrl-C again")
	s.send("\x03")
	s.await("Bye.")
	s.ends()
	user, assistant := messages(t, dir)
	require.Equal(t, []string{"first question"}, user)
	require.Len(t, assistant, 1)
	require.Contains(t, assistant[0], "You said")
	require.NotContains(t, assistant[0], "I am a script")

	s = startScreen(t, dir, 80)
	contains(t, s.await(testPrompt), "Restored: 1 previous turns", "first question", "You said", "Pending: ")
	s.send("\x1b[A")
	s.await("first question")
	s.send(" again\r")
	s.await(`You said "first question again".`)
	s.await(testPrompt)
	require.NoError(t, s.cmd.Process.Kill())

	s = startScreen(t, dir, 80)
	contains(t, s.await(testPrompt), "Restored: 2 previous turns", "first question again")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	s.await("Bye.")
	s.ends()

	s = startScreen(t, dir, 80, stallVariable+"=1")
	s.await(testPrompt)
	s.send("last\r")
	s.await("You said")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	s.await("Bye.")
	s.ends()
	_, assistant = messages(t, dir)
	require.Len(t, assistant, 3)
}

// A narrow terminal breaks prose between words, and has colour unless NO_COLOR
// is set.
func TestNarrow(t *testing.T) {
	for _, noColor := range []string{"", "1"} {
		s := startScreen(t, t.TempDir(), 34, "NO_COLOR="+noColor)
		s.await(testPrompt)
		s.send("tell `me`\r")
		s.await("You said")
		answer := "You said" + s.await("time.)")
		for line := range strings.SplitSeq(answer, "\r\n") {
			if columns(line) > 34 {
				t.Errorf("wider than the terminal: %q", line)
			}
		}
		mark := ""
		if noColor != "" {
			mark = "`"
		}
		require.Equal(t, fmt.Sprintf(`You said "tell %sme%s". (I am a script. Ask me to list the folder, to read README.md or for the time.)`, mark, mark),
			strings.ReplaceAll(answer, "\r\n", " "))
		require.Equal(t, noColor == "", strings.Contains(s.raw(), cyan))
		require.Equal(t, noColor == "", strings.Contains(s.raw(), bold))
		s.send("/quit\r")
		s.await("Bye.")
		s.ends()
	}
}

// A dumb terminal gets neither escapes nor raw lines.
func TestDumbTerminal(t *testing.T) {
	s := startScreen(t, t.TempDir(), 80, "TERM=dumb")
	s.await(testPrompt)
	s.send("hello\n")
	s.await("time.)")
	s.send("/quit\n")
	s.await("Bye.")
	s.ends()
	require.NotContains(t, s.raw(), "\x1b")
}
