package guard_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/transcript"
)

// A window is learned from refusals, never up, and only from figures near one;
// the next Do uses it.
func TestWindow(t *testing.T) {
	tests := []struct {
		err      string
		guard    int
		known    int
		want     int
		compacts int // by the next Do
	}{
		{"prompt is too long: 12000 tokens > 10000 maximum", 0, 0, 10_000, 0},
		{"prompt is too long: 12000 tokens > 10000 maximum", 200_000, 0, 10_000, 0},
		{"prompt is too long: 12000 tokens > 10000 maximum", 0, 8_000, 8_000, 0},
		{"prompt is too long: 12000 tokens > 10000 maximum", 9_000, 0, 0, 0},
		{"413 request body of 12000 bytes exceeds the limit of 10000 bytes", 0, 0, 0, 0},
		{"context_length_exceeded", 0, 0, 0, 0},
	}
	for _, tt := range tests {
		c := talked(t, 20_000)
		if tt.known > 0 {
			_, err := c.Append(t.Context(), transcript.Calibration{Window: tt.known})
			require.NoError(t, err)
		}
		var learned []transcript.Calibration
		g := &guard.Guard{Window: tt.guard, Stages: []guard.Stage{guard.Clip()}, Observe: func(_ context.Context, e guard.Event) {
			if e.Kind == guard.EventLearned {
				learned = append(learned, e.Learned)
			}
		}}
		s := &script{errs: []error{errors.New(tt.err)}}
		if _, err := guard.Do(t.Context(), g, c, s.call); err == nil {
			t.Errorf("%s: no error, and nothing was clipped", tt.err)
		}
		if got := c.known("").Window; got != tt.want {
			t.Errorf("%s: the window is %d, want %d (events %+v)", tt.err, got, tt.want, learned)
		}
	}

	c := talked(t, 60_000)
	s := &script{errs: []error{errors.New("prompt is too long: 15000 tokens > 10000 maximum")}}
	_, err := guard.Do(t.Context(), &guard.Guard{Model: "m"}, c, s.call)
	require.NoError(t, err)
	require.Len(t, s.calls, 2)
	require.Len(t, c.relief, 1)
	_, err = c.Append(t.Context(), transcript.Calibration{Model: "m", Window: 10_000}, transcript.AssistantText("four"), transcript.UserText(long(60_000)), transcript.AssistantText("six"), transcript.UserText("seven"))
	require.NoError(t, err)
	s = &script{}
	_, err = guard.Do(t.Context(), &guard.Guard{Model: "m"}, c, s.call)
	require.NoError(t, err)
	require.Len(t, s.calls, 1)
	require.Len(t, c.relief, 2)
	// Another model has its own window.
	_, err = c.Append(t.Context(), transcript.AssistantText("eight"), transcript.UserText(long(60_000)))
	require.NoError(t, err)
	_, err = guard.Do(t.Context(), &guard.Guard{Model: "n"}, c, s.call)
	require.NoError(t, err)
	require.Len(t, c.relief, 2)
}

// An answer that the full window has cut is returned, and the next Do makes
// room.
func TestNextDoMakesRoom(t *testing.T) {
	c := talked(t, 60_000)
	size := guardSize(c.conversation)
	call, calls := answering(transcript.StopContextWindow, "half of a sen", transcript.Usage{Input: size * 6 / 5, Output: 100})
	answer, err := guard.Do(t.Context(), nil, c, call)
	if err != nil || answer.Message.Text() != "half of a sen" || len(*calls) != 1 || len(c.relief) > 0 {
		t.Fatalf("%+v, %v, %d compactions", answer, err, len(c.relief))
	}
	if got := c.known(""); got.Window != size*6/5+100 || got.Factor < 1.19 || got.Factor > 1.21 {
		t.Errorf("learned %+v of %d tokens", got, size)
	}
	_, err = c.Append(t.Context(), answer, transcript.UserText("go on"))
	require.NoError(t, err)
	s := &script{}
	_, err = guard.Do(t.Context(), nil, c, s.call)
	require.NoError(t, err)
	require.Len(t, s.calls, 1)
	require.Len(t, c.relief, 1)
}

// An overflow without an error: with nothing in the answer the model is called
// again, once; with something in it, it is returned and the next Do makes room.
func TestSilent(t *testing.T) {
	size := guardSize(talked(t, 60_000).conversation)
	full, ok := transcript.Usage{Input: size * 101 / 100, Output: 0}, transcript.Usage{Input: 50, Output: 5}
	tests := []struct {
		name   string
		g      guard.Guard
		stop   transcript.StopReason
		text   string
		usage  transcript.Usage
		calls  int
		inNext int // compactions of the next Do
	}{
		{"an answer like any other", guard.Guard{Window: 2 * size}, transcript.StopEndTurn, "ok", full, 1, 0},
		{"empty, like any other", guard.Guard{Window: 2 * size}, transcript.StopEndTurn, "", full, 1, 0},
		{"above the window", guard.Guard{Window: size}, transcript.StopEndTurn, "ok", full, 1, 1},
		{"above the window, empty", guard.Guard{Window: size}, transcript.StopEndTurn, "", full, 2, 0},
		{"no output in a full window", guard.Guard{Window: size * 101 / 100}, transcript.StopMaxTokens, "", full, 2, 0},
		{"empty and nothing counted", guard.Guard{Window: size * 105 / 100}, transcript.StopEndTurn, "", transcript.Usage{}, 2, 0},
		{"empty in three quarters of the window", guard.Guard{Window: size * 4 / 3}, transcript.StopEndTurn, "", transcript.Usage{}, 1, 0},
		{"empty, no output in half of the window", guard.Guard{Window: size * 17 / 10}, transcript.StopMaxTokens, "", full, 1, 0},
		{"empty, cached perhaps", guard.Guard{Window: 4 * size}, transcript.StopEndTurn, "", transcript.Usage{Input: size / 4, Output: 1}, 1, 0},
		{"as estimated, above the window", guard.Guard{Window: size - 1}, transcript.StopEndTurn, "ok", transcript.Usage{Input: size, Output: 5}, 1, 1},
		{"refused", guard.Guard{Window: size}, transcript.StopRefusal, "", full, 1, 0},
		{"front dropped, empty", guard.Guard{}, transcript.StopEndTurn, "", transcript.Usage{Input: size / 4, Output: 1}, 2, 0},
		{"cached, perhaps", guard.Guard{}, transcript.StopEndTurn, "ok", transcript.Usage{Input: size / 4, Output: 1}, 1, 0},
		{"front dropped", guard.Guard{CutsSilently: true}, transcript.StopEndTurn, "ok", transcript.Usage{Input: size / 4, Output: 1}, 1, 1},
	}
	for _, tt := range tests {
		c := talked(t, 60_000)
		kinds := []string{}
		// Nothing can be done in the preflight of this Do.
		tt.g.Stages = []guard.Stage{{Name: "mine", Run: func(ctx context.Context, h guard.History, n guard.Need) (bool, error) {
			if n.Overflow.Kind != guard.Silent {
				return false, nil
			}
			return c.CompactFor(ctx, n)
		}}}
		tt.g.Observe = func(_ context.Context, e guard.Event) {
			kinds = append(kinds, string(e.Kind)+" "+string(e.Overflow.Kind))
		}
		call, calls := answering(tt.stop, tt.text, tt.usage, ok)
		answer, err := guard.Do(t.Context(), &tt.g, c, call)
		if err != nil || len(*calls) != tt.calls || len(c.relief) != tt.calls-1 || answer == nil {
			t.Errorf("%s: %v after %d calls, %d compactions, %v", tt.name, err, len(*calls), len(c.relief), kinds)
			continue
		}
		if tt.calls == 2 && ((*calls)[1].Overflow == nil || (*calls)[1].Overflow.Kind != guard.Silent) {
			t.Errorf("%s: the second call is %+v", tt.name, (*calls)[1].Overflow)
		}
		if tt.calls == 2 {
			continue
		}
		c.relief = nil
		next := tt.g
		next.Stages = []guard.Stage{guard.Compact()}
		s := &script{}
		if tt.name != "refused" && !strings.HasPrefix(tt.name, "empty") {
			if _, err := c.Append(t.Context(), answer, transcript.UserText("go on")); err != nil {
				t.Fatal(err)
			}
			if _, err := guard.Do(t.Context(), &next, c, s.call); err != nil || len(c.relief) != tt.inNext {
				t.Errorf("%s: %v, %d compactions in the next Do, learned %+v", tt.name, err, len(c.relief), c.known(""))
			}
		}
	}
}

// An inconclusive answer records no window; one of a server that cuts prompts
// does.
func TestWindowOfAnswers(t *testing.T) {
	size := guardSize(talked(t, 60_000).conversation)
	quarter := transcript.Usage{Input: size / 4, Output: 1}
	tests := []struct {
		name  string
		g     guard.Guard
		stop  transcript.StopReason
		text  string
		usage transcript.Usage
		want  int
	}{
		{"empty", guard.Guard{}, transcript.StopEndTurn, "", quarter, 0},
		{"empty, cut silently", guard.Guard{CutsSilently: true}, transcript.StopEndTurn, "", transcript.Usage{Input: size / 8, Output: 1}, size/8 + 1},
		{"empty, far from full", guard.Guard{Window: 4 * size}, transcript.StopEndTurn, "", quarter, 0},
		{"full, without what was cached", guard.Guard{Window: 4 * size}, transcript.StopContextWindow, "half", quarter, 0},
		{"full, a mirrored count", guard.Guard{}, transcript.StopContextWindow, "half", transcript.Usage{Input: size, Output: 5}, 0},
		{"full, above the window", guard.Guard{Window: 2 * size}, transcript.StopContextWindow, "half", transcript.Usage{Input: 2*size - 10, Output: 20}, 0},
	}
	for _, tt := range tests {
		c := talked(t, 60_000)
		learned := 0
		tt.g.Observe = func(_ context.Context, e guard.Event) { learned = max(learned, e.Learned.Window) }
		call, _ := answering(tt.stop, tt.text, tt.usage)
		if _, err := guard.Do(t.Context(), &tt.g, c, call); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if learned != tt.want {
			t.Errorf("%s: the window is %d, want %d", tt.name, learned, tt.want)
		}
	}

	// Only an event tells a mirrored count from one that is above the window.
	c := talked(t, 60_000)
	g := &guard.Guard{Window: size - 1, Stages: []guard.Stage{}, Observe: func(_ context.Context, e guard.Event) {
		if e.Overflow.Kind == guard.Silent {
			t.Errorf("a mirrored count: %+v", e)
		}
	}}
	call, _ := answering(transcript.StopEndTurn, "ok", transcript.Usage{Input: size, Output: 5})
	_, err := guard.Do(t.Context(), g, c, call)
	require.NoError(t, err)
}

// A prompt that was read takes back a window that was learned and is smaller.
func TestWindowTakenBack(t *testing.T) {
	size := guardSize(talked(t, 60_000).conversation)
	tests := []struct {
		name   string
		stop   transcript.StopReason
		text   string
		prompt int
		window int
	}{
		{"longer", transcript.StopEndTurn, "ok", size * 21 / 20, -1},
		{"full, and longer", transcript.StopContextWindow, "half", size * 21 / 20, size*21/20 + 5},
		{"not longer", transcript.StopEndTurn, "ok", size / 3, size / 2},
		{"mirrored", transcript.StopEndTurn, "ok", size, size / 2},
		{"nothing in the answer", transcript.StopEndTurn, "", size * 21 / 20, size / 2},
	}
	for _, tt := range tests {
		c := talked(t, 60_000)
		_, err := c.Append(t.Context(), transcript.Calibration{Window: size / 2})
		require.NoError(t, err)
		g := &guard.Guard{Stages: []guard.Stage{}} // nothing makes it smaller
		call, _ := answering(tt.stop, tt.text, transcript.Usage{Input: tt.prompt, Output: 5})
		if _, err := guard.Do(t.Context(), g, c, call); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := c.known("").Window; got != tt.window {
			t.Errorf("%s: the window is %d, want %d", tt.name, got, tt.window)
		}
		if tt.window >= 0 {
			continue
		}
		// The next one has room again.
		s := &script{}
		if _, err := guard.Do(t.Context(), nil, c, s.call); err != nil || len(c.relief) > 0 {
			t.Errorf("%s: %v, %d compactions", tt.name, err, len(c.relief))
		}
	}
}
