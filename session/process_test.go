package session_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

func init() {
	storetest.Register("loader", loaderChild)
	storetest.Register("writer", writerChild)
	storetest.Register("agent", agentChild)
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
	s, err := st.Load(storetest.Background, storetest.CLI)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, s.Ref().ID)
	return st.Close()
}

// 16 processes that load one new key get one session.
func TestProcessesLoadOneKey(t *testing.T) {
	t.Parallel()
	const n = 16
	dir := t.TempDir()
	var starts []io.WriteCloser
	var outs []*bufio.Reader
	var cmds []*exec.Cmd
	for range n {
		cmd := storetest.Child(t, "loader", dir)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		starts, outs, cmds = append(starts, in), append(outs, bufio.NewReader(out)), append(cmds, cmd)
	}
	for _, out := range outs {
		line, err := out.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready\n", line)
	}
	for _, in := range starts {
		fmt.Fprintln(in, "go")
	}
	ids := map[string]int{}
	for i, out := range outs {
		line, err := out.ReadString('\n')
		require.NoError(t, err)
		ids[strings.TrimSpace(line)]++
		if err := cmds[i].Wait(); err != nil {
			t.Error(err)
		}
	}
	require.Len(t, ids, 1)
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	infos := storetest.List(t, st, nil)
	require.Len(t, infos, 1)
}

// writerChild appends to every key in turn.
func writerChild(args []string, _ io.Reader, _ io.Writer) error {
	var w, keys, each int
	if _, err := fmt.Sscan(strings.Join(args[1:], " "), &w, &keys, &each); err != nil {
		return err
	}
	st, err := session.Open(args[0], &session.Options{Sync: session.SyncNever})
	if err != nil {
		return err
	}
	for n := range each {
		for k := range keys {
			key := session.Key{Agent: "main", Channel: "test", Peer: fmt.Sprint("peer", k)}
			s, err := st.Load(storetest.Background, key)
			if err != nil {
				return err
			}
			text := fmt.Sprintf("%s writer %d no %d", key, w, n)
			if _, err := s.Append(storetest.Background, transcript.UserText(text), transcript.AssistantText("ok")); err != nil {
				return err
			}
		}
	}
	return st.Close()
}

// Four processes on one store: no entry is lost, and none is in the wrong
// session.
func TestProcessesAppend(t *testing.T) {
	t.Parallel()
	const writers, keys, each = 4, 8, 25
	dir := t.TempDir()
	var wg sync.WaitGroup
	for w := range writers {
		cmd := storetest.Child(t, "writer", dir, fmt.Sprint(w), fmt.Sprint(keys), fmt.Sprint(each))
		wg.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	infos := storetest.List(t, st, nil)
	require.Len(t, infos, keys)
	for _, info := range infos {
		s := mustGet(t, st, info.Ref)
		checkWriters(t, s, info.Key, writers, each)
		h, err := s.Health(t.Context())
		require.NoError(t, err)
		require.Empty(t, h.Damage)
	}
}

// agentChild runs an agent loop: a user text, an answer with two calls, their
// results, a last answer. Every acknowledged append is announced. The arguments
// are the folder, a phase and a number: when the agent comes to that phase for
// the n-th time it announces that it is there and waits to be killed. In the
// phase "large append" it continues, so that the kill meets a write.
func agentChild(args []string, stdin io.Reader, stdout io.Writer) error {
	phase, loaded := args[1], false
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	out := json.NewEncoder(stdout)
	at := func(what string) {
		if what != phase || !loaded {
			return
		}
		if n--; n != 0 {
			return
		}
		_ = out.Encode(storetest.Report{Did: what, Here: true}) // if it fails, no reader is left
		if what != "large append" {
			_, _ = io.Copy(io.Discard, stdin) // ends with the parent
		}
	}
	st, err := session.Open(args[0], &session.Options{
		Now: func() time.Time { at("append begun"); return time.Now() },
		Observe: func(ctx context.Context, e session.Event) context.Context {
			if e.Kind == session.EventAppend {
				at("append written")
			}
			return ctx
		},
	})
	if err != nil {
		return err
	}
	s, err := st.Load(storetest.Background, storetest.CLI)
	if err != nil {
		return err
	}
	loaded = true
	add := func(text string, item transcript.Item) func() error {
		return func() error {
			ids, err := s.Append(storetest.Background, item)
			if err != nil {
				return err
			}
			return out.Encode(storetest.Report{Did: "appended", Text: text, IDs: ids})
		}
	}
	in := func(phase string) func() error {
		return func() error { at(phase); return nil }
	}
	large := strings.Repeat("0123456789abcdef", 16<<10)
	info, err := s.Info(storetest.Background)
	if err != nil {
		return err
	}
	for turn := info.Turns; ; turn++ {
		tag := fmt.Sprintf("t%d", turn)
		a, b := tag+"a", tag+"b"
		err := storetest.Chain(nil,
			add("question "+tag, transcript.UserText("question "+tag)),
			in("model call"),
			add("calls "+tag, storetest.Answer("calls "+tag, a, b)),
			in("tool call"), in("large append"),
			add("result "+b, transcript.ToolResult(b, "result "+b+large)),
			in("tool call"),
			add("result "+a, transcript.ToolResult(a, "result "+a)),
			in("model call"),
			add("done "+tag, storetest.Answer("done "+tag)))
		if err != nil {
			return err
		}
	}
}
