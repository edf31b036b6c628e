package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// remembering is a conversation that keeps what is learned.
type remembering struct{ *conversation }

func (r remembering) Calibration(_ context.Context, model string) (c transcript.Calibration, err error) {
	for _, known := range r.fold.Standing().Calibrations {
		if known.Model == model {
			c = known
		}
	}
	return c, nil
}

func (r remembering) known(model string) transcript.Calibration {
	c, _ := r.Calibration(r.t.Context(), model)
	return c
}

func talked(t testing.TB, runes int) remembering {
	return remembering{newConversation(t, transcript.UserText(long(runes)), transcript.AssistantText("two"), transcript.UserText("three"))}
}

// answering answers with a usage.
func answering(stop transcript.StopReason, text string, usages ...transcript.Usage) (call func(context.Context, guard.Call) (*transcript.Response, error), calls *[]guard.Call) {
	calls = new([]guard.Call)
	return func(_ context.Context, c guard.Call) (*transcript.Response, error) {
		*calls = append(*calls, c)
		r := &transcript.Response{Message: transcript.AssistantText(text), StopReason: stop, Usage: usages[min(len(*calls), len(usages))-1]}
		if text == "" {
			r.Message.Content = nil
		}
		return r, nil
	}, calls
}

// The factor of the estimate follows the provider's counts, per model, and
// ignores figures that are no counts.
func TestFactor(t *testing.T) {
	size := guardSize(talked(t, 40_000).conversation)
	prompt := func(f float64) transcript.Usage { return transcript.Usage{Input: int(f * float64(size)), Output: 5} }
	tests := []struct {
		name   string
		before transcript.Calibration
		usage  transcript.Usage
		want   float64
	}{
		{"first", transcript.Calibration{}, prompt(1.4), 1.4},
		{"with a cache", transcript.Calibration{}, transcript.Usage{Input: 10, CacheRead: size, CacheWrite: size * 4 / 10}, 1.4},
		{"near enough", transcript.Calibration{}, prompt(1.08), 0},
		{"less", transcript.Calibration{}, prompt(.6), .8},
		{"a little less", transcript.Calibration{}, prompt(.9), 0},
		{"up", transcript.Calibration{Factor: 1.2}, prompt(1.5), 1.5},
		{"down", transcript.Calibration{Factor: 1.5}, prompt(1.1), 1.3},
		{"bounded", transcript.Calibration{}, prompt(6), 2.5},
		{"front dropped", transcript.Calibration{}, prompt(.3), 0},
		{"nothing counted", transcript.Calibration{Factor: 1.5}, transcript.Usage{}, 1.5},
		{"our own estimate", transcript.Calibration{Factor: 1.5}, prompt(1), 1.5},
		{"always the same", transcript.Calibration{Factor: 1.5, Prompt: 2 * size}, prompt(2), 1.5},
		{"too small to tell", transcript.Calibration{}, transcript.Usage{Input: 900}, 0},
	}
	for _, tt := range tests {
		c := talked(t, 40_000)
		if tt.before != (transcript.Calibration{}) {
			tt.before.Model = "m"
			_, err := c.Append(t.Context(), tt.before, transcript.Calibration{Model: "other", Factor: 2})
			require.NoError(t, err)
		}
		call, _ := answering(transcript.StopEndTurn, "ok", tt.usage)
		_, err := guard.Do(t.Context(), &guard.Guard{Model: "m"}, c, call)
		require.NoError(t, err)
		if got := c.known("m").Factor; got < tt.want-.01 || got > tt.want+.01 {
			t.Errorf("%s: factor %v, want %v", tt.name, got, tt.want)
		}
		if len(c.relief) > 0 {
			t.Errorf("%s: compacted", tt.name)
		}
	}

	// A prompt that is mostly images says nothing about texts.
	c := remembering{newConversation(t, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{
		transcript.TextBlock{Text: long(8_000)}, transcript.ImageBlock{Source: transcript.Source{Type: "url", URL: "x"}},
	}})}
	call, _ := answering(transcript.StopEndTurn, "ok", transcript.Usage{Input: 9_000})
	_, err := guard.Do(t.Context(), nil, c, call)
	require.NoError(t, err)
	require.Zero(t, c.known("").Factor)
}

// The factor decides what is too long before it is sent, and the room.
func TestFactorInThePreflight(t *testing.T) {
	size := guardSize(talked(t, 40_000).conversation)
	for factor, compactions := range map[float64]int{0: 0, 1.5: 1} {
		c := talked(t, 40_000)
		_, err := c.Append(t.Context(), transcript.Calibration{Factor: factor})
		require.NoError(t, err)
		s := &script{}
		window := size * 13 / 10
		_, err = guard.Do(t.Context(), &guard.Guard{Window: window}, c, s.call)
		require.NoError(t, err)
		if len(c.relief) != compactions || len(s.calls) != 1 {
			t.Fatalf("factor %v: %d compactions, %d calls", factor, len(c.relief), len(s.calls))
		}
		if factor > 0 && (c.relief[0] > window*2/3 || c.relief[0] < window/2) {
			t.Errorf("the room is %d of %d", c.relief[0], window)
		}
	}
}

// A window is learned from what is refused, never up, and only where it is a
// window; the next Do knows it.
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

// An answer that says nothing about the window leaves no window behind; one of
// a server that cuts prompts does.
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
		{"longer", transcript.StopEndTurn, "ok", size * 21 / 20, transcript.WindowTakenBack},
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

// An answer comes through even if what was learned from it cannot be committed.
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

// A stream that has shown something and then overflows: the next attempt says
// that it is void, and why; what there is of an answer comes with the error.
func TestStream(t *testing.T) {
	c := newConversation(t, toolTurn(long(300_000))...)
	var shown []string
	call := func(_ context.Context, call guard.Call) (string, error) {
		if call.Attempt > 0 {
			shown = append(shown, fmt.Sprintf("void: %s, %d > %d", call.Overflow.Kind, call.Overflow.Prompt, call.Overflow.Limit))
		}
		shown = append(shown, "I will")
		if call.Attempt == 0 {
			return "I will", errTooLong
		}
		return "I will do it", nil
	}
	answer, err := guard.Do(t.Context(), nil, c, call)
	if want := "I will|void: tokens, 210000 > 200000|I will"; err != nil || answer != "I will do it" || strings.Join(shown, "|") != want {
		t.Errorf("%q, %v, shown %q", answer, err, shown)
	}
	answer, err = guard.Do(t.Context(), nil, plain{c}, func(context.Context, guard.Call) (string, error) { return "I will", errTooLong })
	require.Equal(t, "I will", answer)
	require.ErrorIs(t, err, errTooLong)
}

// A prompt that the provider has counted in this Do needs no margin for the error
// of an estimate, neither for the room nor for the output limit.
func TestCountedPrompt(t *testing.T) {
	size := guardSize(talked(t, 60_000).conversation)
	window := 2 * size
	// The provider counts 1.5 tokens for one of the estimate, and nothing can be
	// made smaller: the output alone gives way.
	c := talked(t, 60_000)
	counted := size * 3 / 2
	s := &script{errs: []error{fmt.Errorf("input length and `max_tokens` exceed context limit: %d + %d > %d", counted, 20_000, window)}}
	g := &guard.Guard{MaxOutput: 20_000, Stages: []guard.Stage{}}
	_, err := guard.Do(t.Context(), g, c, s.call)
	require.NoError(t, err)
	require.Len(t, s.calls, 2)
	if got, most := s.calls[1].MaxOutput, window-counted; got > most || got < most*9/10 {
		t.Errorf("the output is %d, and %d are left", got, most)
	}

	// The room for a history that is refused is in tokens of the estimate.
	c = talked(t, 60_000)
	limit := size
	s = &script{errs: []error{fmt.Errorf("prompt is too long: %d tokens > %d maximum", counted, limit)}}
	_, err = guard.Do(t.Context(), &guard.Guard{Stages: []guard.Stage{guard.Compact()}}, c, s.call)
	require.NoError(t, err)
	require.Len(t, c.relief, 1)
	want := (limit - limit/8) * 2 / 3
	if got := c.relief[0]; got < want-want/50 || got > want+want/50 {
		t.Errorf("the room is %d tokens of the estimate, want %d", got, want)
	}
}

// Stages get the window that the error names. Every event says which attempt it
// belongs to and whether anything was sent.
func TestNeedAndEvents(t *testing.T) {
	size := guardSize(talked(t, 60_000).conversation)
	var events []string
	var windows []int
	stage := guard.Stage{Name: "mine", Run: func(_ context.Context, _ guard.History, n guard.Need) (bool, error) {
		windows = append(windows, n.Window)
		return true, nil
	}}
	g := &guard.Guard{Window: size / 2, Stages: []guard.Stage{stage, stage}, Observe: func(_ context.Context, e guard.Event) {
		events = append(events, fmt.Sprint(e.Kind, " ", e.Attempt, " ", e.Unsent))
	}}
	s := &script{errs: []error{fmt.Errorf("prompt is too long: %d tokens > %d maximum", size, size/4), errors.New("context_length_exceeded")}}
	_, err := guard.Do(t.Context(), g, talked(t, 60_000), s.call)
	require.Error(t, err)
	want := []string{"overflow 0 true", "stage 0 true", "stage 0 true", "overflow 0 false", "learned 0 false", "failed 0 false"}
	require.Equal(t, want, events)
	require.Equal(t, []int{size / 2, size / 2}, windows)

	// Of a window that nobody knows, that of the estimate is an upper bound.
	events, windows = nil, nil
	g.Window = 0
	again := errors.New("context_length_exceeded")
	s = &script{errs: []error{again, again, again}}
	_, err = guard.Do(t.Context(), g, talked(t, 60_000), s.call)
	require.Error(t, err)
	want = []string{"overflow 0 false", "stage 0 false", "retry 1 false", "overflow 1 false", "stage 1 false", "retry 2 false", "overflow 2 false", "failed 2 false"}
	require.Equal(t, want, events)
	require.Equal(t, []int{size, size}, windows)
}

// unreadable is a History that cannot be read after a number of times.
type unreadable struct {
	*conversation
	left int
}

var errUnreadable = errors.New("the disk is gone")

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

// editing returns an answer whose prompt the provider has made smaller.
func editing(prompt, cleared int) *transcript.Response {
	return &transcript.Response{
		API: "anthropic", Model: "m-20260101", StopReason: transcript.StopEndTurn, Message: transcript.AssistantText("ok"),
		Usage: transcript.Usage{Input: prompt, Output: 5, Extra: transcript.Extra{
			"context_management": fmt.Appendf(nil, `{"applied_edits":[{"type":"clear_tool_uses_20250919","cleared_input_tokens":%d}]}`, cleared),
		}},
	}
}

// Tokens that the provider cleared by its own context editing neither make the
// next prompt look too long nor change the factor. After a refusal, after a
// compaction and for another model they are ignored.
func TestServerCleared(t *testing.T) {
	size := guardSize(talked(t, 60_000).conversation)
	window := size * 3 / 4
	tests := []struct {
		name     string
		model    string
		answer   *transcript.Response
		errs     []error
		compacts int
	}{
		{"cleared", "m", editing(size/4, size*3/4), nil, 0},
		{"not cleared", "m", editing(size, 0), nil, 1},
		{"by another model", "n", editing(size/4, size*3/4), nil, 1},
		{"refused all the same", "m", editing(size/4, size*3/4), []error{errors.New("context_length_exceeded")}, 1},
	}
	for _, tt := range tests {
		c := talked(t, 60_000)
		var learned []transcript.Calibration
		g := &guard.Guard{Model: tt.model, Window: window, Stages: []guard.Stage{guard.Compact()}, Observe: func(_ context.Context, e guard.Event) {
			if e.Kind == guard.EventLearned {
				learned = append(learned, e.Learned)
			}
		}}
		before := *g
		before.Stages = []guard.Stage{}
		answer, err := guard.Do(t.Context(), &before, c, func(context.Context, guard.Call) (*transcript.Response, error) { return tt.answer, nil })
		if err != nil || len(learned) > 0 {
			t.Errorf("%s: %v, learned %+v", tt.name, err, learned)
		}
		_, err = c.Append(t.Context(), answer)
		require.NoError(t, err)
		_, err = c.Append(t.Context(), transcript.UserText("go on"))
		require.NoError(t, err)
		s := &script{errs: tt.errs}
		if _, err := guard.Do(t.Context(), g, c, s.call); err != nil || len(c.relief) != tt.compacts {
			t.Errorf("%s: %v, %d compactions, want %d", tt.name, err, len(c.relief), tt.compacts)
		}
		if h, _ := c.History(t.Context()); tt.compacts > 0 && h.Cleared != 0 {
			t.Errorf("%s: %d are cleared after a compaction", tt.name, h.Cleared)
		}
	}
}

// After a refusal the figures of the provider decide, without the margin of an
// estimate and whatever it has cleared before.
func TestFiguresOfRefusal(t *testing.T) {
	for _, cleared := range []int{0, 10_000} {
		c := newConversation(t, toolTurn(long(300_000))...)
		answer := editing(10_000, cleared)
		_, err := c.Append(t.Context(), answer)
		require.NoError(t, err)
		_, err = c.Append(t.Context(), transcript.UserText("go on"))
		require.NoError(t, err)
		limit := guardSize(c)
		counted := limit * 3 / 2
		s := &script{errs: []error{fmt.Errorf("prompt is too long: %d tokens > %d maximum", counted, limit)}}
		g := &guard.Guard{Model: "m", MaxOutput: 10 * limit, Stages: []guard.Stage{guard.Clip()}}
		_, err = guard.Do(t.Context(), g, c, s.call)
		require.NoError(t, err)
		require.Len(t, s.calls, 2)
		want := limit - int(float64(guardSize(c))/(float64(limit)/float64(counted)))
		if got := s.calls[1].MaxOutput; got != want {
			t.Errorf("%d cleared: the output is %d, want %d", cleared, got, want)
		}
	}
}

// A count that is only a lower bound is no factor, and none at all where the
// estimate is more.
func TestLowerBound(t *testing.T) {
	size := guardSize(talked(t, 60_000).conversation)
	limit := size / 2
	rooms := map[int]float64{size * 2 / 3: 100. / 105, size * 3 / 2: 2. / 3}
	for least, share := range rooms {
		c := talked(t, 60_000)
		s := &script{errs: []error{fmt.Errorf("This model's maximum context length is %d tokens. However, your messages resulted in over %d tokens.", limit, least)}}
		factor := 0.0
		g := &guard.Guard{Stages: []guard.Stage{guard.Compact()}, Observe: func(_ context.Context, e guard.Event) { factor = max(factor, e.Learned.Factor) }}
		_, err := guard.Do(t.Context(), g, c, s.call)
		require.NoError(t, err)
		require.Len(t, c.relief, 1)
		want := float64(limit-limit/8) * share
		if got := float64(c.relief[0]); got < want*.97 || got > want*1.03 {
			t.Errorf("at least %d of %d: the room is %.0f, want %.0f", least, size, got, want)
		}
		if factor != 0 {
			t.Errorf("at least %d of %d: learned the factor %v", least, size, factor)
		}
	}
}

// A prompt that looks small because the provider cleared part of it is not taken
// for a smaller count, nor for one whose beginning was dropped.
func TestClearedIsCounted(t *testing.T) {
	size := guardSize(talked(t, 60_000).conversation)
	for _, answer := range []*transcript.Response{editing(size*7/10, size*3/10), editing(size/4, size*3/4)} {
		c := talked(t, 60_000)
		g := &guard.Guard{Model: "m", CutsSilently: true}
		_, err := guard.Do(t.Context(), g, c, func(context.Context, guard.Call) (*transcript.Response, error) { return answer, nil })
		require.NoError(t, err)
		if got := c.known("m"); got != (transcript.Calibration{}) {
			t.Errorf("learned %+v", got)
		}
	}
}

// counterFunc is a Counter.
type counterFunc func(system string, tools []transcript.Tool, messages []transcript.Message) int

func (f counterFunc) Count(system string, tools []transcript.Tool, messages []transcript.Message) int {
	return f(system, tools, messages)
}

// A Counter is not asked about a message without content, which no provider takes.
func TestLearnCountsNoEmptyMessage(t *testing.T) {
	g := &guard.Guard{Model: "m", Window: 200_000, Counter: counterFunc(func(system string, tools []transcript.Tool, messages []transcript.Message) int {
		for _, m := range messages {
			require.NotEmpty(t, m.Content)
		}
		return tokens.Estimator{}.Count(system, tools, messages)
	})}
	call, _ := answering(transcript.StopEndTurn, "four", transcript.Usage{Input: 20_000, Output: 5})
	_, err := guard.Do(t.Context(), g, talked(t, 40_000), call)
	require.NoError(t, err)
}
