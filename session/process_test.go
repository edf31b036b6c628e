package session_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/filelog"
)

// Children of the tests are this test binary with a role in the environment.
const roleVar = "CONVOLOG_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		if err := children[role](os.Args[1:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

var children = map[string]func(args []string, stdin io.Reader, stdout io.Writer) error{
	"loader": loaderChild,
	"writer": writerChild,
	"agent":  agentChild,
	"holder": holderChild,
}

// openSession is how a child begins; it does not close what it opens unless
// it says so.
func openSession(dir string) (*session.Store, *session.Session, error) {
	st, err := session.Open(dir, nil)
	if err != nil {
		return nil, nil, err
	}
	s, err := st.Load(bg, cli)
	return st, s, err
}

// holderChild begins a turn and never ends it.
func holderChild(args []string, stdin io.Reader, stdout io.Writer) error {
	_, s, err := openSession(args[0])
	if err != nil {
		return err
	}
	if _, err := s.BeginTurn(bg); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "held")
	select {}
}

func child(t testing.TB, role string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

// loaderChild waits for a line, so that all children start at one time, and
// loads one new key.
func loaderChild(args []string, stdin io.Reader, stdout io.Writer) error {
	st, err := session.Open(args[0], nil)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "ready")
	if _, err := bufio.NewReader(stdin).ReadString('\n'); err != nil {
		return err
	}
	s, err := st.Load(bg, cli)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, s.ID())
	return st.Close()
}

// 16 processes that load one new key get one session.
func TestProcessesLoadOneKey(t *testing.T) {
	const n = 16
	dir := t.TempDir()
	var starts []io.WriteCloser
	var outs []*bufio.Reader
	var cmds []*exec.Cmd
	for range n {
		cmd := child(t, "loader", dir)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		starts, outs, cmds = append(starts, in), append(outs, bufio.NewReader(out)), append(cmds, cmd)
	}
	for _, out := range outs {
		if line, err := out.ReadString('\n'); err != nil || line != "ready\n" {
			t.Fatalf("child: %q, %v", line, err)
		}
	}
	for _, in := range starts {
		fmt.Fprintln(in, "go")
	}
	ids := map[string]int{}
	for i, out := range outs {
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		ids[strings.TrimSpace(line)]++
		if err := cmds[i].Wait(); err != nil {
			t.Error(err)
		}
	}
	if len(ids) != 1 {
		t.Errorf("%d sessions: %v", len(ids), ids)
	}
	st := open(t, dir, nil)
	defer closed(t, st)
	if infos, err := st.List(t.Context(), nil); err != nil || len(infos) != 1 {
		t.Errorf("%d sessions in the list, %v", len(infos), err)
	}
}

// writerChild appends to every key in turn.
func writerChild(args []string, _ io.Reader, _ io.Writer) error {
	var w, keys, each int
	if _, err := fmt.Sscan(strings.Join(args[1:], " "), &w, &keys, &each); err != nil {
		return err
	}
	st, err := session.Open(args[0], &session.Options{Sync: filelog.SyncNever})
	if err != nil {
		return err
	}
	for n := range each {
		for k := range keys {
			key := session.Key{Agent: "main", Channel: "test", Peer: fmt.Sprint("peer", k)}
			s, err := st.Load(bg, key)
			if err != nil {
				return err
			}
			text := fmt.Sprintf("%s writer %d no %d", key, w, n)
			if _, err := s.Append(bg, transcript.UserText(text), transcript.AssistantText("ok")); err != nil {
				return err
			}
		}
	}
	return st.Close()
}

// 4 processes on one store: no entry is lost, and none is in a foreign
// session.
func TestProcessesAppend(t *testing.T) {
	const writers, keys, each = 4, 8, 25
	dir := t.TempDir()
	var wg sync.WaitGroup
	for w := range writers {
		cmd := child(t, "writer", dir, fmt.Sprint(w), fmt.Sprint(keys), fmt.Sprint(each))
		wg.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	st := open(t, dir, nil)
	defer closed(t, st)
	infos, err := st.List(t.Context(), nil)
	if err != nil || len(infos) != keys {
		t.Fatalf("%d sessions, %v, want %d", len(infos), err, keys)
	}
	for _, info := range infos {
		s, err := st.Get(t.Context(), info.Ref)
		if err != nil {
			t.Fatal(err)
		}
		checkWriters(t, s, info.Key, writers, each)
		if h, err := s.Health(t.Context()); err != nil || len(h.Damage) > 0 {
			t.Errorf("damage %v, %v", h.Damage, err)
		}
	}
}

// event is what the agent child says about its doings.
type event struct {
	Did  string   `json:"did"` // about to do, or done if IDs are there
	Text string   `json:"text,omitempty"`
	IDs  []string `json:"ids,omitempty"`
}

// agentChild runs an agent loop for ever: a user text, an answer with two
// calls, their results, a last answer. Every append and every pause between
// them is said on stdout before and after.
func agentChild(args []string, _ io.Reader, stdout io.Writer) error {
	_, s, err := openSession(args[0])
	if err != nil {
		return err
	}
	out := json.NewEncoder(stdout)
	step := func(text string, item transcript.Item) error {
		if err := out.Encode(event{Did: "append", Text: text}); err != nil {
			return err
		}
		ids, err := s.Append(bg, item)
		if err != nil {
			return err
		}
		return out.Encode(event{Did: "appended", Text: text, IDs: ids})
	}
	pause := func(what string) error {
		if err := out.Encode(event{Did: what}); err != nil {
			return err
		}
		_, err := s.History(bg)
		return err
	}
	big := strings.Repeat("0123456789abcdef", 4<<10)
	for n := s.Turns(); ; n++ {
		tag := fmt.Sprintf("t%d", n)
		a, b := tag+"a", tag+"b"
		for _, f := range []func() error{
			func() error { return step("question "+tag, transcript.UserText("question "+tag)) },
			func() error { return pause("model call") },
			func() error { return step("calls "+tag, answer("calls "+tag, a, b)) },
			func() error { return pause("tool call") },
			func() error { return step("result "+b, transcript.ToolResult(b, "result "+b+big)) },
			func() error { return pause("tool call") },
			func() error { return step("result "+a, transcript.ToolResult(a, "result "+a)) },
			func() error { return pause("model call") },
			func() error { return step("done "+tag, answer("done "+tag)) },
		} {
			if err := f(); err != nil {
				return err
			}
		}
	}
}
