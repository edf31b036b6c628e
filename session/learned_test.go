package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// The smallest of the known windows decides when a compaction is too soon: here
// the guard's.
func TestSmallestWindowCounts(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), &session.Options{
		Counter: storetest.Thousands{},
		Compact: compact.Options{Keep: compact.Keep{Turns: 10}, Trigger: compact.Trigger{Window: 200_000}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.ShortSummary))},
	})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 15)
	_, err := s.Compact(t.Context(), nil)
	require.NoError(t, err)
	need := guard.Need{Window: 32_000, Counter: storetest.Thousands{}}
	storetest.Talk(t, s, 15, 2)
	need.Room = storetest.Info(t, s).Tokens - 500
	changed, err := s.CompactFor(t.Context(), need)
	require.True(t, changed)
	require.NoError(t, err)
	storetest.Talk(t, s, 17, 2)
	need.Room = storetest.Info(t, s).Tokens - 500
	changed, err = s.CompactFor(t.Context(), need)
	require.False(t, changed)
	require.NoError(t, err)
}

// Tokens that the provider clears by its own context editing are not compacted again.
func TestServerHasCleared(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), &session.Options{
		Counter: storetest.Thousands{},
		Compact: compact.Options{Keep: compact.Keep{Turns: 5}, Trigger: compact.Trigger{Window: 30_000}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.ShortSummary))},
	})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 16)
	a := storetest.Answer("cleared")
	a.Usage = transcript.Usage{Input: 3_000, Output: 5, Extra: transcript.Extra{
		"context_management": []byte(`{"applied_edits":[{"type":"clear_tool_uses_20250919","cleared_tool_uses":8,"cleared_input_tokens":31000}]}`),
	}}
	storetest.Add(t, s, transcript.UserText("and?"), a)
	done, err := s.AfterTurn(t.Context())
	if require.NoError(t, err); done.Entry != "" {
		t.Errorf("34,000 tokens, 31,000 of which the provider leaves out, were compacted")
	}
	a = storetest.Answer("not cleared")
	a.Usage = transcript.Usage{Input: 36_000, Output: 5}
	storetest.Add(t, s, transcript.UserText("and?"), a)
	if done, err = s.AfterTurn(t.Context()); err != nil || done.Entry == "" {
		t.Errorf("what is not cleared any more was not compacted: %v, %v", done.Cut.Nothing, err)
	}
}

// Everything that a guard learns is in the transcript: another process sends the same, and
// a compaction keeps it.
func TestWhatIsLearnedSurvives(t *testing.T) {
	const window = 20_000
	m := &guardtest.Model{Window: window, MaxOutput: 4096, ReserveOutput: true, Counter: skewed(true), Answer: func(r guardtest.Request) guardtest.Answer {
		return guardtest.Say("I see. " + lines(r.N%17))
	}}
	dir := t.TempDir()
	opts := &session.Options{Sync: session.SyncNever}
	st := storetest.Open(t, dir, opts)
	s := storetest.Load(t, st, storetest.CLI)
	a := agent{g: &guard.Guard{Model: "m", System: storetest.AgentSystem, Window: 200_000, MaxOutput: 4096}, c: storetest.Client{Model: m}}
	compactions := 0
	for i := range storetest.Extent(*storetest.Soak, 25, 60, 60) {
		require.NoError(t, a.turn(t.Context(), s, fmt.Sprintf("question %d: %s", i, lines(120))))
		before, err := s.Calibration(t.Context(), "m", "")
		require.NoError(t, err)
		want := storetest.Request(t, s)
		storetest.Close(t, st)
		st = storetest.Open(t, dir, opts)
		s = storetest.Load(t, st, storetest.CLI)
		after, err := s.Calibration(t.Context(), "m", "")
		require.Equal(t, before, after)
		if require.NoError(t, err); storetest.Request(t, s) != want {
			t.Fatalf("turn %d: %+v became %+v", i, before, after)
		}
	}
	for e, err := range s.Entries(t.Context(), "") {
		if require.NoError(t, err); e.Type() == "compaction" {
			compactions++
		}
	}
	c, err := s.Calibration(t.Context(), "m", "")
	require.NoError(t, err)
	stats := m.Stats()
	t.Logf("%+v, %d compactions, %+v, %d calibrations", stats, compactions, c, strings.Count(types(t, s), "calibration"))
	if c.Window != window || c.Factor < 1.02 || c.Factor > 1.25 || stats.Overflows != 1 || compactions < 2 {
		t.Errorf("%+v after %d overflows and %d compactions", c, stats.Overflows, compactions)
	}
	storetest.Close(t, st)
}

// Calibrations of the model decide when a compaction is due.
func TestAfterTurnKnowsTheModel(t *testing.T) {
	for _, tt := range []struct {
		known transcript.Calibration
		turns int // that fit
	}{
		{transcript.Calibration{}, 12},
		{transcript.Calibration{Factor: 2}, 6},
		{transcript.Calibration{Model: "m", Window: 15_000}, 6},
		{transcript.Calibration{Window: 60_000}, 12},
	} {
		st := storetest.Open(t, t.TempDir(), &session.Options{
			Counter: storetest.Thousands{},
			Compact: compact.Options{Keep: compact.Keep{Turns: 2}, Trigger: compact.Trigger{Window: 30_000, Share: 5. / 6}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.ShortSummary))},
		})
		s := storetest.Load(t, st, storetest.CLI)
		if !tt.known.IsZero() {
			storetest.Add(t, s, tt.known)
		}
		turns := 0
		for ; turns < 30; turns++ {
			storetest.Talk(t, s, turns, 1)
			done, err := s.AfterTurn(t.Context())
			if require.NoError(t, err); done.Entry != "" {
				break
			}
		}
		if turns != tt.turns {
			t.Errorf("%+v: compacted after %d turns, want %d", tt.known, turns, tt.turns)
		}
		c, err := s.Calibration(t.Context(), tt.known.Model, "")
		require.NoError(t, err)
		require.Equal(t, tt.known, c, "after the compaction")
		storetest.Close(t, st)
	}
}

// tenfold counts ten times what thousands does.
type tenfold struct{}

func (tenfold) Count(system string, tools []transcript.Tool, msgs []transcript.Message) int {
	return 10 * storetest.Thousands{}.Count(system, tools, msgs)
}

// Findings about one model do not apply to another: the model that the last
// answer names is in use.
func TestAfterTurnKnowsWhichModel(t *testing.T) {
	small, big := transcript.Calibration{Model: "small", Window: 15_000}, transcript.Calibration{Model: "big", Factor: 2}
	for _, tt := range []struct {
		name    string
		known   []transcript.Calibration
		answers string
		turns   int // that fit
	}{
		{"the other one was learned about last", []transcript.Calibration{big, small}, "big", 6},
		{"this one was", []transcript.Calibration{small, big}, "big", 6},
		{"the small one", []transcript.Calibration{small, big}, "small", 6},
		{"with a date", []transcript.Calibration{small, big}, "small-2026-01-31", 6},
		{"with a build", []transcript.Calibration{small, big}, "small-001", 6},
		{"another of that name", []transcript.Calibration{small, big}, "small-2", 12},
		{"a third one", []transcript.Calibration{small, big}, "third", 12},
		{"the very name", []transcript.Calibration{{Model: "big-2026-01-31", Window: 15_000}, big}, "big-2026-01-31", 6},
		{"requests name none", []transcript.Calibration{{Window: 15_000}}, "big", 6},
		{"some requests name none", []transcript.Calibration{big, {Window: 15_000}}, "big", 6},
		{"the answer names none", []transcript.Calibration{small, big}, "", 6},
		{"nothing since but a failure", []transcript.Calibration{small, {Failures: 1, FailedAt: 1}}, "", 6},
		{"taken back", []transcript.Calibration{{Model: "big", Window: -1}}, "big", 12},
	} {
		st := storetest.Open(t, t.TempDir(), &session.Options{
			Counter: storetest.Thousands{},
			Compact: compact.Options{Keep: compact.Keep{Turns: 2}, Trigger: compact.Trigger{Window: 30_000, Share: 5. / 6}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.ShortSummary))},
		})
		s := storetest.Load(t, st, storetest.CLI)
		for _, c := range tt.known {
			storetest.Add(t, s, c)
		}
		turns := 0
		for ; turns < 30; turns++ {
			storetest.Add(t, s, transcript.UserText(fmt.Sprintf("question %d, with some words that a summary leaves out", turns)),
				&transcript.Response{Message: transcript.AssistantText("an answer with some words that a summary leaves out"), Model: tt.answers, StopReason: transcript.StopEndTurn})
			done, err := s.AfterTurn(t.Context())
			if require.NoError(t, err); done.Entry != "" {
				break
			}
		}
		if turns != tt.turns {
			t.Errorf("%s: compacted after %d turns, want %d", tt.name, turns, tt.turns)
		}
		storetest.Close(t, st)
	}
}

// A session that moves between models uses the window of the model that answers; in a
// call, of the called model; and the Window for a model without one.
func TestWindowOfEachModel(t *testing.T) {
	summaries := []int{} // tokens that were allowed
	st := storetest.Open(t, t.TempDir(), &session.Options{
		Counter: storetest.Thousands{}, Sync: session.SyncNever,
		Compact: compact.Options{
			Trigger: compact.Trigger{Window: 64_000, Windows: map[string]int{"small": 128_000, "big": 1_000_000}, Share: .5},
			Summarizer: compact.SummarizerFunc(func(_ context.Context, in compact.Input) (string, error) {
				summaries = append(summaries, in.MaxTokens)
				return storetest.WholeSummary, nil
			}),
		},
	})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	turn := func(model string) (compacted bool, size int) {
		storetest.Add(t, s, transcript.UserText("a question with some words that a summary leaves out"),
			&transcript.Response{Message: transcript.AssistantText("an answer with some words that a summary leaves out"), Model: model, StopReason: transcript.StopEndTurn})
		done, err := s.AfterTurn(t.Context())
		require.NoError(t, err)
		return done.Entry != "", done.Cut.Before
	}
	until := func(model string) int {
		for {
			if compacted, size := turn(model); compacted {
				return size
			}
		}
	}
	require.InDelta(t, 65_000, until("small-2026-01-31"), 2_000)
	require.InDelta(t, 501_000, until("big"), 2_000)
	until("third") // which has too little room for the history of the big one
	require.InDelta(t, 33_000, until("third"), 2_000, "a model that no window is known for")
	for range 50 { // too much for the small model
		compacted, _ := turn("big")
		require.False(t, compacted)
	}
	require.Greater(t, until("small"), 66_000, "the first turn back")
	require.InDelta(t, 65_000, until("small"), 2_000)
	require.Equal(t, []int{4_000, 8_192, 2_048, 2_048, 4_000, 4_000}, summaries)
	for model, want := range map[string]int{"small": 4_000, "big": 8_192, "": 8_192} {
		for range 40 {
			turn("big")
		}
		_, err := s.CompactFor(t.Context(), guard.Need{Model: model, Room: 60_000, Counter: storetest.Thousands{}, Refused: true})
		require.NoError(t, err)
		require.Equal(t, want, summaries[len(summaries)-1], model)
	}
	require.Len(t, summaries, 9)
	turn("small")
	done, err := s.Compact(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, 64_000, done.Cut.Room)
}

// A calibration that another process appends while a compaction is committed
// stays in force.
func TestLearnedDuringACommit(t *testing.T) {
	run := func(at int) (total int, c transcript.Calibration) {
		counts := 0
		dir := t.TempDir()
		st2 := storetest.Open(t, dir, nil)
		defer storetest.Close(t, st2)
		var s2 *session.Session
		learned := transcript.Calibration{Model: "m", Window: 9_000}
		st := storetest.Open(t, dir, &session.Options{Counter: calling{&counts, at, func() { storetest.Add(t, s2, learned) }}})
		defer storetest.Close(t, st)
		s := storetest.Load(t, st, storetest.CLI)
		s2 = storetest.Load(t, st2, storetest.CLI)
		storetest.Talk(t, s, 0, 6)
		counts = 0
		done, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 2}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.ShortSummary))})
		if require.NoError(t, err); done.Entry == "" {
			t.Fatalf("not compacted: %s", done.Cut)
		}
		total = counts
		c, err = s.Calibration(t.Context(), "m", "")
		require.NoError(t, err)
		return total, c
	}
	for at := 1; ; at++ {
		total, c := run(at)
		if at > total {
			break // there are no more counts
		}
		if c.Window != 9_000 {
			t.Errorf("what was learned during count %d of %d is lost: %+v", at, total, c)
		}
	}
}
