package session_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// ZyHive: at 80,000 tokens nothing happens, at 80,001 everything but the last
// 20 turns is summarised, the entry has its values, the summary is a system
// prefix, and the index has the new estimate. After a restart it is all the
// same.
func TestZyHive(t *testing.T) {
	dir := t.TempDir()
	var asked []compact.Input
	opts := &session.Options{
		Summary: rebuild.SummarySystem, Counter: storetest.Thousands{},
		Compact: compact.Options{
			Keep: compact.Keep{Turns: 20}, Trigger: compact.Trigger{Threshold: 80_000},
			Summarizer: compact.SummarizerFunc(func(_ context.Context, in compact.Input) (string, error) {
				asked = append(asked, in)
				return fmt.Sprintf("summary %d after %q", len(asked), in.Previous), nil
			}),
		},
	}
	st := storetest.Open(t, dir, opts)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 40) // 80 messages of 1,000 tokens
	done, err := s.AfterTurn(t.Context())
	require.NoError(t, err)
	require.Empty(t, done.Entry)
	require.Equal(t, compact.NotDue, done.Cut.Nothing)
	require.Equal(t, 80_000, done.Cut.Before)
	storetest.Add(t, s, transcript.UserText("odd"))
	if done, err = s.AfterTurn(t.Context()); err != nil || done.Entry == "" {
		t.Fatalf("at 81,001: %+v, %v", done, err)
	}
	c := done.Compaction
	require.Equal(t, `summary 1 after ""`, c.Summary)
	require.Equal(t, 21, c.TurnsBefore)
	require.Equal(t, 81_001, c.TokensBefore)
	require.Equal(t, 39_101, c.TokensAfter)
	h, err := s.History(t.Context())
	require.NoError(t, err)
	require.Equal(t, neutral.SummaryHeading+"\n"+`summary 1 after ""`, h.System)
	require.Len(t, h.Messages, 39)
	require.True(t, strings.HasPrefix(h.Messages[0].Text(), "question 21,"), h.Messages[0].Text())
	require.Equal(t, 41, storetest.Info(t, s).Turns)
	require.Equal(t, c.FirstKept, h.Messages[0].Origins[0].Entry)
	require.Len(t, asked[0].Messages, 42)
	if info := storetest.Info(t, s); info.Tokens != 39_101 || info.Messages != 81 || info.Turns != 41 {
		t.Errorf("%+v", info)
	}

	// The second summary has the first in its input.
	storetest.Add(t, s, storetest.Answer("even"))
	storetest.Talk(t, s, 41, 25)
	if done, err = s.AfterTurn(t.Context()); err != nil || done.Compaction.Summary != `summary 2 after "summary 1 after \"\""` || storetest.Info(t, s).Turns != 66 {
		t.Errorf("%+v, %v, %d turns", done.Compaction, err, storetest.Info(t, s).Turns)
	}
	want, info := storetest.Request(t, s), storetest.Info(t, s)
	storetest.Close(t, st)
	checkRestart(t, dir, opts, want)
	st = storetest.Open(t, dir, opts)
	defer storetest.Close(t, st)
	got := storetest.Info(t, storetest.Load(t, st, storetest.CLI))
	require.Equal(t, info.Tokens, got.Tokens)
	require.Equal(t, 66, got.Turns)
	require.Len(t, storetest.FullHistory(t, storetest.Load(t, st, storetest.CLI)).Messages, 132)
}

// Whatever a summarizer does wrong, the history stays as it is, the transcript
// gets no more than a note of the failure, and the session continues.
func TestSummarizerFails(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		name string
		s    compact.SummarizerFunc
		want error
	}{
		{"error", func(context.Context, compact.Input) (string, error) { return "half a summary", boom }, boom},
		{"hangs", func(ctx context.Context, _ compact.Input) (string, error) { <-ctx.Done(); return "", ctx.Err() }, context.DeadlineExceeded},
		{"hangs and answers late", func(ctx context.Context, _ compact.Input) (string, error) { <-ctx.Done(); return "late", nil }, context.DeadlineExceeded},
		{"empty", storetest.Says(""), compact.ErrRefused},
		{"blank", storetest.Says(" \n\t "), compact.ErrRefused},
		{"longer", func(_ context.Context, in compact.Input) (string, error) {
			var sb strings.Builder
			for _, m := range in.Messages {
				sb.WriteString(m.Text() + m.Text())
			}
			return sb.String(), nil
		}, compact.ErrNotSmaller},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			var events []string
			opts := &session.Options{
				Compact: compact.Options{Keep: compact.Keep{Turns: 2}, Summarizer: tt.s, Timeout: 1, Trigger: compact.Trigger{Threshold: 100}},
				Observe: func(ctx context.Context, e session.Event) context.Context {
					if strings.HasPrefix(string(e.Kind), "compaction") {
						events = append(events, string(e.Kind))
					}
					return ctx
				},
			}
			if !strings.Contains(tt.name, "hangs") {
				opts.Compact.Timeout = -1
			}
			st := storetest.Open(t, dir, opts)
			s := storetest.Load(t, st, storetest.CLI)
			storetest.Talk(t, s, 0, 5)
			before, lines := storetest.Request(t, s), types(t, s)
			for name, call := range map[string]func() error{
				"compact": func() error { return storetest.ErrOf(s.Compact(t.Context(), nil)) },
				"after":   func() error { return storetest.ErrOf(s.AfterTurn(t.Context())) },
			} {
				events = nil
				err := call()
				e, ok := errors.AsType[*compact.Error](err)
				if !ok || !errors.Is(err, tt.want) || e.Cut.At == 0 || errors.Is(tt.want, compact.ErrRefused) && !strings.HasSuffix(err.Error(), ": the summary is empty") {
					t.Errorf("%s: %v", name, err)
				}
				if got := strings.Join(events, " "); got != "compaction-start compaction-failed" {
					t.Errorf("%s: events %s", name, got)
				}
				lines += " calibration"
				if got := types(t, s); storetest.Request(t, s) != before || got != lines {
					t.Errorf("%s: the session was changed: %s", name, got)
				}
			}
			storetest.Talk(t, s, 5, 1)
			want := storetest.Request(t, s)
			storetest.Close(t, st)
			checkRestart(t, dir, opts, want)
		})
	}
}

// While a summary is made the session takes appends and rewinds; they stay in the
// history. A change of the summarised part is a conflict that carries the summary.
func TestCompactWhileAppending(t *testing.T) {
	tests := []struct {
		name      string
		meanwhile func(t *testing.T, s *session.Session)
		conflict  bool
	}{
		{"an append", func(t *testing.T, s *session.Session) { storetest.Talk(t, s, 5, 2) }, false},
		{"a clip", func(t *testing.T, s *session.Session) {
			storetest.Add(t, s, transcript.Clip{Clips: []transcript.Clipping{{Entry: "x", Content: "y"}}})
		}, false},
		{"a rewind", func(t *testing.T, s *session.Session) { storetest.Undo(t, s, 1) }, false},
		{"a rewind to the summarised part", func(t *testing.T, s *session.Session) { storetest.Undo(t, s, 3) }, true},
		{"a rewind of all", func(t *testing.T, s *session.Session) { storetest.Undo(t, s, 5) }, true},
		{"a rewind and back", func(t *testing.T, s *session.Session) {
			head, err := storetest.Head(t.Context(), s)
			require.NoError(t, err)
			storetest.Undo(t, s, 1)
			require.NoError(t, s.Rewind(t.Context(), head))
		}, false},
		{"a compaction", func(t *testing.T, s *session.Session) {
			_, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says("first"))})
			require.NoError(t, err)
		}, true},
	}
	for _, tt := range tests {
		for _, other := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, other store %v", tt.name, other), func(t *testing.T) {
				dir := t.TempDir()
				st := storetest.Open(t, dir, nil)
				defer storetest.Close(t, st)
				s := storetest.Load(t, st, storetest.CLI)
				s2 := s
				if other || tt.name == "a compaction" { // one at a time runs in a store
					st2 := storetest.Open(t, dir, nil)
					defer storetest.Close(t, st2)
					s2 = storetest.Load(t, st2, storetest.CLI)
				}
				storetest.Talk(t, s, 0, 5)
				done, err := s.Compact(t.Context(), &compact.Options{
					Keep: compact.Keep{Turns: 2},
					Summarizer: compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
						tt.meanwhile(t, s2)
						return storetest.ShortSummary, nil
					}),
				})
				if !tt.conflict {
					require.NoError(t, err)
					h, err := s2.History(t.Context())
					require.NoError(t, err)
					require.NotEmpty(t, done.Entry)
					require.Contains(t, h.Messages[0].Text(), storetest.ShortSummary)
					require.Contains(t, storetest.History(t, s2), "question 3,")
					if tt.name == "an append" && !strings.Contains(storetest.History(t, s2), "question 6,") {
						t.Errorf("the late entries are lost\n%s", storetest.History(t, s2))
					}
					return
				}
				require.ErrorIs(t, err, session.ErrConflict)
				require.Equal(t, storetest.ShortSummary, done.Compaction.Summary)
				require.Empty(t, done.Entry)
				require.NotContains(t, storetest.History(t, s2), storetest.ShortSummary)
			})
		}
	}
}

// An entry that is not in the history can still be in the way of a cut: here the call of
// a cut answer, which is not shown, would take the late result of a call that
// is summarised. The plan asks the fold and keeps less.
func TestCutIsChecked(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("run x"), storetest.Answer("", "x"))
	storetest.Add(t, s, transcript.UserText("meanwhile?"))
	storetest.Add(t, s, storetest.Answer("it runs"))
	storetest.Add(t, s, transcript.UserText("tell me more"))
	storetest.Add(t, s, transcript.ToolResult("x", "LATE"))
	cut := storetest.Answer("I wanted to", "x")
	cut.StopReason = transcript.StopAborted
	storetest.Add(t, s, cut)
	storetest.Talk(t, s, 0, 2)
	before := storetest.History(t, s)
	done, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 3}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.ShortSummary))})
	require.NoError(t, err)
	if got := storetest.History(t, s); done.Entry == "" || strings.Contains(got, "LATE") || strings.Contains(got, "tool_use") {
		t.Errorf("%s\n%s\nbefore\n%s", done.Cut, got, before)
	}
}

// An append during the compaction can also prevent a cut.
func TestCutIsCheckedAgain(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("run x"), storetest.Answer("", "x"))
	storetest.Add(t, s, transcript.UserText("meanwhile?"))
	storetest.Add(t, s, storetest.Answer("it runs"))
	storetest.Add(t, s, transcript.UserText("tell me more"))
	storetest.Add(t, s, transcript.ToolResult("x", "LATE"))
	_, err := s.Compact(t.Context(), &compact.Options{
		Keep: compact.Keep{Tokens: 1},
		Summarizer: compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
			cut := storetest.Answer("I wanted to", "x")
			cut.StopReason = transcript.StopAborted
			storetest.Add(t, s, cut)
			return storetest.ShortSummary, nil
		}),
	})
	if got := storetest.History(t, s); err == nil && strings.Contains(got, "LATE") || err != nil && !errors.Is(err, session.ErrConflict) {
		t.Errorf("%v\n%s", err, got)
	}
}

// Compactions of one session run one at a time, and those that waited look
// again.
func TestCompactOneAtATime(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 8)
	var running, most, asked atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 2}, Summarizer: compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
				asked.Add(1)
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				for range 100 {
					runtime.Gosched()
				}
				return storetest.ShortSummary, nil
			})})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, most.Load())
	require.EqualValues(t, 1, asked.Load())
	cancelled, cancel := context.WithCancel(t.Context())
	_, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
		cancel()
		return "short", storetest.ErrOf(s.Compact(cancelled, nil)) // it does not wait
	})})
	require.ErrorIs(t, err, context.Canceled)
}

// A call takes the options that it leaves out from the store.
func TestCompactOptions(t *testing.T) {
	asked := 0
	st := storetest.Open(t, t.TempDir(), &session.Options{
		Counter: storetest.Thousands{},
		Compact: compact.Options{
			Keep: compact.Keep{Turns: 1}, Trigger: compact.Trigger{Threshold: 7_000}, MaxSummary: 50, MaxCarried: -1,
			Summarizer: compact.SummarizerFunc(func(_ context.Context, in compact.Input) (string, error) {
				if asked++; in.MaxTokens != 50 {
					t.Errorf("a summary of %d tokens is asked for", in.MaxTokens)
				}
				return storetest.ShortSummary, nil
			}),
		},
	})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 6)
	plan := func(o compact.Options) compact.Cut {
		o.Summarizer = compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) { return "", errors.New("only the plan is wanted") })
		done, err := s.Compact(t.Context(), &o)
		require.ErrorContains(t, err, "only the plan")
		return done.Cut
	}
	require.Equal(t, 8, plan(compact.Options{Keep: compact.Keep{Turns: 3}}).At)
	refused := 0
	cut := plan(compact.Options{Check: func(c compact.Cut) bool {
		refused++
		return c.At != 10 && storetest.ErrOf(storetest.Head(t.Context(), s)) == nil
	}})
	if cut.At == 10 || cut.Nothing != "" || refused < 2 {
		t.Errorf("the plan is %s after %d checks", cut, refused)
	}
	done, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 2}})
	require.NoError(t, err)
	require.Equal(t, 1, asked)
	require.Equal(t, 8, done.Cut.At)
	changed, err := s.CompactFor(t.Context(), guard.Need{})
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, 2, asked)
	st2 := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st2)
	plain := storetest.Load(t, st2, storetest.CLI) // a few tokens, but too many for the options
	storetest.Talk(t, plain, 0, 30)
	changed, err = plain.CompactFor(t.Context(), guard.Need{})
	require.True(t, changed)
	require.NoError(t, err)
	if changed, err = s.CompactFor(t.Context(), guard.Need{Room: 1}); changed || err != nil {
		t.Errorf("nothing helps, and yet: %v, %v", changed, err)
	}
}

// If nothing can be written, no summary is paid for; a panic is a failure; a
// compaction inside a compaction is an error.
func TestCompactRefuses(t *testing.T) {
	dir := t.TempDir()
	var events []session.Event
	var s *session.Session
	opts := &session.Options{
		Compact: compact.Options{Keep: compact.Keep{Turns: 2}},
		Observe: func(ctx context.Context, e session.Event) context.Context {
			if e.Kind == session.EventCompactionStart && storetest.ErrOf(s.Compact(ctx, nil)) == nil {
				t.Error("a compaction in an observer succeeded")
			}
			if strings.HasPrefix(string(e.Kind), "compaction-") {
				events = append(events, e)
			}
			return ctx
		},
	}
	st := storetest.Open(t, dir, opts)
	s = storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 6)
	events = nil
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = s.Compact(t.Context(), &compact.Options{Summarizer: compact.SummarizerFunc(func(ctx context.Context, _ compact.Input) (string, error) {
			if storetest.ErrOf(s.Compact(ctx, nil)) == nil || storetest.ErrOf(s.History(ctx)) != nil {
				t.Error("a compaction in a summarizer succeeded, or nothing else does")
			}
			panic("boom")
		})})
	}()
	if n := len(events); n != 2 || events[1].Kind != session.EventCompactionFailed {
		t.Errorf("events %+v", events)
	}
	if _, err := s.Compact(t.Context(), nil); err != nil {
		t.Errorf("after the panic: %v", err)
	}
	storetest.Close(t, st)

	st = storetest.Open(t, dir, &session.Options{ReadOnly: true})
	defer storetest.Close(t, st)
	s, err := storetest.Current(t.Context(), st, storetest.CLI)
	require.NoError(t, err)
	_, err = s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
		t.Error("the summarizer was asked")
		return "", nil
	})})
	require.ErrorIs(t, err, session.ErrReadOnly)
}
