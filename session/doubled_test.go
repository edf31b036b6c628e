package session_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// Lines that stand twice are shown once, counted once and reported, wherever a
// union of two copies has put them.
func TestDoubledLines(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "doubled.jsonl"))
	require.NoError(t, err)
	whole := strings.SplitAfter(strings.TrimSuffix(string(data), "\n")+"\n", "\n")
	whole = whole[:len(whole)-2] // the last line stands twice, and nothing follows it
	for name, lines := range map[string][]string{
		"the last line":  slices.Concat(whole, whole[len(whole)-1:]),
		"every line":     twice(whole),
		"all lines":      slices.Concat(whole, whole),
		"all but a head": slices.Concat(whole, whole[1:]),
		"a beginning":    slices.Concat(whole, whole[:4]),
		"a call":         slices.Concat(whole, whole[2:4]),
		"four times":     slices.Concat(whole, whole, whole, whole),
	} {
		dir := t.TempDir()
		sessions := filepath.Join(dir, "agents", "main", "sessions")
		require.NoError(t, os.MkdirAll(sessions, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(sessions, "doubled.jsonl"), []byte(strings.Join(lines, "")), 0o600))
		checkDoubled(t, name, dir, len(lines)-len(whole))
		checkDoubled(t, name+", again", dir, len(lines)-len(whole))
	}
}

// A fork of a session with doubled lines copies each once, and has metadata and usage of its
// own.
func TestForkOfDoubledLines(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "doubled.jsonl"))
	require.NoError(t, err)
	dir := t.TempDir()
	sessions := filepath.Join(dir, "agents", "main", "sessions")
	require.NoError(t, os.MkdirAll(sessions, 0o700))
	lines := strings.TrimSuffix(string(data), "\n") + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(sessions, "doubled.jsonl"), []byte(lines+lines), 0o600))
	st := storetest.Open(t, dir, nil)
	defer func() { require.NoError(t, st.Close()) }()
	s := mustGet(t, st, session.Ref{Agent: "main", ID: "doubled"})
	h, err := s.History(t.Context())
	require.NoError(t, err)
	f := storetest.Fork(t, s, h.Messages[len(h.Messages)-1].Origins[0].Entry, nil)
	forked, err := f.History(t.Context())
	require.NoError(t, err)
	require.Equal(t, h.Messages, forked.Messages)
	keep, title := true, "mine"
	require.NoError(t, f.SetMeta(t.Context(), transcript.Meta{Keep: &keep, Title: &title}))
	storetest.Add(t, f, transcript.UserText("and?"), transcript.Response{Model: "m", Message: transcript.AssistantText("yes"), Usage: transcript.Usage{Input: 10}})
	info := storetest.Info(t, f)
	require.True(t, info.Keep)
	require.Equal(t, "mine", info.Title)
	require.Equal(t, 1, info.Usage["m"].Answers)
	health, err := f.Health(t.Context())
	require.NoError(t, err)
	require.Empty(t, health.Damage)
}

// A slow clock makes no reader read the lines before a compaction.
func TestLateLineAfterCompaction(t *testing.T) {
	mem := memdriver.New(nil)
	st := session.OpenDriver(mem, nil)
	s := storetest.Create(t, st, storetest.CLI, nil)
	for range 200 {
		storetest.Add(t, s, transcript.UserText("a word"))
	}
	last := storetest.Add(t, s, transcript.UserText("last"))[0]
	storetest.Add(t, s, transcript.Compaction{Summary: "counted", FirstKept: last, CoversTo: last, TurnsBefore: 200})
	storetest.Add(t, s, transcript.At(time.Now().Add(-time.Hour), transcript.UserText("from the phone")))
	want := storetest.History(t, s)
	storetest.Close(t, st)
	d := &storetest.CountingDriver{Driver: memdriver.Reopen(mem)}
	st = session.OpenDriver(d, nil)
	defer storetest.Close(t, st)
	s = mustGet(t, st, s.Ref())
	require.Equal(t, want, storetest.History(t, s))
	storetest.Add(t, s, transcript.At(time.Now().Add(-2*time.Hour), transcript.UserText("and another one")))
	require.Contains(t, storetest.History(t, s), "and another one")
	require.Less(t, d.Records, 20)
}

func twice(lines []string) (all []string) {
	for _, line := range lines {
		all = append(all, line, line)
	}
	return all
}

func checkDoubled(t *testing.T, name, dir string, repeated int) {
	t.Helper()
	st := storetest.Open(t, dir, nil)
	defer func() { require.NoError(t, st.Close()) }()
	s, err := st.Get(t.Context(), session.Ref{Agent: "main", ID: "doubled"})
	require.NoError(t, err, name)
	info := storetest.Info(t, s)
	require.Equal(t, 2, info.Usage["claude-opus-4-8"].Answers, name)
	require.Equal(t, 3, info.Messages, name)
	h, err := s.History(t.Context())
	require.NoError(t, err)
	require.Len(t, h.Messages, 4, name)
	require.Equal(t, "Paid.", h.Messages[3].Text(), name)
	health, err := s.Health(t.Context())
	require.NoError(t, err)
	require.Len(t, health.Damage, repeated, name)
	for _, d := range health.Damage {
		require.Equal(t, transcript.DamageRepeated, d.Kind, name)
	}
	p, err := s.Pending(t.Context())
	require.NoError(t, err)
	require.Empty(t, p.Calls, name)
}

// A repetition counts once even if its first copy is older than the lines that
// the history needs, and if another program appends it to a session in use.
func TestDoubledAfterCompaction(t *testing.T) {
	dir := t.TempDir()
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	open := func() *session.Store {
		st := storetest.Open(t, dir, &session.Options{Now: func() time.Time { at = at.Add(time.Second); return at }})
		return st
	}
	st := open()
	s := storetest.Create(t, st, session.Key{Agent: "main", Channel: "cli", Peer: "ana"}, nil)
	answer := func(text string) transcript.Response {
		return transcript.Response{Model: "m", Message: transcript.AssistantText(text), Usage: transcript.Usage{Input: 10, Output: 1}}
	}
	storetest.Add(t, s, transcript.UserText("one"))
	storetest.Add(t, s, answer("two"))
	ids := storetest.Add(t, s, transcript.UserText("three"))
	storetest.Add(t, s, transcript.Compaction{Summary: "counted", FirstKept: ids[0], CoversTo: ids[0]})
	storetest.Add(t, s, answer("four"))
	want, err := s.History(t.Context())
	require.NoError(t, err)
	name := filepath.Join(dir, "agents", "main", "sessions", s.Ref().ID+".jsonl")
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	check := func(repeated int) {
		t.Helper()
		h, err := s.History(t.Context())
		require.NoError(t, err)
		require.Equal(t, want.Messages, h.Messages)
		info := storetest.Info(t, s)
		require.Equal(t, 2, info.Usage["m"].Answers)
		require.Equal(t, 4, info.Messages)
		health, err := s.Health(t.Context())
		require.NoError(t, err)
		require.Len(t, health.Damage, repeated)
	}
	lines := strings.SplitAfter(string(data), "\n")
	n := 0
	for _, more := range []string{lines[1] + lines[2], lines[2], string(data), lines[3]} {
		storetest.AppendText(t, name, more)
		n += strings.Count(more, "\n")
		check(n)
		require.NoError(t, st.Close())
		st = open()
		s = mustGet(t, st, s.Ref())
		check(n)
	}
	require.NoError(t, st.Close())
}
