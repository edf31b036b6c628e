package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// A compaction has the system prompt in force before it, in its batch: the
// prompt is at the top of the next request, even after a restart, and a prompt
// that changes in the kept part prevents no cut.
func TestCompactionRepeatsThePrompt(t *testing.T) {
	mem := memdriver.New(nil)
	st := session.OpenDriver(mem, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.System{Text: "first"}, transcript.Tools{Names: []string{"read", "write"}})
	storetest.Talk(t, s, 0, 6)
	storetest.Add(t, s, transcript.System{Text: "second"}, transcript.Tools{Names: []string{"read"}})
	storetest.Talk(t, s, 6, 2)
	done, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 3}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.ShortSummary))})
	require.NoError(t, err)
	require.NotEmpty(t, done.Entry, done.Cut)
	require.True(t, strings.HasSuffix(types(t, s), "tools system compaction"), types(t, s))
	h, err := s.History(t.Context())
	require.NoError(t, err)
	const want = "second\n\n[Only these tools may be called from here on]\nread"
	require.Equal(t, want, h.Prompt)
	for _, m := range h.Messages {
		require.NotContains(t, m.Text(), "[The system prompt from here on]")
		require.NotContains(t, m.Text(), "[Only these tools may be called from here on]")
	}
	require.Equal(t, done.Compaction.TokensAfter, storetest.Info(t, s).Tokens)
	require.InDelta(t, tokens.Estimator{}.Count(h.SystemPrompt(""), nil, h.Messages), storetest.Info(t, s).Tokens, float64(len(h.Messages)))
	storetest.Talk(t, s, 8, 4)
	_, err = s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.ShortSummary))})
	require.NoError(t, err)
	h, err = s.History(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, h.Prompt)
	asked := storetest.Request(t, s)
	storetest.Close(t, st)
	st = session.OpenDriver(memdriver.Reopen(mem), nil)
	defer storetest.Close(t, st)
	require.Equal(t, asked, storetest.Request(t, storetest.Load(t, st, storetest.CLI)))
}

// A compaction carries items if the summary is a message of the user, and by
// default not in the forms of other programs.
func TestCarriedByForm(t *testing.T) {
	for form, carried := range map[rebuild.SummaryForm]bool{rebuild.SummaryUser: true, rebuild.SummaryPair: false, rebuild.SummarySystem: false} {
		for _, asked := range []int{0, 1_000} {
			st := session.OpenDriver(memdriver.New(nil), &session.Options{Summary: form})
			s := storetest.Load(t, st, storetest.CLI)
			storetest.Talk(t, s, 0, 12)
			done, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 2}, MaxCarried: asked, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.ShortSummary))})
			require.NoError(t, err)
			h, err := s.History(t.Context())
			require.NoError(t, err)
			want := carried || asked > 0
			require.Equal(t, want, len(done.Compaction.Said) > 0)
			require.Equal(t, want, strings.Contains(storetest.History(t, s), "- question 9, "))
			require.NotContains(t, h.System, "question 9")
			storetest.Close(t, st)
		}
	}
}

// A summarizer that takes all its time leaves time for its substitute, even
// under a deadline of the caller.
func TestStandInHasItsOwnTime(t *testing.T) {
	slow := compact.SummarizerFunc(func(ctx context.Context, _ compact.Input) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	for name, o := range map[string]compact.Options{
		"of CompactFor": {Summarizer: slow, Timeout: 1},
		"of Either":     {Summarizer: compact.Either(slow, compact.Extractive{})},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := session.OpenDriver(memdriver.New(nil), &session.Options{Compact: o})
				defer storetest.Close(t, st)
				s := storetest.Load(t, st, storetest.CLI)
				for i := range 12 {
					storetest.Add(t, s, transcript.UserText(fmt.Sprintf("question %d", i)), storetest.Answer(lines(30)))
				}
				ctx := t.Context()
				if o.Timeout == 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, time.Minute)
					defer cancel()
				}
				changed, err := s.CompactFor(ctx, guard.Need{Refused: true})
				require.True(t, changed)
				if o.Timeout == 0 {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
			})
		})
	}
}

// Guidance reaches the summarizer, and its model sees it.
func TestGuidance(t *testing.T) {
	var asked string
	model := compact.Model{Complete: func(_ context.Context, req transcript.Request) (*transcript.Response, error) {
		asked = req.Messages[0].Text()
		return &transcript.Response{Message: transcript.AssistantText(storetest.ShortSummary)}, nil
	}}
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Compact: compact.Options{Summarizer: model}})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 12)
	_, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 2}, Guidance: "Above all keep the harbour."})
	require.NoError(t, err)
	require.Contains(t, asked, "\nAbove all keep the harbour.\n")
}
