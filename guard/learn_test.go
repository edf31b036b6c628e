package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// remembering is a conversation that keeps calibrations.
type remembering struct{ *conversation }

func (r remembering) Calibration(_ context.Context, model, endpoint string) (c transcript.Calibration, err error) {
	for _, known := range r.fold.Standing().Calibrations {
		if known.Model == model && known.Endpoint == endpoint {
			c = known
		}
	}
	return c, nil
}

func (r remembering) known(model string) transcript.Calibration {
	c, _ := r.Calibration(r.t.Context(), model, "")
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
// ignores figures other than counts.
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
		if !tt.before.IsZero() {
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

	// A prompt that is mostly images proves nothing about texts.
	c := remembering{newConversation(t, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{
		transcript.TextBlock{Text: long(8_000)}, transcript.ImageBlock{Source: transcript.Source{Type: "url", URL: "x"}},
	}})}
	call, _ := answering(transcript.StopEndTurn, "ok", transcript.Usage{Input: 9_000})
	_, err := guard.Do(t.Context(), nil, c, call)
	require.NoError(t, err)
	require.Zero(t, c.known("").Factor)
}

// The factor decides which requests are too long before they are sent, and the
// room.
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

// A stream that has shown something and then overflows: the next attempt
// reports that it is void, and why; the partial answer comes with the error.
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

// Stages get the window that the error names. Every event holds the number of its
// attempt and whether anything was sent.
func TestNeedAndEvents(t *testing.T) {
	size := guardSize(talked(t, 60_000).conversation)
	var events []string
	var windows []int
	stage := guard.Stage{Name: "mine", Run: func(_ context.Context, _ guard.History, n guard.Need) (bool, error) {
		require.Equal(t, "m", n.Model)
		windows = append(windows, n.Window)
		return true, nil
	}}
	g := &guard.Guard{Model: "m", Window: size / 2, Stages: []guard.Stage{stage, stage}, Observe: func(_ context.Context, e guard.Event) {
		events = append(events, fmt.Sprint(e.Kind, " ", e.Attempt, " ", e.Unsent))
	}}
	s := &script{errs: []error{fmt.Errorf("prompt is too long: %d tokens > %d maximum", size, size/4), errors.New("context_length_exceeded")}}
	_, err := guard.Do(t.Context(), g, talked(t, 60_000), s.call)
	require.Error(t, err)
	want := []string{"overflow 0 true", "stage 0 true", "stage 0 true", "overflow 0 false", "learned 0 false", "failed 0 false"}
	require.Equal(t, want, events)
	require.Equal(t, []int{size / 2, size / 2}, windows)

	// The estimate is an upper bound of an unknown window.
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

var errUnreadable = errors.New("the disk is gone")

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
// estimate and despite earlier clearing.
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

// A count that is only a lower bound gives no factor, least of all below the
// estimate.
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
		if got := c.known("m"); !got.IsZero() {
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
