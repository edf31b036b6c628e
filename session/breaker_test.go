package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript/tokens"
)

// types lists the types of a transcript's lines.
func types(t testing.TB, s *session.Session) string {
	t.Helper()
	var all []string
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		all = append(all, e.Type())
	}
	return strings.Join(all, " ")
}

// After three failures in a row the summarizer is left alone: nothing is done
// after a turn until a fifth of the window has come in, a guard gets a summary
// without it, and a success ends all that. A restart at any point changes
// nothing.
func TestBreaker(t *testing.T) {
	dir := t.TempDir()
	asked, broken := 0, true
	var events []string
	opts := &session.Options{
		Counter: storetest.Thousands{}, Sync: session.SyncNever,
		Compact: compact.Options{
			Keep: compact.Keep{Turns: 2}, Trigger: compact.Trigger{Threshold: 50_000},
			Summarizer: compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
				if asked++; broken {
					return "", errors.New("out of service")
				}
				return storetest.WholeSummary, nil
			}),
		},
		Observe: func(ctx context.Context, e session.Event) context.Context {
			switch e.Kind { //nolint:exhaustive // the others are not about compactions
			case session.EventCompactionSkipped:
				events = append(events, "skipped")
			case session.EventCompactionStart, session.EventCompactionDone, session.EventCompactionFailed:
				events = append(events, fmt.Sprintf("%s %d %v", strings.TrimPrefix(string(e.Kind), "compaction-"), e.Failures, e.StandIn))
			}
			return ctx
		},
	}
	st := storetest.Open(t, dir, opts)
	s := storetest.Load(t, st, storetest.CLI)
	restart := func() {
		t.Helper()
		want := storetest.Request(t, s)
		storetest.Close(t, st)
		st = storetest.Open(t, dir, opts)
		s = storetest.Load(t, st, storetest.CLI)
		if got := storetest.Request(t, s); got != want {
			t.Fatalf("a restart changed the request:\n%s\n%s", got, want)
		}
	}
	defer func() { storetest.Close(t, st) }()
	check := func(what string, done session.Compacted, err error, fails bool, calls int, wantEvents string) {
		t.Helper()
		if (err != nil) != fails || asked != calls || strings.Join(events, ", ") != wantEvents {
			t.Errorf("%s: %s, %v after %d calls, events %v", what, done.Cut, err, asked, events)
		}
		events = nil
		restart()
	}

	storetest.Talk(t, s, 0, 26)
	for i := range 3 {
		done, err := s.AfterTurn(t.Context())
		check("while it fails", done, err, true, i+1, fmt.Sprintf("start %d false, failed %d false", i, i+1))
	}
	storetest.Talk(t, s, 26, 1)
	done, err := s.AfterTurn(t.Context())
	check("broken", done, err, false, 3, "skipped")
	require.Equal(t, session.CoolingDown, done.Cut.Nothing)
	require.Contains(t, done.Cut.String(), "cooling down")
	storetest.Talk(t, s, 27, 4) // 10,000 more than at the last failure
	done, err = s.AfterTurn(t.Context())
	check("a fifth later", done, err, true, 4, "start 3 false, failed 4 false")
	done, err = s.AfterTurn(t.Context())
	check("broken again", done, err, false, 4, "skipped")

	// A guard is in need: it gets a summary all the same.
	changed, err := s.CompactFor(t.Context(), guard.Need{Room: 40_000})
	check("forced", session.Compacted{}, err, !changed, 4, "start 4 true, done 4 true")
	require.NotContains(t, storetest.History(t, s), "answer 3,")
	require.Contains(t, storetest.History(t, s), "answer 30,")
	// The summarizer has not succeeded.
	c, err := s.Calibration(t.Context(), "", "")
	if require.NoError(t, err); c.Failures != 5 || c.FailedAt == 0 {
		t.Errorf("after it: %+v", c)
	}
	storetest.Talk(t, s, 31, 30)
	broken = false
	done, err = s.AfterTurn(t.Context())
	check("in service", done, err, false, 5, "start 5 false, done 0 false")
	if c, err = s.Calibration(t.Context(), "", ""); err != nil || c.Failures != 0 {
		t.Errorf("after a success: %+v, %v", c, err)
	}
}

// If a caller gives up, the summarizer has not failed.
func TestCancelledSummaryIsNoFailure(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 5)
	before := types(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
		cancel()
		return "", ctx.Err()
	})})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, before, types(t, s))
}

// Between two compactions a fifth of the window comes in, or the second one
// gains as much; sooner ones that a guard requests by an estimate are not made.
func TestNoCompactionTooSoon(t *testing.T) {
	skipped := 0
	st := storetest.Open(t, t.TempDir(), &session.Options{
		Counter: storetest.Thousands{},
		Compact: compact.Options{Keep: compact.Keep{Turns: 10}, Trigger: compact.Trigger{Window: 30_000, Share: 5. / 6}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.ShortSummary))},
		Observe: func(ctx context.Context, e session.Event) context.Context {
			if e.Kind == session.EventCompactionSkipped && e.Cut.Nothing == session.TooSoon {
				skipped++
			}
			return ctx
		},
	})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 13)
	done, err := s.AfterTurn(t.Context())
	if require.NoError(t, err); done.Entry == "" {
		t.Fatalf("not compacted: %s", done.Cut)
	}
	after := done.Compaction.TokensAfter
	storetest.Talk(t, s, 13, 1)
	changed, err := s.CompactFor(t.Context(), guard.Need{Room: after / 2})
	require.True(t, changed)
	require.NoError(t, err)
	require.Zero(t, skipped)
	storetest.Talk(t, s, 14, 2)
	// A refusal is a proof, an estimate is not.
	need := guard.Need{Window: 30_000, Room: storetest.Info(t, s).Tokens - 500, Counter: storetest.Thousands{}}
	if changed, err = s.CompactFor(t.Context(), need); changed || err != nil || skipped != 1 {
		t.Errorf("by estimate: %v, %v, skipped %d", changed, err, skipped)
	}
	need.Refused = true
	if changed, err = s.CompactFor(t.Context(), need); !changed || err != nil || skipped != 1 {
		t.Errorf("refused: %v, %v, skipped %d", changed, err, skipped)
	}
	storetest.Talk(t, s, 16, 4)
	if changed, err = s.CompactFor(t.Context(), guard.Need{Room: after / 2}); !changed || err != nil {
		t.Errorf("after 8,000 tokens: %v, %v", changed, err)
	}
}

// A summarizer that always fails does not stop a session: each Do succeeds, and
// after three failures asks it only now and then.
func TestSessionGoesOnWithoutItsSummarizer(t *testing.T) {
	storetest.SkipRace(t)
	const window = 20_000
	turns := storetest.Extent(*storetest.Soak, 45, 150, 150)
	for _, hidden := range []bool{false, true} {
		m := &guardtest.Model{Window: window, MaxOutput: 4096, ReserveOutput: true, Answer: func(r guardtest.Request) guardtest.Answer {
			return guardtest.Say("I see. " + lines(r.N%17))
		}}
		asked, compactions := 0, 0
		st := storetest.Open(t, t.TempDir(), &session.Options{
			Sync: session.SyncNever,
			Compact: compact.Options{Summarizer: compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
				asked++
				return " ", nil
			})},
			Observe: func(ctx context.Context, e session.Event) context.Context {
				if e.Kind == session.EventCompactionDone {
					compactions++
				}
				return ctx
			},
		})
		s := storetest.Load(t, st, storetest.CLI)
		a := agent{g: &guard.Guard{Model: "m", System: storetest.AgentSystem, Window: window, MaxOutput: 4096}, c: storetest.Client{Model: m}}
		if hidden {
			a.g.Window = 0
		}
		for i := range turns {
			require.NoError(t, a.turn(t.Context(), s, fmt.Sprintf("question %d: %s", i, lines(120))))
		}
		storetest.CheckAccepted(t, m)
		stats := m.Stats()
		t.Logf("hidden %v: %+v, %d compactions, the summarizer was asked %d times", hidden, stats, compactions, asked)
		if compactions < 5 || asked < 3 || asked > compactions*2/3 || hidden && stats.Overflows != 1 || !hidden && stats.Overflows > 0 {
			t.Errorf("hidden %v: %+v, %d compactions, the summarizer was asked %d times", hidden, stats, compactions, asked)
		}
		storetest.Close(t, st)
	}
}

// AfterTurn makes no compaction before a fifth of the window has come in since
// the last one, whoever made that one, and whoever counts.
func TestAfterTurnKeepsItsPace(t *testing.T) {
	for _, tt := range []struct {
		name    string
		trigger compact.Trigger
		counter tokens.Counter
		fifth   int // of the window, in tokens of the store
	}{
		{"a window", compact.Trigger{Window: 30_000, Share: 1. / 6}, nil, 6_000},
		{"a threshold", compact.Trigger{Threshold: 10_000}, nil, 2_000},
		{"a counter of its own", compact.Trigger{Window: 30_000, Share: 2. / 3}, tenfold{}, 6_000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := storetest.Open(t, t.TempDir(), &session.Options{
				Counter: storetest.Thousands{},
				Compact: compact.Options{Keep: compact.Keep{Turns: 2}, Trigger: tt.trigger, Counter: tt.counter, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.ShortSummary))},
			})
			defer storetest.Close(t, st)
			s := storetest.Load(t, st, storetest.CLI)
			compactions, last := 0, 0
			for i := range 30 {
				storetest.Talk(t, s, i, 1)
				if i == 20 { // a compaction of a guard counts as well
					changed, err := s.CompactFor(t.Context(), guard.Need{Refused: true, Room: 4_000, Counter: storetest.Thousands{}})
					if require.NoError(t, err); changed {
						last = storetest.Info(t, s).Tokens
					}
				}
				before := storetest.Info(t, s).Tokens
				done, err := s.AfterTurn(t.Context())
				if require.NoError(t, err); done.Entry == "" {
					continue
				}
				if compactions++; last > 0 && before-last < tt.fifth {
					t.Errorf("turn %d: %d tokens came in, a fifth are %d", i, before-last, tt.fifth)
				}
				last = done.Compaction.TokensAfter
			}
			if compactions < 3 {
				t.Errorf("%d compactions", compactions)
			}
		})
	}
}

// A rewind that makes the history smaller by a fifth of the window ends the
// pause: the size at the last failure no longer matters.
func TestBreakerAfterRewind(t *testing.T) {
	asked := 0
	st := storetest.Open(t, t.TempDir(), &session.Options{
		Counter: storetest.Thousands{},
		Compact: compact.Options{
			Keep: compact.Keep{Turns: 2}, Trigger: compact.Trigger{Threshold: 50_000},
			Summarizer: compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
				asked++
				return "", errors.New("out of service")
			}),
		},
	})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 40)
	for range 5 {
		_, _ = s.AfterTurn(t.Context())
	}
	require.Equal(t, 3, asked)
	storetest.Undo(t, s, 4)
	done, err := s.AfterTurn(t.Context())
	require.NoError(t, err)
	require.Equal(t, session.CoolingDown, done.Cut.Nothing)
	storetest.Undo(t, s, 1)
	_, err = s.AfterTurn(t.Context())
	require.Error(t, err)
	require.Equal(t, 4, asked)
}

// If a guard does not know how small the history must be, it gets at most half
// the size.
func TestCompactForHalf(t *testing.T) {
	var cut compact.Cut
	st := storetest.Open(t, t.TempDir(), &session.Options{
		Counter: storetest.Thousands{}, Compact: compact.Options{Keep: compact.Keep{Tokens: 90_000}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))},
		Observe: func(ctx context.Context, e session.Event) context.Context {
			if e.Kind == session.EventCompactionDone {
				cut = e.Cut
			}
			return ctx
		},
	})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 40)
	before := storetest.Info(t, s).Tokens
	changed, err := s.CompactFor(t.Context(), guard.Need{})
	if after := storetest.Info(t, s).Tokens; !changed || err != nil || after > before/2 || cut.Room != before/2 {
		t.Errorf("%v, %v: %d tokens became %d: %s", changed, err, before, after, cut)
	}
}
