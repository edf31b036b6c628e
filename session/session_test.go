package session_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

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
		{storetest.Answer("Let me look.", "c1", "c2")},
		{transcript.ToolResult("c2", "two")},
		{transcript.ToolResult("c1", "one")},
		{storetest.Answer("done <&> \u2028 中文")},
		{transcript.UserText("again"), storetest.Answer("", "c1"), transcript.ToolError("c1", "gone"), storetest.Answer("sorry")},
		{transcript.Rewind{}},
		{transcript.UserText("after the rewind")},
		{transcript.Compaction{Summary: "S"}},
		{transcript.UserText("after the compaction")},
		{storetest.Answer("", "c3")},
		{transcript.Clip{}},
	}
	live := storetest.Open(t, dir, opts)
	defer storetest.Close(t, live)
	s := storetest.Load(t, live, storetest.CLI)
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
			ids := storetest.Add(t, s, transcript.ToolResult("c3", strings.Repeat("long ", 100)))
			b.Clips = []transcript.Clipping{{Entry: ids[0], Content: "short"}}
			items = []transcript.Item{b}
		}
		last = storetest.Add(t, s, items...)
		want, body := storetest.History(t, s), storetest.Request(t, s)
		other := storetest.Open(t, dir, opts)
		r := storetest.Load(t, other, storetest.CLI)
		if got := storetest.History(t, r); got != want {
			t.Errorf("after step %d a restart sends\n%s\nnot\n%s", i, got, want)
		}
		if got := storetest.Request(t, r); got != body {
			t.Errorf("after step %d a restart renders\n%s\nnot\n%s", i, got, body)
		}
		if r.Ref().ID != s.Ref().ID || storetest.Info(t, r).Turns != storetest.Info(t, s).Turns {
			t.Errorf("after step %d: session %s with %d turns, want %s with %d", i, r.Ref().ID, storetest.Info(t, r).Turns, s.Ref().ID, storetest.Info(t, s).Turns)
		}
		storetest.Close(t, other)
	}
}

func TestListDelete(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	a := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, a, transcript.UserText("  Fix the\tparser \nplease"))
	b := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{ID: "my-id", Title: "Project X", Labels: []string{"l"}})
	storetest.Add(t, b, transcript.UserText("hello"))
	other := storetest.Load(t, st, session.Key{Agent: "other", Channel: "cli", Peer: "user"})
	storetest.Add(t, other, transcript.UserText("other agent"))
	require.Equal(t, "my-id", storetest.Load(t, st, storetest.CLI).Ref().ID)
	check := func(st *session.Store) {
		t.Helper()
		infos := storetest.List(t, st, nil)
		var got []string
		for _, i := range infos {
			got = append(got, strings.Join([]string{i.Agent, i.Title, map[bool]string{true: "current"}[i.Current]}, "/"))
		}
		want := "other/other agent/current main/Project X/current main/Fix the parser/"
		if strings.Join(got, " ") != want {
			t.Errorf("List = %v, want %v", got, want)
		}
	}
	check(st)
	storetest.Close(t, st)
	st = storetest.Open(t, dir, nil)
	check(st)
	storetest.Close(t, st)

	// The index is a cache.
	for _, broken := range []string{"", "{", "[]", `{"main:cli:user":{"session_id":"x"}}`, "\x00\x00"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/main/sessions.jsonl"), []byte(broken), 0o600))
		st = storetest.Open(t, dir, nil)
		check(st)
		storetest.Close(t, st)
	}

	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	require.NoError(t, st.Delete(t.Context(), b.Ref()))
	_, err := st.Get(t.Context(), b.Ref())
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, a.Ref().ID, storetest.Load(t, st, storetest.CLI).Ref().ID)
}

func TestMeta(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("first"))
	require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Title: new("by hand"), Keep: new(true)}))
	storetest.Add(t, s, storetest.Answer("x"), transcript.UserText("second"))
	storetest.Close(t, st)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	if i := storetest.Info(t, s); i.Title != "by hand" || !i.TitleByHand || !i.Keep || i.Messages != 3 || i.Turns != 2 || i.Tokens == 0 {
		t.Errorf("Info = %+v", i)
	}
}

func TestAppendIf(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	done, err := s.AppendIf(t.Context(), session.Cond{Empty: true, Idem: "k"}, transcript.UserText("a"), storetest.Answer("b", "c"))
	ids := done.IDs
	if err != nil || len(ids) != 3 || done.Repeated {
		t.Fatalf("AppendIf = %v, %v", done, err)
	}
	for _, cond := range []session.Cond{{Head: ids[0]}, {Empty: true}} {
		_, err = s.AppendIf(t.Context(), cond, transcript.UserText("x"))
		require.ErrorIs(t, err, session.ErrConflict)
	}
	storetest.Add(t, s, transcript.Custom{Name: "note"})
	_, err = s.AppendIf(t.Context(), session.Cond{Head: ids[2]}, transcript.ToolResult("c", "r"))
	require.NoError(t, err)
	storetest.Close(t, st)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	again, err := s.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.UserText("a"), storetest.Answer("b", "c"))
	if err != nil || strings.Join(again.IDs, " ") != strings.Join(ids, " ") || !again.Repeated || again.Rewound {
		t.Errorf("the same key again = %+v, %v, want %v", again, err, ids)
	}
	require.NoError(t, s.Rewind(t.Context(), s.Ref().ID))
	again, err = s.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.UserText("a"), storetest.Answer("b", "c"))
	if err != nil || !again.Repeated || !again.Rewound {
		t.Errorf("the same key after a rewind = %+v, %v", again, err)
	}
	_, err = s.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.UserText("other"))
	require.ErrorIs(t, err, session.ErrIdemMismatch)
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

// The caller may change a history.
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

// Health lists the parts that services have refused, and only those
// calibrations.
func TestHealthOfRefusedParts(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("see"), storetest.Answer("I see"))
	storetest.Add(t, s, transcript.Calibration{Model: "sized", Window: 9_000},
		transcript.Calibration{Model: "blind", Without: []transcript.Form{transcript.Images}},
		transcript.Calibration{Model: "strict", Unread: ids[1]})
	h, err := s.Health(t.Context())
	require.NoError(t, err)
	var models []string
	for _, c := range h.Refused {
		models = append(models, c.Model)
	}
	require.ElementsMatch(t, []string{"blind", "strict"}, models)
}

// Flush only syncs; Recover also cures.
func TestFlush(t *testing.T) {
	var cures []bool
	drv := &storetest.Between{Driver: memdriver.New(nil), BeforeFlush: func(cure bool) error { cures = append(cures, cure); return nil }}
	s := storetest.Load(t, session.OpenDriver(drv, nil), storetest.CLI)
	storetest.Add(t, s, transcript.UserText("hi"))
	require.NoError(t, s.Flush(t.Context()))
	require.NoError(t, s.Recover(t.Context()))
	for range 2 {
		require.NoError(t, storetest.ErrOf(s.AppendIf(t.Context(), session.Cond{Idem: "key"}, transcript.UserText("once"))))
	}
	require.Equal(t, []bool{false, true, false}, cures, "a repeated append syncs the first one")
}

// Health reports the damage of all lines and the repairs of the history.
func TestHealth(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, storetest.Unsynced)
	s := storetest.Load(t, st, storetest.CLI)
	h, err := s.Health(t.Context())
	require.NoError(t, err)
	require.Empty(t, h)
	old := storetest.Add(t, s, transcript.UserText("run"))[0]
	storetest.Close(t, st)
	storetest.AppendText(t, filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl"), "not JSON\n")
	st = storetest.Open(t, dir, storetest.Unsynced)
	s = storetest.Load(t, st, storetest.CLI)
	kept := storetest.Add(t, s, transcript.UserText("kept"))[0]
	storetest.Add(t, s, transcript.Compaction{Summary: "so far", FirstKept: kept, CoversTo: old})
	orphan := storetest.Add(t, s, transcript.ToolResult("call", "nobody has asked"))[0]
	storetest.Close(t, st)
	st = storetest.Open(t, dir, storetest.Unsynced)
	defer storetest.Close(t, st)
	h, err = storetest.Load(t, st, storetest.CLI).Health(t.Context())
	require.NoError(t, err)
	require.Len(t, h.Damage, 1)
	require.True(t, slices.ContainsFunc(h.Repairs, func(r rebuild.Repair) bool { return r.Entry == orphan }), h.Repairs)
}
