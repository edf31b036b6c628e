package session_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// The cost of resuming a conversation depends on its history, not on its
// transcript.
func TestResumeReadsTheHistoryAlone(t *testing.T) {
	mem := memdriver.New(nil)
	st := session.OpenDriver(mem, nil)
	s := storetest.Load(t, st, storetest.CLI)
	keep := &compact.Options{Keep: compact.Keep{Turns: 5}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))}
	for i := range 20 {
		storetest.Talk(t, s, i*20, 20)
		require.NoError(t, storetest.ErrOf(s.Compact(t.Context(), keep)))
	}
	storetest.Talk(t, s, 400, 3)
	want, info, ref := storetest.Request(t, s), storetest.Info(t, s), s.Ref()
	first := ""
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		if f, ok := e.Body.(transcript.MessageLine); ok && f.Kind == transcript.TypeAssistant && first == "" {
			first = e.ID
		}
	}
	storetest.Close(t, st)

	d := &storetest.CountingDriver{Driver: memdriver.Reopen(mem)}
	st = session.OpenDriver(d, nil)
	defer storetest.Close(t, st)
	s = mustGet(t, st, ref)
	if got := storetest.Request(t, s); got != want || storetest.Turns(t, s) != 403 {
		t.Errorf("%d turns, the request is\n%s\nit was\n%s", storetest.Turns(t, s), got, want)
	}
	require.Equal(t, fmt.Sprint(info), fmt.Sprint(storetest.Info(t, s)))
	if d.Records > 40 {
		t.Errorf("%d records were read, of which the history has 17", d.Records)
	}

	// A rewind to an older entry reads the rest.
	require.NoError(t, s.Rewind(t.Context(), first))
	h, err := s.History(t.Context())
	require.NoError(t, err)
	require.Len(t, h.Messages, 2)
	require.Equal(t, 1, storetest.Turns(t, s))
}

// After a rewind to the beginning a restart sees the empty history, and earlier
// findings about models.
func TestResumeAfterARewindToTheBeginning(t *testing.T) {
	mem := memdriver.New(nil)
	st := session.OpenDriver(mem, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 100)
	_, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 5}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})
	require.NoError(t, err)
	storetest.Talk(t, s, 100, 5)
	learned := transcript.Calibration{Model: "m", Window: 9000}
	old := storetest.Add(t, s, transcript.UserText("old"), learned)
	require.NoError(t, s.Rewind(t.Context(), s.Ref().ID))
	storetest.Talk(t, s, 105, 2)
	want, info := storetest.History(t, s), storetest.Info(t, s)
	storetest.Close(t, st)

	st = session.OpenDriver(memdriver.Reopen(mem), nil)
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	require.Equal(t, want, storetest.History(t, s))
	require.Equal(t, 2, storetest.Turns(t, s))
	require.Equal(t, info, storetest.Info(t, s))
	c, err := s.Calibration(t.Context(), "m", "")
	require.NoError(t, err)
	require.Equal(t, learned, c)
	require.NoError(t, s.Rewind(t.Context(), old[0]))
	storetest.CompareWithWhole(t, "after the rewind is undone", s, 0)
	require.Equal(t, 106, storetest.Turns(t, s))
}

// A compaction of another program may lack its number of turns, or name an entry that
// a rewind has taken back: its entry is then looked for among all lines, even by a
// reader of the last part.
func TestResumeBeforeAForeignCompaction(t *testing.T) {
	for name, compaction := range map[string]func(asked, rewound, last string) transcript.Compaction{
		"without turns": func(_, _, last string) transcript.Compaction {
			return transcript.Compaction{Summary: "foreign", FirstKept: last, CoversTo: last}
		},
		"rewound": func(asked, rewound, _ string) transcript.Compaction {
			return transcript.Compaction{Summary: "foreign", FirstKept: rewound, CoversTo: asked, TurnsBefore: 4}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			st := storetest.Open(t, dir, storetest.Unsynced)
			s := storetest.Load(t, st, storetest.CLI)
			storetest.Talk(t, s, 0, 3)
			asked := storetest.Add(t, s, transcript.UserText("asked"))[0]
			kept := storetest.Add(t, s, storetest.Answer("a"), transcript.UserText("kept"))[1]
			storetest.Add(t, s, storetest.Answer("b"), transcript.Compaction{Summary: "s", FirstKept: kept, CoversTo: kept, TurnsBefore: 4})
			rewound := storetest.Add(t, s, transcript.UserText("rewound"))[0]
			storetest.Undo(t, s, 1)
			last := storetest.Add(t, s, transcript.UserText("last"))[0]
			storetest.Close(t, st)

			st = storetest.Open(t, dir, storetest.Unsynced)
			defer storetest.Close(t, st)
			s = storetest.Load(t, st, storetest.CLI)
			storetest.CompareWithWhole(t, "before", s, rebuild.SummaryUser)
			storetest.Add(t, s, compaction(asked, rewound, last))
			storetest.CompareWithWhole(t, "after", s, rebuild.SummaryUser)
		})
	}
}

// The same holds without an index: the search for the last compaction begins at
// the end.
func TestResumeWithoutIndex(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	for i := range 8 {
		storetest.Talk(t, s, i*100, 100)
		storetest.Add(t, s, transcript.UserText("look"), storetest.Answer("", fmt.Sprint("a", i), fmt.Sprint("b", i)))
		storetest.Add(t, s, transcript.ToolResult(fmt.Sprint("b", i), "B"), transcript.ToolResult(fmt.Sprint("a", i), "A"), storetest.Answer("I see"))
		require.NoError(t, storetest.ErrOf(s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 3 + i%2}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})))
	}
	storetest.Talk(t, s, 800, 2)
	want, turns, info, ref := storetest.Request(t, s), storetest.Turns(t, s), storetest.Info(t, s), s.Ref()
	storetest.Close(t, st)
	storetest.LoseIndex(t, dir)

	files, err := filedriver.Open(dir, nil)
	require.NoError(t, err)
	d := &storetest.CountingDriver{Driver: files}
	st = session.OpenDriver(d, nil)
	s = mustGet(t, st, ref)
	if got := storetest.Request(t, s); got != want || storetest.Turns(t, s) != turns {
		t.Errorf("%d turns, want %d, the request is\n%s\nit was\n%s", storetest.Turns(t, s), turns, got, want)
	}
	storetest.Add(t, s, transcript.UserText("still here?"))
	if d.Records > 100 {
		t.Errorf("%d records were read", d.Records)
	}
	require.Equal(t, turns+1, storetest.Turns(t, s))
	storetest.Close(t, st)
	storetest.LoseIndex(t, dir)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	now := storetest.Info(t, storetest.Load(t, st, storetest.CLI))
	require.Equal(t, []any{info.Title, info.Messages + 1, turns + 1, ref}, []any{now.Title, now.Messages, now.Turns, now.Ref})
}

// Info needs all of it.
func TestInfoWithoutIndex(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 400)
	require.NoError(t, storetest.ErrOf(s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 3}})))
	info, ref := storetest.Info(t, s), s.Ref()
	storetest.Close(t, st)
	storetest.LoseIndex(t, dir)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s = mustGet(t, st, ref)
	require.Equal(t, fmt.Sprint(info), fmt.Sprint(storetest.Info(t, s)))
}
