package search_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/recalltool"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

func TestWindow(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	var ids []string
	for n := range 6 {
		ids = append(ids, storetest.Add(t, s, transcript.UserText(fmt.Sprint("q", n)))...)
		ids = append(ids, storetest.Add(t, s, transcript.AssistantText(fmt.Sprint("a", n)))...)
		require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Title: new(fmt.Sprint(n))}))
	}
	window := func(id string, before, after int) (got []string) {
		entries, err := search.Window(t.Context(), s, id, before, after)
		require.NoError(t, err)
		for _, e := range entries {
			got = append(got, e.ID)
		}
		return got
	}
	require.Equal(t, ids[3:7], window(ids[4], 1, 2))
	require.Equal(t, ids[:1], window(ids[0], 0, 0))
	require.Equal(t, ids, window(ids[5], 100, 100))
	require.Equal(t, ids[:3], window(ids[2], 9, -1))
	require.NoError(t, s.Rewind(t.Context(), ids[3]))
	last := storetest.Add(t, s, transcript.UserText("again"))
	require.Equal(t, []string{ids[2], ids[3], last[0]}, window(last[0], 2, 2))
	require.Equal(t, ids[6:9], window(ids[7], 1, 1), "what was taken back is there around itself")
	for _, id := range []string{"x", ""} {
		_, err := search.Window(t.Context(), s, id, 1, 1)
		require.ErrorIs(t, err, session.ErrNoEntry, id)
	}
}

// A window shows a cut append and its repetition only once, and around a cut
// entry the rest of its append.
func TestWindowOfCutAppend(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	first := storetest.Add(t, s, transcript.UserText("first"))[0]
	twice := []transcript.Item{transcript.UserText("twice?"), storetest.Answer("once"), transcript.UserText("good")}
	storetest.CutAppend(t, filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl"), "k", 2, twice...)
	require.NoError(t, storetest.ErrOf(s.AppendIf(ctx, session.Cond{Idem: "k"}, twice...)))
	last := storetest.Add(t, s, transcript.UserText("last"))[0]
	said := func(id string, before, after int) (texts []string) {
		t.Helper()
		entries, err := search.Window(ctx, s, id, before, after)
		require.NoError(t, err)
		for _, e := range entries {
			f, _ := e.Body.(transcript.MessageLine)
			texts = append(texts, f.Message().Text())
		}
		return texts
	}
	whole := []string{"first", "twice?", "once", "good", "last"}
	require.Equal(t, whole, said(first, 9, 9))
	require.Equal(t, whole, said(last, 9, 9))
	require.Equal(t, whole[:3], said(first, 0, 2))
	require.Equal(t, whole[2:], said(last, 2, 0))

	var ids []string // in order: first, two cut ones, three again, last
	for e, err := range s.Entries(ctx, "") {
		require.NoError(t, err)
		if _, ok := e.Body.(transcript.MessageLine); ok {
			ids = append(ids, e.ID)
		}
	}
	require.Len(t, ids, 7)
	require.Equal(t, whole, said(ids[4], 9, 9))
	for _, id := range ids[1:3] {
		require.Equal(t, []string{"first", "twice?", "once", "twice?", "once", "good", "last"}, said(id, 9, 9))
	}
}

func TestReadResult(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("go"))
	storetest.Add(t, s, storetest.Answer("", "c1"))
	text := "one\ntwo ü\nthree\nfour\nfive"
	id := storetest.Add(t, s, transcript.ToolResult("c1", text))[0]
	storetest.Add(t, s, transcript.Clip{Clips: []transcript.Clipping{{Entry: id, Content: "short"}}})
	for _, tt := range []struct {
		slice   search.Slice
		want    string
		next    int
		matches int
	}{
		{search.Slice{}, text, 0, 0},
		{search.Slice{From: 2, To: 3}, "two ü\nthree", 0, 0},
		{search.Slice{From: 4}, "four\nfive", 0, 0},
		{search.Slice{From: 9}, "", 0, 0},
		{search.Slice{To: 1}, "one", 0, 0},
		{search.Slice{Offset: 9, Max: 3}, "\nth", 13, 0},
		{search.Slice{Max: 9}, "one\ntwo ", 8, 0},
		{search.Slice{Offset: 8, Max: 1}, "ü", 10, 0},
		{search.Slice{Match: "^t"}, "2: two ü\n3: three", 0, 2},
		{search.Slice{Match: "one|five", Around: 1}, "1: one\n2: two ü\n--\n4: four\n5: five", 0, 2},
		{search.Slice{Match: "t", From: 3, To: 4}, "3: three", 0, 1},
		{search.Slice{Match: "e", Max: 12}, "1: one", 0, 3},
	} {
		p, err := search.Read(t.Context(), s, id, tt.slice)
		require.NoError(t, err)
		require.Equal(t, search.Part{Entry: id, Text: tt.want, Bytes: len(text), Lines: 5, Next: tt.next, Matches: tt.matches}, p, "%+v", tt.slice)
	}
	for _, bad := range []search.Slice{{Match: "("}, {From: -1}, {From: 3, To: 2}} {
		_, err := search.Read(t.Context(), s, id, bad)
		require.ErrorIs(t, err, search.ErrQuery)
	}
	for _, unknown := range []string{"x", ""} {
		_, err := search.Read(t.Context(), s, unknown, search.Slice{})
		require.ErrorIs(t, err, session.ErrNoEntry, unknown)
	}
}

// The parts of a text, read in turn, are the text.
func FuzzReadResult(f *testing.F) {
	f.Add("a\nüb\n\nc", 3, 1, 2, "b")
	f.Fuzz(func(t *testing.T, text string, most, from, to int, match string) {
		if !utf8.ValidString(text) || strings.TrimSpace(text) == "" || most < 1 {
			t.Skip()
		}
		st := session.OpenDriver(memdriver.New(nil), nil)
		defer storetest.Close(t, st)
		s := storetest.Load(t, st, storetest.CLI)
		id := storetest.Add(t, s, transcript.UserText(text))[0]
		var sb strings.Builder
		for at := 0; ; {
			p, err := search.Read(t.Context(), s, id, search.Slice{Offset: at, Max: most})
			require.NoError(t, err)
			require.True(t, utf8.ValidString(p.Text))
			sb.WriteString(p.Text)
			if p.Next == 0 {
				break
			}
			require.Greater(t, p.Next, at)
			at = p.Next
		}
		require.Equal(t, text, sb.String())
		lines := strings.Split(text, "\n")
		if from >= 1 && to >= from {
			p, err := search.Read(t.Context(), s, id, search.Slice{From: from, To: to, Max: len(text) + 1})
			require.NoError(t, err)
			require.Equal(t, strings.Join(lines[min(from-1, len(lines)):min(to, len(lines))], "\n"), p.Text)
		}
		if re, err := regexp.Compile(match); err == nil && match != "" {
			p, err := search.Read(t.Context(), s, id, search.Slice{Match: match, Max: 10*len(text) + 1000})
			require.NoError(t, err)
			n := 0
			for _, line := range lines {
				if re.MatchString(line) {
					n++
				}
			}
			require.Equal(t, n, p.Matches)
		}
	})
}

// ask runs one of the tools.
func ask(t *testing.T, tools []search.RecallTool, name string, input any) (string, error) {
	t.Helper()
	raw, err := json.Marshal(input)
	require.NoError(t, err)
	for _, tool := range tools {
		if tool.Name == name {
			return tool.Call(t.Context(), raw)
		}
	}
	t.Fatalf("no tool %s", name)
	return "", nil
}

func TestRecallTools(t *testing.T) {
	c := &storetest.Clock{Now: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Now: c.Tick, Compact: compact.Options{Keep: compact.Keep{Turns: 1}}})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	r := rand.New(rand.NewPCG(1, 1))
	filler := func() string {
		return strings.Repeat(fmt.Sprintf("Nothing of note on day %d. ", r.IntN(99)), 30)
	}
	fact := storetest.Add(t, s, transcript.UserText("The wedding of Ana is on 14 May, at the old mill."))[0]
	storetest.Add(t, s, transcript.AssistantText("Noted."))
	storetest.Add(t, s, transcript.UserText("read"))
	storetest.Add(t, s, storetest.Answer("", "c1"))
	long := storetest.Add(t, s, transcript.ToolResult("c1", strings.Repeat("a line of output\n", 2000)+"total: 7,312 EUR\n"))[0]
	storetest.Add(t, s, transcript.AssistantText(filler()))
	storetest.Add(t, s, transcript.UserText(filler()))
	storetest.Add(t, s, transcript.AssistantText(filler()))
	storetest.Add(t, s, transcript.UserText("and the wedding?"))
	tools := search.RecallTools(s)
	require.Len(t, tools, 3)
	for _, tool := range tools {
		require.True(t, json.Valid(tool.InputSchema), tool.Name)
	}
	got, err := ask(t, tools, recalltool.Search, map[string]any{"query": "wedding"})
	require.NoError(t, err)
	require.Contains(t, got, "Nothing that is no longer shown")
	done, err := s.Compact(t.Context(), nil)
	require.NoError(t, err)
	require.NotEmpty(t, done.Entry)

	got, err = ask(t, tools, recalltool.Search, map[string]any{"query": "When is the wedding of Ana?", "role": "user"})
	require.NoError(t, err)
	require.Contains(t, got, "[entry "+fact+", 2026-11-20 08:00, user]\n  The wedding of Ana is on 14 May")
	require.NotContains(t, got, "and the wedding?", "the history has it")
	for _, until := range []string{"", "2026-11-21"} {
		got, err = ask(t, tools, recalltool.Search, map[string]any{"query": "wedding", "since": "2026-11-21", "until": until})
		require.NoError(t, err)
		require.Contains(t, got, "Nothing that is no longer shown")
	}

	got, err = ask(t, tools, recalltool.Window, map[string]any{"entry": fact, "after": 1})
	require.NoError(t, err)
	next := storetest.EntryIDs(t, s)[2]
	require.Equal(t, "[entry "+fact+", 2026-11-20 08:00, user]\n  The wedding of Ana is on 14 May, at the old mill.\n\n"+
		"[entry "+next+", 2026-11-20 08:00, assistant]\n  Noted.\n", got)

	got, err = ask(t, tools, recalltool.Read, map[string]any{"entry": long})
	require.NoError(t, err)
	require.Less(t, len(got), 8_200)
	require.Contains(t, got, "go on with offset ")
	got, err = ask(t, tools, recalltool.Read, map[string]any{"entry": long, "match": "total"})
	require.NoError(t, err)
	require.Contains(t, got, "2001: total: 7,312 EUR\n[1 of 2002 lines match]")

	got, err = ask(t, tools, recalltool.Search, map[string]any{"query": "EUR", "role": "tool"})
	require.NoError(t, err)
	require.Contains(t, got, "[entry "+long+", 2026-11-20 08:00, tool read_file, in part]\n")

	other, err := st.Create(t.Context(), session.Key{Agent: "main", Channel: "web", Peer: "q"}, nil)
	require.NoError(t, err)
	far := storetest.Add(t, other, transcript.UserText("the wedding cake"))[0]
	_, err = ask(t, tools, recalltool.Read, map[string]any{"entry": far})
	require.ErrorIs(t, err, session.ErrNoEntry, "another session is out of reach")
	require.NotContains(t, err.Error(), s.Ref().ID, "a model has no use for the session")
	wide := search.RecallTools(s, other)
	got, err = ask(t, wide, recalltool.Search, map[string]any{"query": "cake"})
	require.NoError(t, err)
	require.Contains(t, got, far)
	got, err = ask(t, wide, recalltool.Read, map[string]any{"entry": far})
	require.NoError(t, err)
	require.Equal(t, "  the wedding cake", got)

	for name, input := range map[string]any{
		recalltool.Search: map[string]any{"query": "x", "session": "y"},
		recalltool.Window: map[string]any{"entry": 7},
		recalltool.Read:   []int{1},
	} {
		_, err := ask(t, tools, name, input)
		require.ErrorContains(t, err, "does not fit the schema")
	}
	_, err = ask(t, search.RecallTools(nil), recalltool.Search, map[string]any{"query": "x"})
	require.Error(t, err)
	_, err = ask(t, tools, recalltool.Search, map[string]any{"query": "??"})
	require.ErrorIs(t, err, search.ErrQuery)
	_, err = ask(t, tools, recalltool.Search, map[string]any{"query": "x", "since": "tomorrow"})
	require.ErrorContains(t, err, "is not a time")
}

// Words of the application's data neither hide an entry from a model nor rank it.
func TestRecallIgnoresApp(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	item := transcript.WithApp(transcript.UserText("the zebra is striped"), json.RawMessage(`{"a":"giraffe quokka"}`))
	storetest.Add(t, s, item, storetest.Answer("yes"))
	storetest.Talk(t, s, 0, 5)
	require.NoError(t, storetest.ErrOf(s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})))
	tool := search.RecallTools(s)[0]
	text, err := tool.Call(t.Context(), json.RawMessage(`{"query":"giraffe quokka striped"}`))
	require.NoError(t, err)
	require.Contains(t, text, "the zebra is striped")
	text, err = tool.Call(t.Context(), json.RawMessage(`{"query":"giraffe quokka"}`))
	require.NoError(t, err)
	require.NotContains(t, text, "zebra")
}

// The results of the tools have a limit: cuts are between characters, and a window names
// entries that it shows in part.
func TestRecallLimits(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	other, err := st.Create(t.Context(), storetest.CLI, nil)
	require.NoError(t, err)
	ids := storetest.Add(t, other, transcript.UserText("a short zebra "+strings.Repeat("ü", 120)))
	for range 20 {
		ids = append(ids, storetest.Add(t, other, transcript.UserText("zebra "+strings.Repeat("ü", 6_000)))...)
	}
	tools := search.RecallTools(s, other)
	got, err := ask(t, tools, recalltool.Search, map[string]any{"query": "zebra", "limit": 20})
	require.NoError(t, err)
	require.True(t, utf8.ValidString(got))
	require.Greater(t, len(got), 7_500)
	require.LessOrEqual(t, len(got), 8_100)
	require.Equal(t, 20, strings.Count(got, "[entry "), "none is left out")
	require.Contains(t, got, "[more entries have some of the words; go on with offset 20]")
	got, err = ask(t, tools, recalltool.Search, map[string]any{"query": "zebra", "limit": 20, "offset": 20})
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(got, "[entry "))
	require.NotContains(t, got, "more entries")
	got, err = ask(t, tools, recalltool.Search, map[string]any{"query": "zebra", "offset": 21})
	require.NoError(t, err)
	require.Equal(t, "There are no more.", got)
	for _, around := range []int{0, 1, 3} {
		got, err = ask(t, tools, recalltool.Window, map[string]any{"entry": ids[10], "before": around, "after": around})
		require.NoError(t, err)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, len(got), 8_001)
		require.Equal(t, 2*around+1, strings.Count(got, "in part]\n"))
	}
	for _, text := range []string{"z\n", "z\n\n", "z\u2028"} {
		id := storetest.Add(t, other, transcript.UserText(strings.Repeat(text, 9_000)))[0]
		got, err = ask(t, tools, recalltool.Window, map[string]any{"entry": id, "before": 0, "after": 0})
		require.NoError(t, err)
		require.Greater(t, len(got), 7_500, "short lines, which indentation makes twice as long")
		require.LessOrEqual(t, len(got), 8_001)
	}
	many := make([]transcript.Item, 1_010)
	for i := range many {
		many[i] = transcript.UserText("giraffe")
	}
	storetest.Add(t, other, many...)
	got, err = ask(t, tools, recalltool.Search, map[string]any{"query": "giraffe", "limit": 5, "offset": 1_005})
	require.NoError(t, err)
	require.NotContains(t, got, "go on with offset", "it would be the same page")
}
