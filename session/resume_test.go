package session_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// To go on with a conversation costs what its history has, not what its
// transcript has.
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
	want, info, ref := storetest.Request(t, s), s.Info(), s.Ref()
	first := ""
	for e, err := range s.Entries(t.Context()) {
		require.NoError(t, err)
		if f, ok := e.Body.(transcript.Fragment); ok && f.Kind == transcript.TypeAssistant && first == "" {
			first = e.ID
		}
	}
	storetest.Close(t, st)

	d := &storetest.CountingDriver{Driver: mem.Reopen()}
	st = session.OpenDriver(d, nil)
	defer storetest.Close(t, st)
	s, err := st.Get(t.Context(), ref)
	require.NoError(t, err)
	if got := storetest.Request(t, s); got != want || s.Turns() != 403 {
		t.Errorf("%d turns, the request is\n%s\nit was\n%s", s.Turns(), got, want)
	}
	require.Equal(t, fmt.Sprint(info), fmt.Sprint(s.Info()))
	if d.Records > 40 {
		t.Errorf("%d records were read, of which the history has 17", d.Records)
	}

	// A rewind to an older entry reads the rest.
	require.NoError(t, s.Rewind(t.Context(), first))
	h, err := s.History(t.Context())
	require.NoError(t, err)
	require.Len(t, h.Messages, 2)
	require.Equal(t, 1, s.Turns())
}

// After a rewind to the beginning a restart sees the empty history, and what was
// learned about models before it. It reads back to the last compaction at most.
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
	require.NoError(t, s.Rewind(t.Context(), s.ID()))
	storetest.Talk(t, s, 105, 2)
	want, info := storetest.History(t, s), s.Info()
	storetest.Close(t, st)

	d := &storetest.CountingDriver{Driver: mem.Reopen()}
	st = session.OpenDriver(d, nil)
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	require.Equal(t, want, storetest.History(t, s))
	require.Equal(t, 2, s.Turns())
	require.Equal(t, info, s.Info())
	c, err := s.Calibration(t.Context(), "m")
	require.NoError(t, err)
	require.Equal(t, learned, c)
	require.Less(t, d.Records, 30)
	require.NoError(t, s.Rewind(t.Context(), old[0]))
	compareWithWhole(t, "after the rewind is undone", s, 0)
	require.Equal(t, 106, s.Turns())
}

// A session that is resumed from the last compaction has the history that the
// fold of all lines gives.
func TestResumeIsTheWholeFold(t *testing.T) {
	t.Parallel()
	seeds := storetest.Extent(*storetest.Faults, 40, 150, 600)
	skipped := 0
	for seed := range uint64(seeds) {
		mem := memdriver.New(nil)
		skipped += resumeAtRandom(t, seed, "", func() driver.Driver { defer func() { mem = mem.Reopen() }(); return mem })
	}
	if skipped < seeds {
		t.Errorf("in %d runs %d times lines were left out: the test shows nothing", seeds, skipped)
	}
}

// The same without an index, in transcripts that are worth a search.
func TestSearchIsTheWholeFold(t *testing.T) {
	t.Parallel()
	seeds := storetest.Extent(*storetest.Faults, 6, 40, 160)
	skipped := 0
	for seed := range uint64(seeds) {
		dir := t.TempDir()
		skipped += resumeAtRandom(t, seed, strings.Repeat(" and so on", 500), func() driver.Driver {
			storetest.LoseIndex(t, dir)
			d, err := filedriver.Open(dir, &filedriver.Options{Sync: session.SyncNever})
			require.NoError(t, err)
			return d
		})
	}
	if skipped < seeds/2 {
		t.Errorf("in %d runs %d times lines were left out: the test shows nothing", seeds, skipped)
	}
}

// A compaction that another program has made may not say how many turns it stands for,
// or name an entry that a rewind has taken back: what it says is looked for among all
// lines, also by who has read the last part of them.
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
			require.NoError(t, turn.Undo(t.Context(), s, 1))
			last := storetest.Add(t, s, transcript.UserText("last"))[0]
			storetest.Close(t, st)

			st = storetest.Open(t, dir, storetest.Unsynced)
			defer storetest.Close(t, st)
			s = storetest.Load(t, st, storetest.CLI)
			compareWithWhole(t, "before", s, rebuild.SummaryUser)
			storetest.Add(t, s, compaction(asked, rewound, last))
			compareWithWhole(t, "after", s, rebuild.SummaryUser)
		})
	}
}

func resumeAtRandom(t *testing.T, seed uint64, padding string, reopen func() driver.Driver) (skipped int) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 7))
	summary := "s"
	if padding != "" {
		summary = storetest.WholeSummary
	}
	opts := &session.Options{Summary: rebuild.SummaryForm(seed % 3)}
	st := session.OpenDriver(reopen(), opts)
	s := storetest.Load(t, st, storetest.CLI)
	ref := s.Ref()
	var ids []string
	call := 0
	for step := range 60 {
		switch rnd.IntN(18) {
		case 0, 1, 2:
			ids = append(ids, storetest.Add(t, s, transcript.UserText(fmt.Sprint("question ", step, padding)))...)
		case 3, 4:
			ids = append(ids, storetest.Add(t, s, storetest.Answer(fmt.Sprint("answer ", step, padding)))...)
		case 5:
			call++
			ids = append(ids, storetest.Add(t, s, storetest.Answer("", fmt.Sprint("c", call)))...)
		case 6:
			ids = append(ids, storetest.Add(t, s, transcript.ToolResult(fmt.Sprint("c", max(call-rnd.IntN(2), 0)), "out"))...)
		case 7, 8:
			_, _ = s.Compact(t.Context(), &compact.Options{
				Keep: compact.Keep{Turns: 1 + rnd.IntN(4)}, Summarizer: compact.SummarizerFunc(storetest.Says(summary)),
			})
		case 9:
			if len(ids) > 0 && rnd.IntN(3) == 0 {
				require.NoError(t, s.Rewind(t.Context(), ids[rnd.IntN(len(ids))]))
			}
		case 10:
			if len(ids) > 0 {
				storetest.Add(t, s, transcript.Clip{Clips: []transcript.Clipping{{Entry: ids[rnd.IntN(len(ids))], Content: "clipped"}}})
			}
		case 12:
			require.NoError(t, storetest.ErrOf(turn.Queue(t.Context(), s, transcript.UserText(fmt.Sprint("queued ", step)))))
		case 13:
			tn, err := turn.Begin(t.Context(), s)
			require.NoError(t, err)
			done, err := turn.Drain(t.Context(), s, 0)
			require.NoError(t, err)
			ids = append(ids, done...)
			if rnd.IntN(2) == 0 { // of a turn that dies
				d := tn.Draft("anthropic", "m", transcript.Made{})
				require.NoError(t, d.Write(t.Context(), fmt.Sprint("drafted ", step)))
				require.NoError(t, d.Flush(t.Context()))
			}
			require.NoError(t, tn.End())
		case 14, 15:
			if p, err := s.Pending(t.Context()); err == nil && len(p.Calls) > 0 {
				c := p.Calls[rnd.IntN(len(p.Calls))]
				storetest.Add(t, s, []transcript.Item{
					transcript.Dispatch{Call: c.Entry, CallID: c.Call.ID},
					transcript.Decision{Call: c.Entry, CallID: c.Call.ID, Verdict: transcript.Hold},
					transcript.Decision{Call: c.Entry, CallID: c.Call.ID, Verdict: transcript.Reject, Reason: "no"},
				}[rnd.IntN(3)])
			}
		case 16:
			if len(ids) > 0 {
				if id := ids[rnd.IntN(len(ids))]; rnd.IntN(3) == 0 {
					require.NoError(t, turn.Unpin(t.Context(), s, id))
				} else {
					_ = turn.Pin(t.Context(), s, id) // a call has no text
				}
			}
		case 17:
			require.NoError(t, storetest.ErrOf(turn.SetValue(t.Context(), s, fmt.Sprint("v", rnd.IntN(3)), []json.RawMessage{nil, fmt.Append(nil, step)}[rnd.IntN(2)], "")))
		case 11: // an append with an idempotency key, and again
			cond, item := session.Cond{Idem: fmt.Sprint("k", rnd.IntN(5))}, transcript.AssistantText("once")
			done, err := s.AppendIf(t.Context(), cond, item)
			require.NoError(t, err)
			if again, err := s.AppendIf(t.Context(), cond, item); err != nil || !again.Repeated || !slices.Equal(again.IDs, done.IDs) || again.Rewound != done.Rewound {
				t.Fatalf("seed %d: %+v, %v, and then %+v", seed, done, err, again)
			}
		}
		if rnd.IntN(4) > 0 {
			continue
		}
		info := s.Info()
		compareWithWhole(t, fmt.Sprintf("seed %d, step %d, before the restart", seed, step), s, opts.Summary)
		storetest.Close(t, st)
		d := &storetest.CountingDriver{Driver: reopen()}
		st = session.OpenDriver(d, opts)
		var err error
		s, err = st.Get(t.Context(), ref)
		require.NoError(t, err)
		require.NoError(t, storetest.ErrOf(s.History(t.Context())))
		read := d.Records
		whole := compareWithWhole(t, fmt.Sprintf("seed %d, step %d", seed, step), s, opts.Summary)
		require.Equal(t, info, s.Info(), "seed %d, step %d", seed, step)
		if total := d.Records - read; read < total {
			skipped++
		}
		if rnd.IntN(3) == 0 {
			health, err := s.Health(t.Context())
			require.NoError(t, err)
			if a, b := fmt.Sprint(health.Repairs), fmt.Sprint(whole.Report()); a != b {
				t.Fatalf("seed %d, step %d: repairs %s, want %s", seed, step, a, b)
			}
		}
	}
	storetest.Close(t, st)
	return skipped
}

func compareWithWhole(t testing.TB, where string, s *session.Session, form rebuild.SummaryForm) *rebuild.Fold {
	t.Helper()
	whole := storetest.WholeFold(t, s, form)
	h, err := s.History(t.Context())
	require.NoError(t, err)
	p, err := s.Pending(t.Context())
	require.NoError(t, err)
	pins, err := turn.Pins(t.Context(), s)
	require.NoError(t, err)
	values, err := turn.Values(t.Context(), s)
	require.NoError(t, err)
	standing := whole.Standing()
	got := fmt.Sprint(storetest.JSON(t, h), s.Turns(), storetest.JSON(t, p), pins, storetest.JSON(t, values))
	want := fmt.Sprint(storetest.JSON(t, whole.History()), whole.Turns(), storetest.JSON(t, whole.Pending()), standing.Pins, storetest.JSON(t, standing.State))
	require.Equal(t, want, got, where)
	return whole
}

// Without an index it is the same: the last compaction is looked for from the
// end.
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
	want, turns, info, ref := storetest.Request(t, s), s.Turns(), s.Info(), s.Ref()
	storetest.Close(t, st)
	storetest.LoseIndex(t, dir)

	files, err := filedriver.Open(dir, nil)
	require.NoError(t, err)
	d := &storetest.CountingDriver{Driver: files}
	st = session.OpenDriver(d, nil)
	s, err = st.Get(t.Context(), ref)
	require.NoError(t, err)
	if got := storetest.Request(t, s); got != want || s.Turns() != turns {
		t.Errorf("%d turns, want %d, the request is\n%s\nit was\n%s", s.Turns(), turns, got, want)
	}
	storetest.Add(t, s, transcript.UserText("still here?"))
	if d.Records > 100 {
		t.Errorf("%d records were read", d.Records)
	}
	require.Equal(t, turns+1, s.Turns())
	storetest.Close(t, st)
	storetest.LoseIndex(t, dir)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	now := storetest.Load(t, st, storetest.CLI).Info()
	require.Equal(t, []any{info.Title, info.Messages + 1, turns + 1, ref}, []any{now.Title, now.Messages, now.Turns, now.Ref})
}

// Info needs all of it.
func TestInfoWithoutIndex(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 400)
	require.NoError(t, storetest.ErrOf(s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 3}})))
	info, ref := s.Info(), s.Ref()
	storetest.Close(t, st)
	storetest.LoseIndex(t, dir)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s, err := st.Get(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(info), fmt.Sprint(s.Info()))
}
