package session_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// A queued text is taken over once, and stays so.
func TestQueue(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	first := storetest.Add(t, s, transcript.UserText("one"), storetest.Answer("1"))[1]
	id, err := s.Queue(ctx, transcript.UserText("two"))
	require.NoError(t, err)
	_, err = s.Queue(ctx, transcript.UserText("three"))
	require.NoError(t, err)
	_, err = s.Queue(ctx, transcript.AssistantText("no"))
	require.Error(t, err)
	_, err = s.Queue(ctx, transcript.ToolResult("c", "no"))
	require.Error(t, err)
	require.NotContains(t, storetest.History(t, s), "two")
	p, err := s.Pending(ctx)
	require.NoError(t, err)
	require.Len(t, p.Queued, 2)
	require.Equal(t, id, p.Queued[0].Entry)

	// A compaction repeats what is queued.
	storetest.Talk(t, s, 0, 5)
	require.NoError(t, storetest.ErrOf(s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})))
	p, err = s.Pending(ctx)
	require.NoError(t, err)
	require.Len(t, p.Queued, 2)
	require.Equal(t, id, p.Queued[0].Entry)

	turn := begin(t, s)
	ids, err := turn.Drain(ctx)
	require.NoError(t, err)
	require.Len(t, ids, 2)
	require.Contains(t, storetest.History(t, s), "two")
	require.NoError(t, s.Rewind(ctx, first))
	require.NotContains(t, storetest.History(t, s), "two")
	ids, err = turn.Drain(ctx)
	require.NoError(t, err)
	require.Empty(t, ids)

	// A restart behind a rewind to the beginning knows that it was taken over.
	_, err = s.Queue(ctx, transcript.UserText("four"))
	require.NoError(t, err)
	ids, err = turn.Drain(ctx)
	require.NoError(t, err)
	require.Len(t, ids, 1)
	_, err = s.Queue(ctx, transcript.UserText("five"))
	require.NoError(t, err)
	require.NoError(t, s.Rewind(ctx, s.ID()))
	require.NoError(t, turn.End())
	storetest.Close(t, st)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	p, err = storetest.Load(t, st, storetest.CLI).Pending(ctx)
	require.NoError(t, err)
	require.Len(t, p.Queued, 1)
	require.Equal(t, "five", p.Queued[0].Message.Text())
}

// A pinned text survives every compaction whole, once.
func TestPins(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	rule := "Never touch the production database. " + strings.Repeat("Not even on Sundays. ", 100) + "This is the end of the rule."
	id := storetest.Add(t, s, transcript.UserText(rule), storetest.Answer("Understood."))[0]
	require.NoError(t, s.Pin(ctx, id))
	require.NoError(t, s.Pin(ctx, id))
	require.ErrorIs(t, s.Pin(ctx, "nobody"), session.ErrNoEntry)
	require.ErrorIs(t, s.Pin(ctx, ""), session.ErrNoEntry)
	require.Error(t, s.Pin(ctx, s.ID()))
	for i := range 3 {
		storetest.Talk(t, s, i*20, 20)
		require.NoError(t, storetest.ErrOf(s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 2}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary)), MaxCarried: -1})))
		require.Equal(t, 1, strings.Count(storetest.History(t, s), "This is the end of the rule."), "compaction %d", i)
	}
	pins, err := s.Pins(ctx)
	require.NoError(t, err)
	require.Equal(t, []transcript.Carried{{Entry: id, Text: rule}}, pins)
	large := storetest.Add(t, s, transcript.UserText(strings.Repeat("large ", 3000)))[0]
	require.ErrorContains(t, s.Pin(ctx, large), "limit")
	require.NoError(t, s.Unpin(ctx, id))
	storetest.Talk(t, s, 100, 20)
	require.NoError(t, storetest.ErrOf(s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 2}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary)), MaxCarried: -1})))
	require.NotContains(t, storetest.History(t, s), "This is the end of the rule.")
}

func TestState(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	first, err := s.SetState(ctx, "step", json.RawMessage(`{"n":1}`), session.NoHead)
	require.NoError(t, err)
	_, err = s.SetState(ctx, "step", json.RawMessage(`2`), session.NoHead)
	require.ErrorIs(t, err, session.ErrConflict)
	next, err := s.SetState(ctx, "step", json.RawMessage(`2`), first)
	require.NoError(t, err)
	_, err = s.SetState(ctx, "step", json.RawMessage(`3`), first)
	require.ErrorIs(t, err, session.ErrConflict)
	_, err = s.SetState(ctx, "bad", json.RawMessage(`{`), "")
	require.Error(t, err)
	_, err = s.SetState(ctx, "large", json.RawMessage(`"`+strings.Repeat("x", session.MaxState)+`"`), "")
	require.ErrorContains(t, err, "limit")
	storetest.Talk(t, s, 0, 5)
	require.NoError(t, storetest.ErrOf(s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})))
	values, err := s.State(ctx)
	require.NoError(t, err)
	require.Len(t, values, 1)
	require.Equal(t, []string{next, "step", "2"}, []string{values[0].Entry, values[0].Name, string(values[0].Value)})
	_, err = s.SetState(ctx, "step", nil, next)
	require.NoError(t, err)
	values, err = s.State(ctx)
	require.NoError(t, err)
	require.Empty(t, values)
	require.NotContains(t, storetest.History(t, s), "step")

	// The values of the key go over to its next session.
	for _, name := range []string{"key/language", "other"} {
		require.NoError(t, storetest.ErrOf(s.SetState(ctx, name, json.RawMessage(`"de"`), "")))
	}
	s, err = st.Create(ctx, storetest.CLI, nil)
	require.NoError(t, err)
	values, err = s.State(ctx)
	require.NoError(t, err)
	require.Len(t, values, 1)
	require.Equal(t, "key/language", values[0].Name)
	require.NoError(t, storetest.ErrOf(s.SetState(ctx, "key/language", json.RawMessage(`"en"`), values[0].Entry)))
	require.ErrorContains(t, storetest.ErrOf(s.SetState(ctx, "\xff", json.RawMessage(`1`), "")), "UTF-8")
}

// Usage counts every answer once, over restarts and without an index.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	for i := range 10 {
		resp := storetest.Answer("text", fmt.Sprint("c", i))
		resp.Model, resp.Usage = []string{"a", "b"}[i%2], transcript.Usage{Input: 10, Output: i, CacheRead: 100}
		storetest.Add(t, s, transcript.UserText("go"), resp, transcript.ToolResult(fmt.Sprint("c", i), "r"))
	}
	want := session.Usage{
		"a": driver.Usage{Answers: 5, Input: 50, Output: 20, CacheRead: 500},
		"b": driver.Usage{Answers: 5, Input: 50, Output: 25, CacheRead: 500},
	}
	check := func() {
		t.Helper()
		got, err := s.Usage(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, got)
		all, err := st.Usage(t.Context(), &session.ListOptions{Channel: storetest.CLI.Channel})
		require.NoError(t, err)
		require.Equal(t, want, all)
	}
	check()
	cheap := storetest.Load(t, st, session.Key{Agent: "main", Channel: storetest.CLI.Channel, Peer: "cheap"})
	storetest.Add(t, cheap, transcript.UserText("go"))
	all, err := st.Usage(t.Context(), &session.ListOptions{Limit: 1, After: s.Info().Cursor()})
	require.NoError(t, err)
	require.Equal(t, want, all, "of all pages")
	require.InDelta(t, 45.0, want.Cost(func(_ string, u driver.Usage) float64 { return float64(u.Output) }), 0)
	storetest.Close(t, st)
	st = storetest.Open(t, dir, nil)
	s = storetest.Load(t, st, storetest.CLI)
	check()
	storetest.Close(t, st)
	storetest.LoseIndex(t, dir)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	check()
}

// Pages in both directions are the conversation, whatever their size.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	storetest.Talk(t, s, 0, 6)
	twice := []transcript.Item{transcript.UserText("twice?"), storetest.Answer("once"), transcript.UserText("good")}
	storetest.CutAppend(t, filepath.Join(dir, "agents/main/sessions", s.ID()+".jsonl"), "k", 2, twice...)
	require.NoError(t, storetest.ErrOf(s.AppendIf(ctx, session.Cond{Idem: "k"}, twice...)))
	to := storetest.Add(t, s, transcript.UserText("stays"))[0]
	gone := storetest.Add(t, s, transcript.UserText("gone"), storetest.Answer("gone"))[0]
	require.NoError(t, s.Rewind(ctx, to))
	require.NoError(t, storetest.ErrOf(s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 2}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})))
	storetest.Talk(t, s, 10, 3)
	all, err := s.Page(ctx, "", 1000)
	require.NoError(t, err)
	require.Greater(t, len(all), 15)
	ids := func(entries []transcript.Entry) (list []string) {
		for _, e := range entries {
			require.False(t, e.Time.IsZero())
			list = append(list, e.ID)
		}
		return list
	}
	require.NotContains(t, ids(all), gone)
	var texts []string
	for _, e := range all {
		if f, ok := e.Body.(transcript.Fragment); ok && (f.Message().Text() == "twice?" || f.Message().Text() == "once") {
			texts = append(texts, f.Message().Text())
		}
	}
	require.Equal(t, []string{"twice?", "once"}, texts, "what was cut and appended again is shown once")
	for size := 1; size < 7; size++ {
		for _, n := range []int{size, -size} {
			var got []string
			for at := ""; ; {
				page, err := s.Page(ctx, at, n)
				require.NoError(t, err)
				if len(page) == 0 {
					break
				}
				if n > 0 {
					got, at = append(got, ids(page)...), page[len(page)-1].ID
				} else {
					got, at = append(ids(page), got...), page[0].ID
				}
			}
			require.Equal(t, ids(all), got, "pages of %d", n)
		}
	}
	_, err = s.Page(ctx, "nobody", 1)
	require.ErrorIs(t, err, session.ErrNoEntry)
}

// A batch with damage inside that was appended again is shown alike in both directions.
func TestPageOfDamagedBatch(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Close(t, st)
	path := filepath.Join(dir, "agents/main/sessions", s.ID()+".jsonl")
	items := []transcript.Item{transcript.UserText("question"), storetest.Answer("answer")}
	storetest.CutAppend(t, path, "k", 2, items...)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	last := bytes.LastIndexByte(data[:len(data)-1], '\n') + 1
	require.NoError(t, os.WriteFile(path, slices.Insert(data, last, []byte("damage\n")...), 0o600))

	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	_, err = s.AppendIf(t.Context(), session.Cond{Idem: "k"}, items...)
	require.NoError(t, err)
	forward, err := s.Page(t.Context(), "", 9)
	require.NoError(t, err)
	backward, err := s.Page(t.Context(), "", -9)
	require.NoError(t, err)
	require.Equal(t, forward, backward)
}

// Data of the application is on the line, in the hash of a key, and in no request.
func TestApp(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	item := transcript.WithApp(transcript.UserText("hello"), json.RawMessage(`{"channel":"C1"}`))
	done, err := s.AppendIf(ctx, session.Cond{Idem: "k"}, item)
	require.NoError(t, err)
	again, err := s.AppendIf(ctx, session.Cond{Idem: "k"}, item)
	require.NoError(t, err)
	require.Equal(t, done.IDs, again.IDs)
	_, err = s.AppendIf(ctx, session.Cond{Idem: "k"}, transcript.UserText("hello"))
	require.ErrorIs(t, err, session.ErrIdemMismatch)
	_, err = s.Append(ctx, transcript.WithApp(transcript.UserText("x"), json.RawMessage(`{`)))
	require.Error(t, err)
	page, err := s.Page(ctx, "", -1)
	require.NoError(t, err)
	require.JSONEq(t, `{"channel":"C1"}`, string(page[0].App))
	require.NotContains(t, storetest.History(t, s), "C1")
	hits := 0
	for hit, err := range s.Search(ctx, session.Query{Text: "C1"}) {
		require.NoError(t, err)
		require.Equal(t, "app", hit.Type)
		part, err := s.ReadResult(ctx, hit.Entry, session.Slice{})
		require.NoError(t, err)
		require.NotContains(t, part.Text, "C1")
		hits++
	}
	require.Equal(t, 1, hits)
}

// A fork has the pins, the state and the decisions of its base, and nothing that
// is queued or drafted there; what its copied answers have cost is the base's.
func TestForkOfStandingThings(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	resp := storetest.Answer("paid for")
	resp.Model, resp.Usage = "m", transcript.Usage{Input: 10, Output: 1}
	id := storetest.Add(t, s, transcript.UserText("keep this"), resp)[0]
	require.NoError(t, s.Pin(ctx, id))
	require.NoError(t, storetest.ErrOf(s.SetState(ctx, "a", json.RawMessage(`1`), "")))
	require.NoError(t, storetest.ErrOf(s.Queue(ctx, transcript.UserText("queued"))))
	turn := begin(t, s)
	d := turn.Draft("anthropic", "m", transcript.Made{})
	require.NoError(t, d.Write(ctx, "half"))
	require.NoError(t, d.Flush(ctx))
	check := func(at string, state string) {
		t.Helper()
		fork, err := s.Fork(ctx, at, nil)
		require.NoError(t, err)
		p, err := fork.Pending(ctx)
		require.NoError(t, err)
		require.Empty(t, p.Queued)
		pins, err := fork.Pins(ctx)
		require.NoError(t, err)
		require.Len(t, pins, 1)
		values, err := fork.State(ctx)
		require.NoError(t, err)
		require.Len(t, values, 1)
		require.Equal(t, state, string(values[0].Value))
		usage, err := fork.Usage(ctx)
		require.NoError(t, err)
		require.Empty(t, usage)
		turn := begin(t, fork)
		require.NoError(t, turn.End())
		require.NotContains(t, storetest.History(t, fork), "half")
		storetest.Add(t, fork, transcript.UserText("more"), resp)
		usage, err = fork.Usage(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, usage["m"].Answers)
	}
	check(storetest.Add(t, s, transcript.UserText("now"))[0], "1")
	hits := 0
	for _, err := range st.Search(ctx, session.Query{Text: "keep this"}) {
		require.NoError(t, err)
		hits++
	}
	require.Equal(t, 1, hits, "the fork has a copy")
	require.NoError(t, storetest.ErrOf(s.SetState(ctx, "a", json.RawMessage(`2`), "")))
	storetest.Talk(t, s, 0, 5)
	require.NoError(t, storetest.ErrOf(s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})))
	head := storetest.Add(t, s, transcript.UserText("after"))[0]
	check(head, "2")
	p, err := s.Pending(ctx)
	require.NoError(t, err)
	require.Len(t, p.Queued, 1)
	require.NoError(t, storetest.ErrOf(d.Commit(ctx, &transcript.Response{Message: transcript.AssistantText("half and half")})))
	require.NoError(t, turn.End())
}

// A pinned text that was rewound is in no summary, also when a restart no longer
// reads its line.
func TestRewoundPinAfterRestart(t *testing.T) {
	mem := memdriver.New(nil)
	for i := range 3 {
		st := session.OpenDriver(mem, nil)
		s := storetest.Load(t, st, storetest.CLI)
		if i == 0 {
			storetest.Talk(t, s, 0, 2)
			head := entryIDs(t, s)[4]
			for _, text := range []string{"taken back", "kept"} {
				id := storetest.Add(t, s, transcript.UserText(text), storetest.Answer("ok"))[0]
				require.NoError(t, s.Pin(t.Context(), id))
				if text == "taken back" {
					require.NoError(t, s.Rewind(t.Context(), head))
				}
			}
		}
		storetest.Talk(t, s, 10, 5)
		c, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})
		require.NoError(t, err)
		require.Len(t, c.Compaction.Pins, 1)
		require.Equal(t, "kept", c.Compaction.Pins[0].Text)
		storetest.Close(t, st)
		mem = mem.Reopen()
	}
}

// A pin of an entry that was rewound is not carried, also if a line in front of it in
// its batch is damaged.
func TestRewoundPinInADamagedBatch(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("one"), transcript.AssistantText("damaged"), transcript.UserText("taken back"))
	require.NoError(t, s.Pin(t.Context(), ids[2]))
	storetest.Close(t, st)
	files, err := filepath.Glob(filepath.Join(dir, "agents", "*", "sessions", "*.jsonl"))
	require.NoError(t, err)
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	damaged := bytes.Replace(data, []byte(`{"type":"assistant"`), []byte("\x00\x00ype\":\"assistant\""), 1)
	require.NotEqual(t, data, damaged)
	require.NoError(t, os.WriteFile(files[0], damaged, 0o600))

	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s, err = st.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	require.NoError(t, s.Rewind(t.Context(), ids[0]))
	for range 4 {
		storetest.Add(t, s, transcript.AssistantText("ok ok ok ok ok ok"))
		storetest.Add(t, s, transcript.UserText("and more and more and more"))
	}
	for hit, err := range s.Search(t.Context(), session.Query{Text: "taken"}) {
		require.NoError(t, err)
		require.True(t, hit.Rewound)
	}
	done, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1}})
	require.NoError(t, err)
	require.NotEmpty(t, done.Entry)
	require.Empty(t, done.Compaction.Pins)
}
