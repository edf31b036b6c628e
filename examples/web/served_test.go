package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/uistream"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// The process of a server that is killed.
const (
	serverDir  = "CONVOLOG_WEB_DIR"
	serverAddr = "CONVOLOG_WEB_ADDR"
)

func serveFolder(dir, addr string) error {
	store, err := session.Open(dir, nil)
	if err != nil {
		return err
	}
	sv, err := serve.New(store, &serve.Options{
		Respond: agent, Surfaces: []serve.Surface{uistream.New("/api/chat", "main")}, Logger: slog.New(slog.DiscardHandler),
		Auth: serve.Keys(map[string]serve.Principal{"ann": {Owner: "ann"}, "bob": {Owner: "bob"}}),
	})
	if err != nil {
		return err
	}
	return sv.HTTPServer(addr).ListenAndServe()
}

// agent echoes a text slowly. Before a word that begins with "hold" it waits for [release].
// After "tool" it thinks and calls a tool, and after "danger" a tool that a person has to
// allow. After "void" its first text is void.
func agent(ctx context.Context, s *session.Session, t *turn.Turn) error {
	h, err := s.History(ctx)
	if err != nil {
		return err
	}
	last := h.Messages[len(h.Messages)-1]
	text := ""
	for _, b := range last.Content { // after unanswered texts
		if b, ok := b.(transcript.TextBlock); ok {
			text = b.Text
		}
	}
	switch text {
	case "": // the calls are decided
		return finishTools(ctx, s, t)
	case "tool", "danger":
		draft := t.Draft("test", "m", transcript.Made{})
		if err := errors.Join(draft.Write(ctx, "I look."), draft.Flush(ctx)); err != nil {
			return err
		}
		ids, err := draft.Finish(ctx, &transcript.Response{
			StopReason: transcript.StopToolUse, Usage: transcript.Usage{Input: 5, CacheRead: 2, Output: 3},
			Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
				transcript.ThinkingBlock{Thinking: "Which time is it?"},
				transcript.TextBlock{Text: "I look."},
				transcript.ToolCallBlock{ID: "call", Name: "clock", Input: json.RawMessage(`{"zone":"UTC"}`)},
			}},
		})
		if err != nil || text == "tool" {
			return errors.Join(err, finishTools(ctx, s, t))
		}
		return turn.Decide(ctx, s, ids[len(ids)-1], transcript.Hold, "policy", "")
	case "void":
		draft := t.Draft("test", "m", transcript.Made{})
		if err := errors.Join(draft.Write(ctx, "wrong"), draft.Flush(ctx)); err != nil {
			return err
		}
	}
	return say(ctx, t, text, 10*time.Millisecond)
}

func finishTools(ctx context.Context, s *session.Session, t *turn.Turn) error {
	err := turn.RunTools(ctx, s, 1, func(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
		return transcript.ToolResult(c.Call.ID, `{"time":"noon"}`), nil
	})
	if err != nil {
		return err
	}
	return say(ctx, t, "It is noon.", 0)
}

// release lets the servers of a folder say a word.
func release(t testing.TB, dir, word string) {
	t.Helper()
	require.NoError(t, os.WriteFile(dir+"-"+strings.TrimSpace(word), nil, 0o600))
}

func isHeld(dir, word string) bool {
	_, err := os.Stat(dir + "-" + strings.TrimSpace(word))
	return err != nil && strings.HasPrefix(word, "hold")
}

func say(ctx context.Context, t *turn.Turn, text string, pause time.Duration) error {
	draft := t.Draft("test", "m", transcript.Made{})
	for _, word := range strings.SplitAfter(text, " ") {
		for isHeld(os.Getenv(serverDir), word) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Millisecond):
			}
		}
		if err := errors.Join(draft.Write(ctx, word), draft.Flush(ctx)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	_, err := draft.Finish(ctx, &transcript.Response{
		Message: transcript.AssistantText(text), StopReason: transcript.StopEndTurn, Usage: transcript.Usage{Input: 1, Output: 1},
	})
	return err
}

// A process is a server that can be killed.
type process struct {
	testing.TB
	dir, addr string
	cmd       *exec.Cmd
}

func newProcess(t testing.TB, dir string) *process {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	sv := &process{TB: t, dir: dir, addr: l.Addr().String()}
	require.NoError(t, l.Close())
	sv.start()
	t.Cleanup(func() { sv.kill() })
	return sv
}

func (sv *process) url() string { return "http://" + sv.addr + "/api/chat" }

func (sv *process) start() {
	sv.Helper()
	sv.cmd = exec.Command(os.Args[0]) //nolint:gosec // this test again
	sv.cmd.Env = append(os.Environ(), serverDir+"="+sv.dir, serverAddr+"="+sv.addr)
	sv.cmd.Stderr = os.Stderr
	require.NoError(sv, sv.cmd.Start())
	require.Eventually(sv, func() bool {
		conn, err := net.Dial("tcp", sv.addr)
		return err == nil && conn.Close() == nil
	}, time.Minute, 5*time.Millisecond)
}

func (sv *process) kill() {
	_ = sv.cmd.Process.Kill()
	_ = sv.cmd.Wait()
}
