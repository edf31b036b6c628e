package session_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Every kind of unfinished end of a file when a process starts: nothing whole is
// lost, the next append is separate, and a restart sees the same.
func TestTails(t *testing.T) {
	const (
		ts    = `"ts":"2026-11-20T08:00:00Z"`
		first = `{"type":"assistant","id":"A",` + ts + `,"batch":3,"content":[{"type":"text","text":"half"}]}`
		call  = `{"type":"tool_use","id":"B",` + ts + `,"mid":"A","part":2,"tool_use_id":"c","name":"f","input":{}}`
		other = `{"type":"tool_use","id":"C",` + ts + `,"mid":"A","part":3,"tool_use_id":"d","name":"f","input":{}}`
	)
	for _, tt := range []struct {
		name, tail, want string
		damage           int
	}{
		{"nothing", "", `[u:q u:next]`, 0},
		{"a record without its newline", first, `[u:q][a:half][u:next]`, 0},
		{"a torn record", first[:40], `[u:q u:next]`, 1},
		{"half a batch", first + "\n" + call + "\n", `[u:q][a:half][u:next]`, 0},
		{"half a batch and a torn line", first + "\n" + call + "\n" + other[:20], `[u:q][a:half][u:next]`, 1},
		{"a whole batch without its last newline", first + "\n" + call + "\n" + other, `[u:q][a:half c d][r:c r:d u:next]`, 0},
		{"damage inside a batch", first + "\nxx\n" + call + "\n" + other + "\n", `[u:q][a:half][u:next]`, 1},
		{"NUL bytes", strings.Repeat("\x00", 100), `[u:q u:next]`, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			st := storetest.Open(t, dir, nil)
			s := storetest.Load(t, st, storetest.CLI)
			storetest.Add(t, s, transcript.UserText("q"))
			storetest.Close(t, st)
			path := filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl")
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, append(before, tt.tail...), 0o600))

			st = storetest.Open(t, dir, nil)
			s = storetest.Load(t, st, storetest.CLI)
			storetest.Add(t, s, transcript.UserText("next"))
			require.Equal(t, tt.want, shape(t, s))
			h, err := s.Health(t.Context())
			require.NoError(t, err)
			require.Len(t, h.Damage, tt.damage)
			storetest.CheckRequest(t, s)
			want := storetest.History(t, s)
			storetest.Close(t, st)
			st = storetest.Open(t, dir, nil)
			defer storetest.Close(t, st)
			require.Equal(t, want, storetest.History(t, storetest.Load(t, st, storetest.CLI)))
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(after), string(before)+tt.tail), string(after))
		})
	}
}

// shape is the history in a short form.
func shape(t *testing.T, s *session.Session) string {
	t.Helper()
	h, err := s.History(t.Context())
	require.NoError(t, err)
	var sb strings.Builder
	for _, m := range h.Messages {
		var parts []string
		for _, b := range m.Content {
			switch b := b.(type) {
			case transcript.TextBlock:
				parts = append(parts, b.Text)
				if m.Role == transcript.RoleUser {
					parts[len(parts)-1] = "u:" + b.Text
				}
			case transcript.ToolCallBlock:
				parts = append(parts, b.ID)
			case transcript.ToolResultBlock:
				parts = append(parts, "r:"+b.CallID)
			}
		}
		prefix := ""
		if m.Role == transcript.RoleAssistant {
			prefix = "a:"
		}
		sb.WriteString("[" + prefix + strings.Join(parts, " ") + "]")
	}
	return sb.String()
}

// A transcript whose header is gone can be read. It can be appended to while
// the index knows its key.
func TestHeaderLost(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("q"))
	want := storetest.History(t, s)
	storetest.Close(t, st)
	path := filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(data), "\n")
	require.NoError(t, os.WriteFile(path, []byte("damaged\n"+rest), 0o600))
	st = storetest.Open(t, dir, nil)
	s = mustGet(t, st, s.Ref())
	require.Equal(t, want, storetest.History(t, s))
	storetest.Add(t, s, transcript.UserText("more"))
	storetest.Close(t, st)
	storetest.LoseIndex(t, dir)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s = mustGet(t, st, s.Ref())
	h, err := s.History(t.Context())
	require.NoError(t, err)
	require.Len(t, h.Messages, 1)
	_, err = s.Append(t.Context(), transcript.UserText("x"))
	require.Error(t, err)
	require.Contains(t, err.Error(), "header")
}

// A reader does not wait for a writer that holds the lock, and takes nothing
// for final that the writer may continue.
func TestReadWhileLocked(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("q"))
	root, err := os.OpenRoot(filepath.Join(dir, "agents/main/sessions"))
	require.NoError(t, err)
	defer func() { _ = root.Close() }()
	l, err := filelog.Open(root, s.Ref().ID+".jsonl", nil)
	require.NoError(t, err)
	release, err := l.Hold(t.Context())
	require.NoError(t, err)
	f, err := root.OpenFile(s.Ref().ID+".jsonl", os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	write := func(line string) {
		_, err := f.WriteString(line + "\n")
		require.NoError(t, err)
	}
	write(`{"type":"assistant","id":"A","ts":"2026-11-20T08:00:00Z","batch":2,"content":[{"type":"text","text":"half"}]}`)
	other := storetest.Open(t, dir, nil)
	defer storetest.Close(t, other)
	r := storetest.Load(t, other, storetest.CLI)
	for _, s := range []*session.Session{s, r} {
		if got := shape(t, s); got != "[u:q]" {
			t.Errorf("while a batch is written the history is %s", got)
		}
	}
	write(`{"type":"tool_use","id":"B","ts":"2026-11-20T08:00:00Z","mid":"A","part":2,"tool_use_id":"c","name":"f","input":{}}`)
	require.NoError(t, f.Close())
	release()
	require.NoError(t, l.Close())
	for _, s := range []*session.Session{s, r} {
		if got := shape(t, s); got != "[u:q][a:half c][r:c]" {
			t.Errorf("when it is written the history is %s", got)
		}
	}
}

// A session that another store deletes and makes again under its ID is not
// mixed up with the old one, and a file that became shorter is noticed.
func TestMadeAgain(t *testing.T) {
	dir := t.TempDir()
	a, b := storetest.Open(t, dir, nil), storetest.Open(t, dir, nil)
	defer storetest.Close(t, a)
	defer storetest.Close(t, b)
	s := storetest.Create(t, a, storetest.CLI, &session.CreateOptions{ID: "chat"})
	storetest.Add(t, s, transcript.UserText("old"))
	for range 200 { // so that the file is closed
		other := storetest.Create(t, a, session.Key{Agent: "main", Channel: "c", Peer: "p"}, nil)
		storetest.Add(t, other, transcript.UserText("x"))
	}
	require.NoError(t, b.Delete(t.Context(), s.Ref()))
	made := storetest.Create(t, b, storetest.CLI, &session.CreateOptions{ID: "chat"})
	_, err := s.History(t.Context())
	require.ErrorIs(t, err, session.ErrReplaced)
	storetest.Add(t, s, transcript.UserText("new"))
	for _, s := range []*session.Session{s, made} {
		if got := shape(t, s); got != "[u:new]" {
			t.Errorf("history %s, want the new one", got)
		}
	}
	path := filepath.Join(dir, "agents/main/sessions/chat.jsonl")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data[:strings.IndexByte(string(data), '\n')+1], 0o600))
	_, err = s.History(t.Context())
	require.ErrorIs(t, err, session.ErrReplaced)
	require.Empty(t, shape(t, s))
}

// The index is emptied or removed while stores are open.
func TestIndexLost(t *testing.T) {
	for name, spoil := range map[string]func(string) error{
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"removed": os.Remove,
	} {
		dir := t.TempDir()
		st := storetest.Open(t, dir, nil)
		s := storetest.Load(t, st, storetest.CLI)
		storetest.Add(t, s, transcript.UserText("hi"))
		require.NoError(t, spoil(filepath.Join(dir, "agents/main/sessions.jsonl")))
		other := storetest.Load(t, st, session.Key{Agent: "main", Channel: "other", Peer: "x"})
		if got := storetest.Load(t, st, storetest.CLI); got.Ref().ID != s.Ref().ID {
			t.Errorf("%s: session %s, want %s", name, got.Ref().ID, s.Ref().ID)
		}
		storetest.Add(t, s, transcript.UserText("more"))
		infos, err := st.List(t.Context(), nil)
		if err != nil || len(infos) != 2 {
			t.Errorf("%s: %d sessions, %v", name, len(infos), err)
		}
		require.NoError(t, st.Delete(t.Context(), other.Ref()))
		storetest.Close(t, st)
		st = storetest.Open(t, dir, nil)
		if infos, err := st.List(t.Context(), nil); err != nil || len(infos) != 1 || infos[0].Messages != 2 {
			t.Errorf("%s: after a restart %+v, %v", name, infos, err)
		}
		storetest.Close(t, st)
	}
}
