package search_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// Pages in both directions are the conversation, whatever their size.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	storetest.Talk(t, s, 0, 6)
	twice := []transcript.Item{transcript.UserText("twice?"), storetest.Answer("once"), transcript.UserText("good")}
	storetest.CutAppend(t, filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl"), "k", 2, twice...)
	require.NoError(t, storetest.ErrOf(s.AppendIf(ctx, session.Cond{Idem: "k"}, twice...)))
	to := storetest.Add(t, s, transcript.UserText("stays"))[0]
	gone := storetest.Add(t, s, transcript.UserText("gone"), storetest.Answer("gone"))[0]
	require.NoError(t, s.Rewind(ctx, to))
	require.NoError(t, storetest.ErrOf(s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 2}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})))
	storetest.Talk(t, s, 10, 3)
	all, err := search.Page(ctx, s, "", 1000)
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
		if f, ok := e.Body.(transcript.MessageLine); ok && (f.Message().Text() == "twice?" || f.Message().Text() == "once") {
			texts = append(texts, f.Message().Text())
		}
	}
	require.Equal(t, []string{"twice?", "once"}, texts, "what was cut and appended again is shown once")
	for size := 1; size < 7; size++ {
		for _, n := range []int{size, -size} {
			var got []string
			for at := ""; ; {
				page, err := search.Page(ctx, s, at, n)
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
	for n, want := range map[int][]transcript.Entry{-1: nil, 0: nil, 1: all[:1]} {
		page, err := search.Page(ctx, s, s.Ref().ID, n)
		require.NoError(t, err)
		require.Equal(t, want, page, "%d from the header on", n)
	}
	_, err = search.Page(ctx, s, "nobody", 1)
	require.ErrorIs(t, err, session.ErrNoEntry)
}

// A damaged batch that was appended again looks alike in both directions.
func TestPageOfDamagedBatch(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Close(t, st)
	path := filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl")
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
	forward, err := search.Page(t.Context(), s, "", 9)
	require.NoError(t, err)
	backward, err := search.Page(t.Context(), s, "", -9)
	require.NoError(t, err)
	require.Equal(t, forward, backward)
}

// A page of a long conversation reads only its own part.
func TestPageReadsLittle(t *testing.T) {
	d := &watched{Driver: memdriver.New(nil)}
	st := session.OpenDriver(d, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 200)
	for _, n := range []int{5, -5} {
		page, err := search.Page(t.Context(), s, "", n) // then knows all places
		require.NoError(t, err)
		require.Len(t, page, 5)
		d.records.Store(0)
		d.scans.Store(0)
		page, err = search.Page(t.Context(), s, "", n)
		require.NoError(t, err)
		require.Len(t, page, 5)
		require.Less(t, d.records.Load(), int64(20))
		require.Equal(t, int64(2), d.scans.Load(), "one finds the entries in the outline")
	}
}

// A search reads a session once, and again for the calls of results or for the entries of
// carried items. With a limit it ends early.
func TestSearchReadsLittle(t *testing.T) {
	d := &watched{Driver: memdriver.New(nil)}
	st := session.OpenDriver(d, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 300)
	from := storetest.Add(t, s, transcript.UserText("a zebra"), transcript.UserText("a zebra"))[0]
	for _, id := range []string{"c", "d"} {
		storetest.Add(t, s, storetest.Answer("", id))
		storetest.Add(t, s, transcript.ToolResult(id, "a giraffe"))
	}
	item := transcript.Carried{Entry: "elsewhere", Text: "a quokka"}
	storetest.Add(t, s, transcript.Compaction{Summary: "animals", FirstKept: from, CoversTo: from, Said: []transcript.Carried{item, item}})
	hits(t, s, search.Query{Text: "zebra"}) // then knows all places
	for _, tt := range []struct {
		text  string
		hits  int
		scans int64 // one of them places up to 256 hits
	}{{"nothing", 0, 1}, {"zebra", 2, 2}, {"giraffe", 2, 3}, {"quokka", 1, 3}, {"question", 300, 3}} {
		d.scans.Store(0)
		require.Len(t, hits(t, s, search.Query{Text: tt.text}), tt.hits, tt.text)
		require.Equal(t, tt.scans, d.scans.Load(), tt.text)
	}
	d.records.Store(0)
	require.Len(t, hits(t, s, search.Query{Text: "question", Limit: 1}), 1)
	require.Less(t, d.records.Load(), int64(200), "some hits are read ahead")

	ctx, cancel := context.WithCancel(t.Context())
	d.records.Store(0)
	d.read = cancel
	for _, err := range search.Session(ctx, s, search.Query{Text: "words"}) {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Less(t, d.records.Load(), int64(200))
}
