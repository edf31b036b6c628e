package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// programVariable makes the test binary the program.
const programVariable = "CHAT_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A terminal is a pseudo terminal with a service for the programs in it.
type terminal struct {
	t       *testing.T
	dir     string
	pty     *os.File
	tty     *os.File      // of the programs
	modes   *unix.Termios // of tty at first
	url     string
	stall   atomic.Bool   // the next answer stops in the middle
	stalled chan struct{} // receives when it does

	mu     sync.Mutex
	output strings.Builder
	from   int // await has read the part before
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	x := &terminal{t: t, dir: t.TempDir(), pty: os.NewFile(uintptr(fd), "pty"), tty: tty, stalled: make(chan struct{})}
	events := 0
	service := guardtest.NewServer(&guardtest.Model{Pace: func(ctx context.Context) error {
		if events++; events == 6 && x.stall.Swap(false) {
			select {
			case x.stalled <- struct{}{}:
			case <-ctx.Done():
			}
			<-ctx.Done()
		}
		return ctx.Err()
	}, Observe: func(guardtest.Recorded) { events = 0 }})
	x.url = service.URL
	x.modes, err = unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	require.NoError(t, err)
	go x.collect()
	t.Cleanup(func() {
		service.Close()
		_ = x.tty.Close()
		_ = x.pty.Close()
	})
	return x
}

func (x *terminal) collect() {
	buf := make([]byte, 4096)
	for {
		n, err := x.pty.Read(buf)
		if err != nil {
			return
		}
		x.mu.Lock()
		x.output.Write(buf[:n])
		x.mu.Unlock()
	}
}

func (x *terminal) start(kind string) *exec.Cmd {
	x.t.Helper()
	cmd := exec.Command(os.Args[0], "--dir", filepath.Join(x.dir, "store"), "--model", "claude-test")
	cmd.Env = append(os.Environ(), "TERM="+kind, "ANTHROPIC_BASE_URL="+x.url, programVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = x.tty, x.tty, x.tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(x.t, cmd.Start())
	x.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

func (x *terminal) send(text string) {
	x.t.Helper()
	_, err := x.pty.WriteString(text)
	require.NoError(x.t, err)
}

var escape = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])`)

// await reads the output, without escapes, up to the end of text.
func (x *terminal) await(text string) {
	x.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) { // only a hang gets there
		x.mu.Lock()
		all := escape.ReplaceAllString(x.output.String(), "")
		x.mu.Unlock()
		if i := strings.Index(all[min(x.from, len(all)):], text); i >= 0 {
			x.from += i + len(text)
			return
		}
		require.True(x.t, time.Now().Before(deadline), "%q was never printed after %d bytes of\n%q", text, x.from, all)
	}
}

// kill ends a program at once. Like a shell, it then restores the modes of the terminal.
func (x *terminal) kill(cmd *exec.Cmd) {
	x.t.Helper()
	require.NoError(x.t, cmd.Process.Kill())
	require.Error(x.t, cmd.Wait())
	require.NoError(x.t, unix.IoctlSetTermios(int(x.tty.Fd()), unix.TCSETS, x.modes))
}

// texts returns the texts of the user in the store.
func (x *terminal) texts() (texts []string) {
	x.t.Helper()
	store, err := session.Open(filepath.Join(x.dir, "store"), nil)
	require.NoError(x.t, err)
	defer func() { require.NoError(x.t, store.Close()) }()
	s, err := store.Load(x.t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	require.NoError(x.t, err)
	h, err := s.History(x.t.Context())
	require.NoError(x.t, err)
	for _, m := range h.Messages {
		if m.Role == transcript.RoleUser {
			texts = append(texts, m.Text())
		}
	}
	return texts
}

// Ctrl-C stops an answer. The program can be killed at the prompt and in an answer, and
// starts again in the same terminal, which it restores at its end.
func TestTerminal(t *testing.T) {
	x := openTerminal(t)
	cmd := x.start("xterm")
	x.await("Type a message, or /help.")
	x.await("> ") // the editor reads keys
	x.stall.Store(true)
	x.send("first question of a user\r")
	<-x.stalled
	x.send("\x03")
	x.await("Stopped. The answer so far is kept.")
	require.Equal(t, []string{"first question of a user"}, x.texts())
	x.kill(cmd)

	cmd = x.start("xterm")
	x.await("Restored: 1 previous turns")
	x.await("Type a message, or /help.")
	x.await("> ") // the editor reads keys
	long := strings.Repeat("a line\n", 5_000) + "日本語 👩‍👩‍👧"
	x.send("\x1b[200~" + strings.ReplaceAll(long, "\n", "\r") + "\x1b[201~")
	x.await("5001")
	x.stall.Store(true)
	x.send("\r")
	<-x.stalled
	x.kill(cmd)

	cmd = x.start("xterm")
	x.await("Restored: 2 previous turns")
	x.await("Pending: /continue")
	x.await("Type a message, or /help.")
	x.await("> ") // the editor reads keys
	x.send("/continue\r")
	x.await("> /continue") // printed when the command begins
	x.send("last\r\x04")   // queued; the end of the input stops the answer, or follows it
	require.NoError(t, cmd.Wait())
	modes, err := unix.IoctlGetTermios(int(x.tty.Fd()), unix.TCGETS)
	require.NoError(t, err)
	require.Equal(t, x.modes, modes)
	require.Contains(t, strings.Join(x.texts(), ""), long)
}

// A dumb terminal gets neither escapes nor raw lines.
func TestDumbTerminal(t *testing.T) {
	x := openTerminal(t)
	cmd := x.start("dumb")
	x.await("> ")
	x.send("hello\n")
	x.await("hello") // the echo of the terminal
	x.await("> ")
	x.send("/quit\n")
	require.NoError(t, cmd.Wait())
	x.mu.Lock()
	defer x.mu.Unlock()
	require.NotContains(t, x.output.String(), "\x1b")
}

// The name of a model selects the API.
func TestConnect(t *testing.T) {
	service := guardtest.NewServer(&guardtest.Model{})
	defer service.Close()
	t.Setenv("ANTHROPIC_BASE_URL", service.URL)
	t.Setenv("OPENAI_BASE_URL", service.URL+"/v1")
	for name, api := range map[string]string{"claude-test": "anthropic", "gpt-test": "openai-chat"} {
		model, g := connect(name)
		require.Equal(t, name, g.Model)
		req := transcript.Request{Model: name, Messages: []transcript.Message{transcript.UserText("hello")}}
		answer, err := model.Stream(t.Context(), req, func(wire.Delta) {})
		require.NoError(t, err)
		require.Equal(t, "hello", answer.Message.Text())
		require.Equal(t, api, answer.API)
	}
}
