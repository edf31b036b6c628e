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
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// isSummary tells requests of compact.Model from requests of the agent.
func isSummary(r guardtest.Request) bool {
	return len(r.Messages) == 1 && len(r.Tools) == 0 && r.System != storetest.AgentSystem
}

// Claw0, row by row: a plain call is left alone; one overflow, a second and
// smaller request; two, a summary and a third request; three, the provider's
// error. A history that was made smaller stays so, even after a restart.
func TestClaw0(t *testing.T) {
	storetest.SkipRace(t)
	overflow := guardtest.Fail(400, "invalid_request_error", "prompt is too long")
	for overflows := range 4 {
		t.Run(fmt.Sprint(overflows), func(t *testing.T) {
			failed := 0
			m := &guardtest.Model{Answer: guardtest.When(isSummary, guardtest.Always(guardtest.Say("They looked at a file.")),
				func(guardtest.Request) guardtest.Answer {
					if failed < overflows {
						failed++
						return overflow
					}
					return guardtest.Say("done")
				})}
			dir := t.TempDir()
			opts := &session.Options{
				Summary: rebuild.SummaryPair,
				Compact: compact.Options{Keep: compact.Keep{Fraction: .5}, Summarizer: compact.Model{Complete: storetest.Client{Model: m}.Complete}},
			}
			st := storetest.Open(t, dir, opts)
			s := storetest.Load(t, st, storetest.CLI)
			storetest.Add(t, s, transcript.UserText("read it"), storetest.Answer("", "c"), transcript.ToolResult("c", lines(15_000)), storetest.Answer("I have read it."))
			for i := range 4 {
				storetest.Add(t, s, transcript.UserText(fmt.Sprint("question ", i)), storetest.Answer(fmt.Sprint("answer ", i)))
			}
			before := storetest.History(t, s)
			a := agent{g: &guard.Guard{System: storetest.AgentSystem, MaxOutput: 8096}, c: storetest.Client{Model: m}}
			err := a.turn(t.Context(), s, "and now?")

			var main []guardtest.Recorded
			summaries := 0
			for _, r := range m.Requests() {
				if isSummary(r.Request) {
					summaries++
					if r.MaxOutput != 2048 {
						t.Errorf("the summary may have %d tokens", r.MaxOutput)
					}
					continue
				}
				main = append(main, r)
				if r.MaxOutput != 8096 || len(r.Tools) > 0 {
					t.Errorf("output limit %d, %d tools", r.MaxOutput, len(r.Tools))
				}
			}
			require.Len(t, main, min(overflows+1, 3))
			require.Equal(t, min(max(overflows-1, 0), 1), summaries)
			for i := 1; i < len(main); i++ {
				if len(main[i].Body) >= len(main[i-1].Body) {
					t.Errorf("request %d has %d bytes, the one before it %d", i, len(main[i].Body), len(main[i-1].Body))
				}
			}
			storetest.CheckAccepted(t, m)
			switch {
			case overflows == 0 && !strings.HasPrefix(storetest.History(t, s), strings.TrimSuffix(before, "]}")):
				t.Errorf("a plain call changed the history\n%s\n%s", before, storetest.History(t, s))
			case overflows >= 2:
				first := main[2].Messages
				if !strings.HasPrefix(first[0].Text(), "[Previous conversation summary]\nThey looked at a file.") ||
					!strings.HasPrefix(first[1].Text(), "Understood, I have the context from our previous conversation.") {
					t.Errorf("the third request begins with %s", main[2].Body[:200])
				}
			}
			if overflows == 3 {
				e, ok := errors.AsType[*wire.APIError](err)
				if !ok || e.Message != "prompt is too long" {
					t.Errorf("the error is %v", err)
				}
			} else if err != nil {
				t.Error(err)
			}
			want := storetest.Request(t, s)
			storetest.Close(t, st)
			checkRestart(t, dir, opts, want)
		})
	}
}

// The sizes of claw0 for plain conversations: how many messages are summarised
// and how many there are afterwards. A kept part that begins with an answer
// shares one message with the answer that accepts the summary: claw0 sent two
// of one role, which providers refuse.
func TestClaw0Sizes(t *testing.T) {
	for _, size := range []struct{ total, covered, left int }{
		{4, 0, 4}, {5, 0, 5}, {6, 2, 6}, {7, 3, 6}, {8, 4, 6}, {9, 4, 7}, {10, 5, 7}, {12, 6, 8}, {20, 10, 12}, {21, 10, 13}, {40, 20, 22}, {100, 50, 52},
	} {
		st := storetest.Open(t, t.TempDir(), &session.Options{
			Summary: rebuild.SummaryPair,
			Compact: compact.Options{Keep: compact.Keep{Fraction: .5}, Summarizer: compact.SummarizerFunc(func(_ context.Context, in compact.Input) (string, error) {
				if len(in.Messages) < 40 {
					return storetest.ShortSummary, nil
				}
				return storetest.WholeSummary, nil
			})},
		})
		s := storetest.Load(t, st, storetest.CLI)
		for i := range size.total {
			if i%2 == 0 {
				storetest.Add(t, s, transcript.UserText(fmt.Sprintf("question %d, and some more words so that a summary is shorter than this", i)))
			} else {
				storetest.Add(t, s, storetest.Answer(fmt.Sprintf("answer %d, and some more words so that a summary is shorter than this", i)))
			}
		}
		done, err := s.Compact(t.Context(), nil)
		require.NoError(t, err)
		h, err := s.History(t.Context())
		require.NoError(t, err)
		if done.Cut.At != size.covered || (done.Entry != "") != (size.covered > 0) {
			t.Errorf("of %d messages %d were summarised, want %d", size.total, done.Cut.At, size.covered)
		}
		left := size.left
		if size.covered%2 == 1 {
			left--
		}
		if len(h.Messages) != left {
			t.Errorf("%d messages became %d, want %d", size.total, len(h.Messages), left)
		}
		storetest.Close(t, st)
	}
}

// A turn of 300 calls in a window of 32,000 tokens, with results of all sizes
// up to more than the window: no request is refused as invalid, everything
// comes through, and the user's request is never lost.
func TestLongTurn(t *testing.T) {
	storetest.SkipRace(t)
	const window = 32_000
	t.Parallel()
	answers := storetest.Extent(*storetest.Soak, 110, 300, 300) // more than 97: see below
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("window known %v", known), func(t *testing.T) {
			t.Parallel()
			given := 0
			m := &guardtest.Model{Window: window, MaxOutput: 8192, ReserveOutput: true, Keep: 5, Counter: skewed(!known), Answer: func(guardtest.Request) guardtest.Answer {
				input := fmt.Sprintf(`{"path":"src/file%d.go"}`, given)
				switch given++; {
				case given > answers:
					return guardtest.Say("done")
				case given%7 == 0:
					return guardtest.Call(guardtest.Tool("read", input), guardtest.Tool("list", `{}`), guardtest.Tool("read", input))
				}
				return guardtest.Call(guardtest.Tool("read", input))
			}}
			dir := t.TempDir()
			opts := &session.Options{Sync: session.SyncNever}
			st := storetest.Open(t, dir, opts)
			s := storetest.Load(t, st, storetest.CLI)
			a := agent{g: &guard.Guard{System: storetest.AgentSystem}, c: storetest.Client{Model: m}, tool: func(transcript.ToolCallBlock) string {
				if given%97 == 0 {
					return lines(9_000) // more than the window
				}
				return lines([]int{3, 40, 120, 10, 700, 5}[given%6])
			}}
			if known {
				a.g.Window = window
			}
			require.NoError(t, a.turn(t.Context(), s, "REQUEST-7731: read all files and say done"))
			storetest.CheckAccepted(t, m)
			stats := m.Stats()
			t.Logf("%+v", stats)
			if stats.Answered != answers+1 || known && stats.Overflows > stats.Requests/50 {
				t.Errorf("%d answers, want %d; %d of %d requests did not fit", stats.Answered, answers+1, stats.Overflows, stats.Requests)
			}
			want := storetest.Request(t, s)
			require.Contains(t, want, "REQUEST-7731")
			storetest.Close(t, st)
			checkRestart(t, dir, opts, want)
		})
	}
}

// skewed, if true, counts an eighth more than the default.
type skewed bool

func (s skewed) Count(system string, tools []transcript.Tool, msgs []transcript.Message) int {
	n := tokens.Estimator{}.Count(system, tools, msgs)
	if s {
		n += n / 8
	}
	return n
}

// A prompt that the session keeps takes a part of the window, whether it is at the
// top or comes later: no request with it is too long.
func TestLongKeptPrompt(t *testing.T) {
	storetest.SkipRace(t)
	const window = 32_000
	t.Parallel()
	m := &guardtest.Model{Window: window, MaxOutput: 4096, ReserveOutput: true, Answer: func(guardtest.Request) guardtest.Answer {
		return guardtest.Say("I see. " + lines(40))
	}}
	st := storetest.Open(t, t.TempDir(), &session.Options{Sync: session.SyncNever, Compact: compact.Options{Trigger: compact.Trigger{Window: window}}})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	a := agent{g: &guard.Guard{Window: window, MaxOutput: 4096}, c: storetest.Client{Model: m}}
	compactions := 0
	for i := range storetest.Extent(*storetest.Soak, 40, 60, 60) {
		if i%20 == 0 {
			storetest.Add(t, s, transcript.System{Text: fmt.Sprintf("Prompt %d.\n%s", i, lines(900))})
		}
		require.NoError(t, a.turn(t.Context(), s, fmt.Sprintf("question %d: %s", i, lines(40))))
		done, err := s.AfterTurn(t.Context())
		require.NoError(t, err)
		if done.Entry != "" {
			compactions++
			require.LessOrEqual(t, storetest.Info(t, s).Tokens, done.Cut.After+done.Cut.After/20, done.Cut)
		}
	}
	stats := m.Stats()
	h, err := s.History(t.Context())
	require.NoError(t, err)
	prompt := tokens.Estimator{}.Count(h.SystemPrompt(""), nil, nil)
	t.Logf("%+v, %d compactions, prompt %d", stats, compactions, prompt)
	require.Greater(t, prompt, window/4)
	require.Zero(t, stats.Overflows)
	require.NotZero(t, compactions)
}

// A conversation of many turns, some with tools, in the same window.
func TestLongConversation(t *testing.T) {
	const window = 32_000
	t.Parallel()
	turns := storetest.Extent(*storetest.Soak, 44, 1_000, 1_000)
	m := &guardtest.Model{Window: window, MaxOutput: 8192, ReserveOutput: true, Keep: 5, Answer: func(r guardtest.Request) guardtest.Answer {
		if guardtest.AfterTools(r) || r.N%3 > 0 {
			return guardtest.Say("I see. " + lines(r.N%17))
		}
		return guardtest.Call(guardtest.Tool("read", `{}`), guardtest.Tool("list", `{"path":"."}`))
	}}
	dir := t.TempDir()
	opts := &session.Options{Sync: session.SyncNever, Compact: compact.Options{Trigger: compact.Trigger{Window: window}}}
	st := storetest.Open(t, dir, opts)
	s := storetest.Load(t, st, storetest.CLI)
	a := agent{g: &guard.Guard{System: storetest.AgentSystem, Window: window}, c: storetest.Client{Model: m}, tool: func(c transcript.ToolCallBlock) string {
		return lines(len(c.Name) * 20)
	}}
	compactions := 0
	for i := range turns {
		if i%40 == 39 { // another process continues
			want := storetest.Request(t, s)
			storetest.Close(t, st)
			st = storetest.Open(t, dir, opts)
			s = storetest.Load(t, st, storetest.CLI)
			if got := storetest.Request(t, s); got != want {
				t.Fatalf("turn %d: a restart changed the request", i)
			}
		}
		require.NoError(t, a.turn(t.Context(), s, fmt.Sprintf("question %d: %s", i, lines(i%23))))
		done, err := s.AfterTurn(t.Context())
		require.NoError(t, err)
		if done.Entry != "" {
			compactions++
		}
	}
	storetest.CheckAccepted(t, m)
	stats := m.Stats()
	t.Logf("%+v, %d compactions after turns", stats, compactions)
	if stats.Overflows > stats.Requests/200 || compactions == 0 {
		t.Errorf("%d of %d requests did not fit, %d compactions", stats.Overflows, stats.Requests, compactions)
	}
	require.Equal(t, turns, storetest.Info(t, s).Turns)
	n := 0
	for _, msg := range storetest.FullHistory(t, s).Messages {
		if strings.HasPrefix(msg.Text(), fmt.Sprintf("question %d: ", n)) {
			n++
		}
	}
	require.Equal(t, turns, n)
	storetest.Close(t, st)
}

var _ guard.Compactor = (*session.Session)(nil)

// A request that the provider has refused is made smaller, however little has come in
// since the last compaction, even if the summarizer is out of service.
func TestRefusalIsNeverTooSoon(t *testing.T) {
	const window = 16_000
	words := func(n int) string { return strings.Repeat("word ", n) }
	for name, summarizer := range map[string]compact.Summarizer{
		"a summarizer": nil,
		"a broken one": compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) { return "", errors.New("out of service") }),
	} {
		t.Run(name, func(t *testing.T) {
			var skipped []compact.Reason
			m := &guardtest.Model{Window: window, MaxOutput: 1_000, ReserveOutput: true, Answer: guardtest.Always(guardtest.Say("done"))}
			st := storetest.Open(t, t.TempDir(), &session.Options{
				Sync: session.SyncNever, Compact: compact.Options{Summarizer: summarizer},
				Observe: func(ctx context.Context, e session.Event) context.Context {
					if e.Kind == session.EventCompactionSkipped {
						skipped = append(skipped, e.Cut.Nothing)
					}
					return ctx
				},
			})
			defer storetest.Close(t, st)
			s := storetest.Load(t, st, storetest.CLI)
			a := agent{g: &guard.Guard{Model: "m", Window: window, System: words(7_800), MaxOutput: 1_000}, c: storetest.Client{Model: m}}
			storetest.Add(t, s, transcript.UserText("q0 "+words(3_000)), storetest.Answer("a0 "+words(2_500)))
			require.NoError(t, a.turn(t.Context(), s, "q1 "+words(3_650)))
			require.NoError(t, a.turn(t.Context(), s, "q2 "+words(2_900)))
			require.NoError(t, a.turn(t.Context(), s, "q3"))
			storetest.CheckAccepted(t, m)
			t.Logf("%+v, skipped %v", m.Stats(), skipped)
			require.NotEmpty(t, skipped, "no compaction came too soon, which is what this is about")
		})
	}
}
