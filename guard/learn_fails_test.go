package guard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// A figure that cannot be the window serves the Do in which it was read, at
// most; the factor is not taken from a limit.
func TestFiguresNotKept(t *testing.T) {
	size := guardSize(talked(t, 60_000).conversation)
	tests := []struct {
		err    string
		guard  int
		window int
	}{
		{"This request exceeds the model's context window. Reserved output limit: 1096.", 0, 0},
		{"Your input exceeds the context window of this model. Request timeout limit 600.", 0, 0},
		{"The prompt exceeds the context window. See error 1021 limit 400.", 0, 0},
		{fmt.Sprintf("prompt is too long: the maximum context length is %d tokens", size/2), 0, size / 2},
		{fmt.Sprintf("prompt is too long: the maximum context length is %d tokens", size*6/10), 0, size * 6 / 10},
		{fmt.Sprintf("prompt is too long: the maximum context length is %d tokens", size/2), 8 * size, 0},
		{fmt.Sprintf("prompt is too long: %d tokens > %d maximum", size, size/2), 8 * size, size / 2},
		{fmt.Sprintf("prompt is too long: %d tokens > %d maximum", size, size/8), 0, size / 8},
		{"prompt is too long: 1021 tokens > 400 maximum", 0, 0},
		{fmt.Sprintf("input length and `max_tokens` exceed context limit: %d + %d > %d", size, size/8, size), 8 * size, size},
	}
	for _, tt := range tests {
		c := talked(t, 60_000)
		s := &script{errs: []error{errors.New(tt.err)}}
		var got transcript.Calibration
		g := &guard.Guard{Window: tt.guard, Observe: func(_ context.Context, e guard.Event) {
			if e.Kind == guard.EventLearned {
				got = e.Learned
			}
		}}
		if _, err := guard.Do(t.Context(), g, c, s.call); err != nil || len(s.calls) != 2 {
			t.Errorf("%s: %v after %d calls", tt.err, err, len(s.calls))
		}
		if got.Window != tt.window || got.Factor != 0 {
			t.Errorf("%s: learned %+v, want the window %d", tt.err, got, tt.window)
		}
	}

	// Nor is a factor taken from an estimate that is too small to tell.
	c := talked(t, 2_000)
	if small := guardSize(c.conversation); small >= 1024 {
		t.Fatalf("%d tokens", small)
	}
	call, _ := answering(transcript.StopEndTurn, "ok", transcript.Usage{Input: 2000, Output: 5})
	_, err := guard.Do(t.Context(), nil, c, call)
	require.NoError(t, err)
	require.Zero(t, c.known("").Factor)
}

// An answer comes through even if its calibration cannot be committed.
func TestLearningFails(t *testing.T) {
	c := talked(t, 40_000)
	c.fail = errors.New("disk full")
	var failed error
	g := &guard.Guard{Observe: func(_ context.Context, e guard.Event) { failed = e.Err }}
	call, _ := answering(transcript.StopEndTurn, "ok", transcript.Usage{Input: 2 * guardSize(c.conversation)})
	answer, err := guard.Do(t.Context(), g, c, call)
	require.NoError(t, err)
	require.Equal(t, "ok", answer.Message.Text())
	require.ErrorIs(t, failed, c.fail)
}

// unreadable is a History that cannot be read after a number of times.
type unreadable struct {
	*conversation
	left int
}

func (u *unreadable) History(ctx context.Context) (rebuild.History, error) {
	if u.left--; u.left < 0 {
		return rebuild.History{}, errUnreadable
	}
	return u.conversation.History(ctx)
}

// A history that cannot be read is an error before anything is sent, also when a
// stage of the preflight has changed it.
func TestUnreadable(t *testing.T) {
	for left := range 2 {
		u := &unreadable{newConversation(t, toolTurn(long(300_000))...), left}
		s := &script{}
		_, err := guard.Do(t.Context(), &guard.Guard{Window: 10_000, Stages: []guard.Stage{{Name: "changes", Run: func(context.Context, guard.History, guard.Need) (bool, error) {
			return true, nil
		}}}}, u, s.call)
		if !errors.Is(err, errUnreadable) || len(s.calls) > 0 {
			t.Errorf("%d reads: %v after %d calls", left, err, len(s.calls))
		}
	}
}
