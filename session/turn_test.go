package session_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// One turn at a time, over stores; appends go on.
func TestBeginTurn(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir, nil), open(t, dir, nil)
	defer closed(t, a)
	defer closed(t, b)
	s, other := load(t, a, cli), load(t, b, cli)
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
	add(t, other, transcript.UserText("an append goes on"))
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

// A turn lock ends with the process that holds it.
func TestTurnOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, nil)
	defer closed(t, st)
	s := load(t, st, cli)
	cmd := child(t, "holder", dir)
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
		{[]transcript.Item{answer("", "a", "b")}, true, "", 2, false},
		{[]transcript.Item{transcript.ToolResult("b", "r")}, true, "", 1, false},
		{[]transcript.Item{transcript.ToolResult("a", "r")}, true, "", 0, false},
		{[]transcript.Item{&transcript.Response{Message: transcript.AssistantText("half"), StopReason: transcript.StopAborted}}, false, "", 0, true},
	} {
		st := open(t, dir, nil)
		add(t, load(t, st, cli), tt.items...)
		closed(t, st)
		st = open(t, dir, nil)
		p, err := load(t, st, cli).Pending(t.Context())
		if err != nil || p.Owed != tt.owed || p.User != tt.user || len(p.Calls) != tt.calls || p.Cut != tt.cut {
			t.Errorf("after %v: %+v, %v", tt.items, p, err)
		}
		closed(t, st)
	}
}

func TestMakeCurrent(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, nil)
	a := load(t, st, cli)
	b, err := st.Create(t.Context(), cli, nil)
	require.NoError(t, err)
	if !b.Info().Current || a.Info().Current {
		t.Error("the session created last is not the current one")
	}
	require.NoError(t, a.MakeCurrent(t.Context()))
	require.NoError(t, a.MakeCurrent(t.Context())) // it is already
	closed(t, st)
	loseIndex(t, dir)
	st = open(t, dir, nil)
	defer closed(t, st)
	s := load(t, st, cli)
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
	c, err := st.Create(t.Context(), cli, nil)
	require.NoError(t, err)
	require.Equal(t, c.ID(), load(t, st, cli).ID())
}

// A repeated append gives the entries that are in the file, also if another
// store wrote them.
func TestRepeatedByAnotherStore(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir, nil), open(t, dir, nil)
	defer closed(t, a)
	defer closed(t, b)
	s, other := load(t, a, cli), load(t, b, cli)
	first, err := s.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.UserText("x"), answer("y"))
	require.NoError(t, err)
	again, err := other.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.UserText("x"), answer("y"))
	if err != nil || !again.Repeated || strings.Join(again.IDs, " ") != strings.Join(first.IDs, " ") {
		t.Errorf("again = %+v, %v, want the IDs %v", again, err, first.IDs)
	}
	require.NoError(t, other.Rewind(t.Context(), again.IDs[0]))
	require.Equal(t, history(t, other), history(t, s))
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	_, err = other.AppendIf(t.Context(), session.Cond{Head: head}, transcript.UserText("on the head"))
	require.NoError(t, err)
}

// A history may be changed by who got it.
func TestHistoryIsTheCallers(t *testing.T) {
	st := open(t, t.TempDir(), nil)
	defer closed(t, st)
	s := load(t, st, cli)
	add(t, s, transcript.UserText("q"), answer("a"))
	want := history(t, s)
	h, err := s.History(t.Context())
	require.NoError(t, err)
	h.Messages[0].Content[0] = transcript.TextBlock{Text: "changed"}
	_ = append(h.Messages[0].Content, transcript.TextBlock{Text: "more"})
	require.Equal(t, want, history(t, s))
}

// A reader that is open while a writer dies in the middle of a batch shows
// what is whole of it, and the next append stands on its own.
func TestHalfABatchWhileReading(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, nil)
	defer closed(t, st)
	s := load(t, st, cli)
	add(t, s, transcript.UserText("q"))
	path := filepath.Join(dir, "agents/main/sessions", s.ID()+".jsonl")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"type":"assistant","id":"A","ts":"2026-11-20T08:00:00Z","batch":3,"content":[{"type":"text","text":"half"}]}` + "\n" +
		`{"type":"tool_use","id":"B","ts":"2026-11-20T08:00:00Z","mid":"A","part":2,"tool_use_id":"c","name":"f","input":{}}` + "\n" + `{"type":"tool_u`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	want := `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"text","text":"half"}]}]}`
	require.Equal(t, want, history(t, s))
	add(t, s, transcript.UserText("next"))
	other := open(t, dir, nil)
	defer closed(t, other)
	require.Equal(t, history(t, s), history(t, load(t, other, cli)))
	checkRequest(t, s)
}

// A store in a folder that may not be written.
func TestUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := session.Open(file, nil)
	require.Error(t, err)
	require.Contains(t, err.Error(), file)
	dir := t.TempDir()
	st := open(t, dir, nil)
	add(t, load(t, st, cli), transcript.UserText("hi"))
	closed(t, st)
	cmd := child(t, "nobody", dir)
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
		if _, err := st.Load(bg, cli); err == nil {
			return errors.New("Load of a session that cannot be written succeeded")
		}
	}
	st, err := session.Open(dir, &session.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	s, err := st.Lookup(bg, cli)
	if err != nil {
		return err
	}
	h, err := s.History(bg)
	if err == nil && len(h.Messages) != 1 {
		err = errors.New("the message is not there")
	}
	return errors.Join(err, st.Close())
}
