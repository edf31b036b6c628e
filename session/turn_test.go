package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/filelog"
)

// One turn at a time, over stores; appends go on.
func TestBeginTurn(t *testing.T) {
	dir := t.TempDir()
	a, b := storetest.Open(t, dir, nil), storetest.Open(t, dir, nil)
	defer storetest.Close(t, a)
	defer storetest.Close(t, b)
	s, other := storetest.Load(t, a, storetest.CLI), storetest.Load(t, b, storetest.CLI)
	turn, err := s.BeginTurn(t.Context())
	require.NoError(t, err)
	_, err = other.TryBeginTurn(t.Context())
	require.ErrorIs(t, err, session.ErrBusy)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := other.BeginTurn(ctx)
		done <- err
	}()
	storetest.Add(t, other, transcript.UserText("an append goes on"))
	cancel()
	err = <-done
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, session.ErrBusy)
	_, err = other.BeginTurn(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, session.ErrBusy)
	require.NoError(t, turn.End())
	require.NoError(t, turn.End())
	turn, err = other.BeginTurn(t.Context())
	require.NoError(t, err)
	require.NoError(t, turn.End())
	require.NoError(t, s.Flush(t.Context()))
}

func init() { storetest.Register("holder", holderChild) }

// holderChild begins a turn and never ends it.
func holderChild(args []string, stdin io.Reader, stdout io.Writer) error {
	_, s, err := storetest.OpenSession(args[0])
	if err != nil {
		return err
	}
	if _, err := s.BeginTurn(storetest.Background); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "held")
	select {}
}

// A turn lock ends with the process that holds it.
func TestTurnOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	cmd := storetest.Child(t, "holder", dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = out.Read(make([]byte, 1))
	require.NoError(t, err)
	_, err = s.TryBeginTurn(t.Context())
	require.ErrorIs(t, err, session.ErrBusy)
	require.NoError(t, cmd.Process.Kill())
	turn, err := s.BeginTurn(t.Context())
	require.NoError(t, err)
	require.NoError(t, turn.End())
	_ = cmd.Wait() // it was killed
}

// Unfinished work of one process is pending in the next one.
func TestPending(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		items []transcript.Item
		owed  bool
		user  string
		calls int
		cut   bool
	}{
		{[]transcript.Item{transcript.UserText("hello")}, true, "hello", 0, false},
		{[]transcript.Item{storetest.Answer("", "a", "b")}, true, "", 2, false},
		{[]transcript.Item{transcript.ToolResult("b", "r")}, true, "", 1, false},
		{[]transcript.Item{transcript.ToolResult("a", "r")}, true, "", 0, false},
		{[]transcript.Item{&transcript.Response{Message: transcript.AssistantText("half"), StopReason: transcript.StopAborted}}, false, "", 0, true},
	} {
		st := storetest.Open(t, dir, nil)
		storetest.Add(t, storetest.Load(t, st, storetest.CLI), tt.items...)
		storetest.Close(t, st)
		st = storetest.Open(t, dir, nil)
		p, err := storetest.Load(t, st, storetest.CLI).Pending(t.Context())
		if err != nil || p.Owed != tt.owed || p.User != tt.user || len(p.Calls) != tt.calls || p.Cut != tt.cut {
			t.Errorf("after %v: %+v, %v", tt.items, p, err)
		}
		storetest.Close(t, st)
	}
}

func TestMakeCurrent(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	a := storetest.Load(t, st, storetest.CLI)
	b, err := st.Create(t.Context(), storetest.CLI, nil)
	require.NoError(t, err)
	if !b.Info().Current || a.Info().Current {
		t.Error("the session created last is not the current one")
	}
	require.NoError(t, a.MakeCurrent(t.Context()))
	require.NoError(t, a.MakeCurrent(t.Context())) // it is already
	storetest.Close(t, st)
	storetest.LoseIndex(t, dir)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	if s.ID() != a.ID() || !s.Info().Current {
		t.Errorf("after the index was lost the current session is %s, want %s", s.ID(), a.ID())
	}
	currents := 0
	for e, err := range s.Entries(t.Context()) {
		require.NoError(t, err)
		if e.Type() == transcript.TypeCurrent {
			currents++
		}
	}
	require.Equal(t, 1, currents)
	c, err := st.Create(t.Context(), storetest.CLI, nil)
	require.NoError(t, err)
	require.Equal(t, c.ID(), storetest.Load(t, st, storetest.CLI).ID())
}

// A repeated append gives the entries that are in the file, also if another
// store wrote them.
func TestRepeatedByAnotherStore(t *testing.T) {
	dir := t.TempDir()
	a, b := storetest.Open(t, dir, nil), storetest.Open(t, dir, nil)
	defer storetest.Close(t, a)
	defer storetest.Close(t, b)
	s, other := storetest.Load(t, a, storetest.CLI), storetest.Load(t, b, storetest.CLI)
	first, err := s.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.UserText("x"), storetest.Answer("y"))
	require.NoError(t, err)
	again, err := other.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.UserText("x"), storetest.Answer("y"))
	if err != nil || !again.Repeated || strings.Join(again.IDs, " ") != strings.Join(first.IDs, " ") {
		t.Errorf("again = %+v, %v, want the IDs %v", again, err, first.IDs)
	}
	require.NoError(t, other.Rewind(t.Context(), again.IDs[0]))
	require.Equal(t, storetest.History(t, other), storetest.History(t, s))
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	_, err = other.AppendIf(t.Context(), session.Cond{Head: head}, transcript.UserText("on the head"))
	require.NoError(t, err)
}

// A history may be changed by who got it.
func TestHistoryIsTheCallers(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("q"), storetest.Answer("a"))
	want := storetest.History(t, s)
	h, err := s.History(t.Context())
	require.NoError(t, err)
	h.Messages[0].Content[0] = transcript.TextBlock{Text: "changed"}
	_ = append(h.Messages[0].Content, transcript.TextBlock{Text: "more"})
	require.Equal(t, want, storetest.History(t, s))
}

// A reader that is open while a writer dies in the middle of a batch shows
// what is whole of it, and the next append stands on its own.
func TestHalfABatchWhileReading(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("q"))
	path := filepath.Join(dir, "agents/main/sessions", s.ID()+".jsonl")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"type":"assistant","id":"A","ts":"2026-11-20T08:00:00Z","batch":3,"content":[{"type":"text","text":"half"}]}` + "\n" +
		`{"type":"tool_use","id":"B","ts":"2026-11-20T08:00:00Z","mid":"A","part":2,"tool_use_id":"c","name":"f","input":{}}` + "\n" + `{"type":"tool_u`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	want := `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"text","text":"half"}]}]}`
	require.Equal(t, want, storetest.History(t, s))
	storetest.Add(t, s, transcript.UserText("next"))
	other := storetest.Open(t, dir, nil)
	defer storetest.Close(t, other)
	require.Equal(t, storetest.History(t, s), storetest.History(t, storetest.Load(t, other, storetest.CLI)))
	storetest.CheckRequest(t, s)
}

// A store in a folder that may not be written.
func TestUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := session.Open(file, nil)
	require.Error(t, err)
	require.Contains(t, err.Error(), file)
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	storetest.Add(t, storetest.Load(t, st, storetest.CLI), transcript.UserText("hi"))
	storetest.Close(t, st)
	cmd := storetest.Child(t, "nobody", dir)
	_, err = cmd.Output()
	require.NoError(t, err)
}

// unwritable checks, as a user who may not write dir, what a store says there.
func unwritable(dir string) error {
	empty := filepath.Join(dir, "empty")
	_, err := session.Open(empty, nil)
	if fe, ok := errors.AsType[*filelog.Error](err); !ok || fe.Fix == "" || !strings.Contains(err.Error(), empty) {
		return errors.Join(errors.New("Open of a folder that cannot be written or does not say so"), err)
	}
	_, err = session.Open(dir, nil)
	if err == nil {
		st, err := session.Open(dir, nil)
		if err != nil {
			return err
		}
		if _, err := st.Load(storetest.Background, storetest.CLI); err == nil {
			return errors.New("Load of a session that cannot be written succeeded")
		}
	}
	st, err := session.Open(dir, &session.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	s, err := st.Lookup(storetest.Background, storetest.CLI)
	if err != nil {
		return err
	}
	h, err := s.History(storetest.Background)
	if err == nil && len(h.Messages) != 1 {
		err = errors.New("the message is not there")
	}
	return errors.Join(err, st.Close())
}
