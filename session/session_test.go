package session_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

var cli = session.Key{Agent: "main", Channel: "cli", Peer: "user"}

func open(t testing.TB, dir string, opts *session.Options) *session.Store {
	t.Helper()
	st, err := session.Open(dir, opts)
	require.NoError(t, err)
	return st
}

func load(t testing.TB, st *session.Store, key session.Key) *session.Session {
	t.Helper()
	s, err := st.Load(t.Context(), key)
	require.NoError(t, err)
	return s
}

func add(t testing.TB, s *session.Session, items ...transcript.Item) []string {
	t.Helper()
	ids, err := s.Append(t.Context(), items...)
	require.NoError(t, err)
	return ids
}

// history is the JSON of what would be sent.
func history(t testing.TB, s *session.Session) string {
	t.Helper()
	h, err := s.History(t.Context())
	require.NoError(t, err)
	data, err := json.Marshal(h)
	require.NoError(t, err)
	return string(data)
}

func closed(t testing.TB, st *session.Store) {
	t.Helper()
	require.NoError(t, st.Close())
}

// answer is a response with a text and tool calls.
func answer(text string, calls ...string) *transcript.Response {
	r := &transcript.Response{API: "anthropic", Model: "m", StopReason: transcript.StopEndTurn, Message: transcript.Message{Role: transcript.RoleAssistant}}
	if text != "" {
		r.Message.Content = append(r.Message.Content, transcript.TextBlock{Text: text})
	}
	for _, id := range calls {
		r.StopReason = transcript.StopToolUse
		r.Message.Content = append(r.Message.Content, transcript.ToolCallBlock{ID: id, Name: "read_file", Input: json.RawMessage(`{"path": "a.go"}`)})
	}
	return r
}

// The next request is the same, byte for byte, after every restart, wherever
// summaries are shown.
func TestRestart(t *testing.T) {
	for _, form := range []rebuild.SummaryForm{rebuild.SummaryUser, rebuild.SummaryPair, rebuild.SummarySystem} {
		testRestart(t, &session.Options{Summary: form})
	}
}

func testRestart(t *testing.T, opts *session.Options) {
	dir := t.TempDir()
	script := [][]transcript.Item{
		{transcript.UserText("read a.go")},
		{answer("Let me look.", "c1", "c2")},
		{transcript.ToolResult("c2", "two")},
		{transcript.ToolResult("c1", "one")},
		{answer("done <&> \u2028 中文")},
		{transcript.UserText("again"), answer("", "c1"), transcript.ToolError("c1", "gone"), answer("sorry")},
		{transcript.Rewind{}},
		{transcript.UserText("after the rewind")},
		{transcript.Compaction{Summary: "S"}},
		{transcript.UserText("after the compaction")},
		{answer("", "c3")},
		{transcript.Clip{}},
	}
	live := open(t, dir, opts)
	defer closed(t, live)
	s := load(t, live, cli)
	var last []string
	for i, items := range script {
		switch b := items[0].(type) {
		case transcript.Rewind:
			b.To = last[0]
			items = []transcript.Item{b}
		case transcript.Compaction:
			b.CoversTo = last[0]
			items = []transcript.Item{b}
		case transcript.Clip:
			ids := add(t, s, transcript.ToolResult("c3", strings.Repeat("long ", 100)))
			b.Clips = []transcript.Clipping{{Entry: ids[0], Content: "short"}}
			items = []transcript.Item{b}
		}
		last = add(t, s, items...)
		want, body := history(t, s), request(t, s)
		other := open(t, dir, opts)
		r := load(t, other, cli)
		if got := history(t, r); got != want {
			t.Errorf("after step %d a restart sends\n%s\nnot\n%s", i, got, want)
		}
		if got := request(t, r); got != body {
			t.Errorf("after step %d a restart renders\n%s\nnot\n%s", i, got, body)
		}
		if r.ID() != s.ID() || r.Turns() != s.Turns() {
			t.Errorf("after step %d: session %s with %d turns, want %s with %d", i, r.ID(), r.Turns(), s.ID(), s.Turns())
		}
		closed(t, other)
	}
}

// request is the body of the next request.
func request(t testing.TB, s *session.Session) string {
	t.Helper()
	h, err := s.History(t.Context())
	require.NoError(t, err)
	body, _, err := anthropic.Format{}.Request(transcript.Request{Model: "m", System: h.System, Messages: h.Messages})
	require.NoError(t, err)
	return string(body)
}

func TestListFindDelete(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, nil)
	a := load(t, st, cli)
	add(t, a, transcript.UserText("  Fix the\tparser \nplease"))
	b, err := st.Create(t.Context(), cli, &session.CreateOptions{ID: "my-id", Title: "Project X", Labels: []string{"l"}})
	require.NoError(t, err)
	add(t, b, transcript.UserText("hello"))
	other := load(t, st, session.Key{Agent: "other", Channel: "cli", Peer: "user"})
	add(t, other, transcript.UserText("other agent"))
	require.Equal(t, "my-id", load(t, st, cli).ID())
	check := func(st *session.Store) {
		t.Helper()
		infos, err := st.List(t.Context(), nil)
		require.NoError(t, err)
		var got []string
		for _, i := range infos {
			got = append(got, strings.Join([]string{i.Agent, i.Title, map[bool]string{true: "current"}[i.Current]}, "/"))
		}
		want := "other/other agent/current main/Project X/current main/Fix the parser/"
		if strings.Join(got, " ") != want {
			t.Errorf("List = %v, want %v", got, want)
		}
		for query, want := range map[string]string{
			"my-id": "my-id", "my": "my-id", "project": "my-id", "main:cli:user": "my-id", "main:": "my-id",
			"fix": a.ID(), a.ID(): a.ID(), "OTHER A": other.ID(),
		} {
			if info, err := st.Find(t.Context(), query, nil); err != nil || info.ID != want {
				t.Errorf("Find(%q) = %q, %v, want %q", query, info.ID, err, want)
			}
		}
		_, err = st.Find(t.Context(), "0", nil)
		if amb, ok := errors.AsType[*session.AmbiguousError](err); !ok || len(amb.Matches) != 2 {
			t.Errorf("Find(0) = %v, want an AmbiguousError with two matches", err)
		}
		for _, query := range []string{"zzz", ""} {
			if _, err := st.Find(t.Context(), query, nil); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Find(%q) = %v, want fs.ErrNotExist", query, err)
			}
		}
	}
	check(st)
	closed(t, st)
	st = open(t, dir, nil)
	check(st)
	closed(t, st)

	// The index is a cache.
	for _, broken := range []string{"", "{", "[]", `{"main:cli:user":{"session_id":"x"}}`, "\x00\x00"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/main/sessions.jsonl"), []byte(broken), 0o600))
		st = open(t, dir, nil)
		check(st)
		closed(t, st)
	}

	st = open(t, dir, nil)
	defer closed(t, st)
	require.NoError(t, st.Delete(t.Context(), b.Ref()))
	_, err = st.Get(t.Context(), b.Ref())
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, a.ID(), load(t, st, cli).ID())
}

func TestMeta(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, nil)
	s := load(t, st, cli)
	add(t, s, transcript.UserText("first"))
	require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Title: new("by hand"), Pinned: new(true)}))
	add(t, s, answer("x"), transcript.UserText("second"))
	closed(t, st)
	st = open(t, dir, nil)
	defer closed(t, st)
	s = load(t, st, cli)
	if i := s.Info(); i.Title != "by hand" || !i.TitleByHand || !i.Pinned || i.Messages != 3 || i.Turns != 2 || i.Tokens == 0 {
		t.Errorf("Info = %+v", i)
	}
}

func TestRewindTurns(t *testing.T) {
	st := open(t, t.TempDir(), nil)
	defer closed(t, st)
	s := load(t, st, cli)
	empty := history(t, s)
	add(t, s, transcript.UserText("one"), answer("1"))
	one := history(t, s)
	add(t, s, transcript.UserText("two"))
	add(t, s, answer("", "c"))
	add(t, s, transcript.ToolResult("c", "r"))
	steering := add(t, s, transcript.UserText("steer"))
	two := history(t, s)
	require.NoError(t, s.RewindTurns(t.Context(), 1))
	require.Equal(t, one, history(t, s))
	require.NoError(t, s.Rewind(t.Context(), steering[0]))
	require.Equal(t, two, history(t, s))
	require.Error(t, s.RewindTurns(t.Context(), 3), "three of two turns were taken back")
	require.NoError(t, s.RewindTurns(t.Context(), 2))
	require.Equal(t, empty, history(t, s))
	require.Error(t, s.Rewind(t.Context(), "nothing"), "a rewind to an entry that is not there was written")
}

// The beginning of the last turn is in a summary: it is taken back all the same,
// also by a program that has read only what the history needs.
func TestRewindTurnsBehindCompaction(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, nil)
	s := load(t, st, cli)
	add(t, s, transcript.UserText("one"), answer("1"))
	one := history(t, s)
	add(t, s, transcript.UserText("two"))
	add(t, s, answer("", "c"))
	covered := add(t, s, transcript.ToolResult("c", "r"))
	kept := add(t, s, answer("", "d"))
	add(t, s, transcript.ToolResult("d", "r"))
	add(t, s, transcript.Compaction{Summary: "they began", FirstKept: kept[0], CoversTo: covered[0]})
	add(t, s, answer("2"))
	closed(t, st)
	st = open(t, dir, nil)
	defer closed(t, st)
	s = load(t, st, cli)
	require.NoError(t, s.RewindTurns(t.Context(), 1))
	require.Equal(t, one, history(t, s))
}

func TestAppendIf(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, nil)
	s := load(t, st, cli)
	done, err := s.AppendIf(t.Context(), session.Cond{Head: session.NoHead, Idem: "k"}, transcript.UserText("a"), answer("b", "c"))
	ids := done.IDs
	if err != nil || len(ids) != 3 || done.Repeated {
		t.Fatalf("AppendIf = %v, %v", done, err)
	}
	_, err = s.AppendIf(t.Context(), session.Cond{Head: ids[0]}, transcript.UserText("x"))
	require.ErrorIs(t, err, session.ErrConflict)
	add(t, s, transcript.Custom{Name: "note"})
	_, err = s.AppendIf(t.Context(), session.Cond{Head: ids[2]}, transcript.ToolResult("c", "r"))
	require.NoError(t, err)
	closed(t, st)
	st = open(t, dir, nil)
	defer closed(t, st)
	s = load(t, st, cli)
	again, err := s.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.UserText("a"), answer("b", "c"))
	if err != nil || strings.Join(again.IDs, " ") != strings.Join(ids, " ") || !again.Repeated || again.Rewound {
		t.Errorf("the same key again = %+v, %v, want %v", again, err, ids)
	}
	require.NoError(t, s.Rewind(t.Context(), s.ID()))
	again, err = s.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.UserText("a"), answer("b", "c"))
	if err != nil || !again.Repeated || !again.Rewound {
		t.Errorf("the same key after a rewind = %+v, %v", again, err)
	}
	_, err = s.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.UserText("other"))
	require.ErrorIs(t, err, session.ErrIdemMismatch)
}

// scratch returns an empty folder, in memory where that is possible.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "convolog") //nolint:usetesting // t.TempDir is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
