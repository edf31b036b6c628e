package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// conversation is a History in memory that can be compacted: CompactFor keeps the
// last message.
type conversation struct {
	t      testing.TB
	fold   *rebuild.Fold
	n      int
	fail   error // of Append and CompactFor
	relief []int // the requested rooms
}

func newConversation(t testing.TB, items ...transcript.Item) *conversation {
	c := &conversation{t: t, fold: rebuild.New(nil)}
	for _, item := range items {
		_, err := c.Append(t.Context(), item)
		require.NoError(t, err)
	}
	return c
}

func (c *conversation) History(context.Context) (rebuild.History, error) {
	return c.fold.History(), nil
}

func (c *conversation) Append(_ context.Context, items ...transcript.Item) ([]string, error) {
	if c.fail != nil {
		return nil, c.fail
	}
	entries, err := transcript.NewBatch(time.Unix(0, 0), func() string { c.n++; return fmt.Sprint("e", c.n) }, items...)
	if err != nil {
		return nil, err
	}
	return nil, c.fold.Add(transcript.Batch{Entries: entries, Complete: true})
}

func (c *conversation) CompactFor(ctx context.Context, n guard.Need) (bool, error) {
	c.relief = append(c.relief, n.Room)
	if c.fail != nil {
		return false, c.fail
	}
	h := c.fold.History()
	last := h.Messages[len(h.Messages)-1]
	_, err := c.Append(ctx, transcript.Compaction{Summary: "all that was said", FirstKept: last.Origins[0].Entry})
	return true, err
}

// plain is a History that cannot be compacted.
type plain struct{ c *conversation }

func (p plain) History(ctx context.Context) (rebuild.History, error) { return p.c.History(ctx) }

func (p plain) Append(ctx context.Context, items ...transcript.Item) ([]string, error) {
	return p.c.Append(ctx, items...)
}

var errTooLong = errors.New("400 invalid_request_error: prompt is too long: 210000 tokens > 200000 maximum")

// script is a call with a list of results, one for each attempt. It keeps the
// calls.
type script struct {
	errs  []error
	calls []guard.Call
}

func (s *script) call(_ context.Context, c guard.Call) (string, error) {
	s.calls = append(s.calls, c)
	if n := len(s.calls); n <= len(s.errs) && s.errs[n-1] != nil {
		return "", s.errs[n-1]
	}
	return "answer", nil
}

// sizes is how many bytes of text each call sent.
func (s *script) sizes() (sizes []int) {
	for _, c := range s.calls {
		n := 0
		for _, m := range c.Messages {
			for _, b := range m.Content {
				n += len(transcript.MarshalBlock(b))
			}
		}
		sizes = append(sizes, n)
	}
	return sizes
}

func long(runes int) string { return strings.Repeat("a line of 20 runes.\n", runes/20) }

func toolTurn(result string) []transcript.Item {
	return []transcript.Item{
		transcript.UserText("read it"),
		transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.ToolCallBlock{ID: "a", Name: "read", Input: []byte(`{}`)},
		}},
		transcript.ToolResult("a", result),
	}
}

// The rows of claw0: a call that succeeds is left alone; after one overflow
// there is a smaller request, after two a summary and a third one, after three
// the provider's error.
func TestOverflows(t *testing.T) {
	for overflows := range 4 {
		t.Run(fmt.Sprint(overflows), func(t *testing.T) {
			c := newConversation(t, append([]transcript.Item{transcript.UserText(long(20_000))}, toolTurn(long(300_000))...)...)
			before, _ := c.History(t.Context())
			s := &script{errs: []error{errTooLongPlain, errTooLongPlain, errTooLongPlain}[:overflows]}
			var events []string
			g := &guard.Guard{System: "be brief", Observe: func(_ context.Context, e guard.Event) {
				events = append(events, strings.TrimSpace(string(e.Kind)+" "+e.Stage))
			}}
			answer, err := guard.Do(t.Context(), g, c, s.call)
			require.Len(t, s.calls, min(overflows+1, 3))
			sizes := s.sizes()
			for i, call := range s.calls {
				if call.Attempt != i || (i > 0) != (call.Overflow != nil) || call.System != "be brief" {
					t.Errorf("call %d: %+v", i, call)
				}
				if i > 0 && sizes[i] >= sizes[i-1] {
					t.Errorf("sizes %v: call %d is not smaller", sizes, i)
				}
			}
			if want := max(overflows-1, 0); len(c.relief) != min(want, 1) {
				t.Errorf("%d compactions after %d overflows", len(c.relief), overflows)
			}
			after, _ := c.History(t.Context())
			if overflows == 0 && fmt.Sprint(before) != fmt.Sprint(after) {
				t.Error("the history of a plain call was changed")
			}
			wantEvents := strings.Join([]string{"overflow", "stage clip", "retry", "overflow", "stage compact", "retry", "overflow", "failed"}[:[]int{0, 3, 6, 8}[overflows]], ",")
			require.Equal(t, wantEvents, strings.Join(events, ","))
			if overflows < 3 {
				require.NoError(t, err)
				require.Equal(t, "answer", answer)
				return
			}
			e, ok := errors.AsType[*guard.OverflowError](err)
			require.True(t, ok)
			require.ErrorIs(t, err, errTooLongPlain)
			require.Equal(t, 3, e.Attempts)
			require.Equal(t, guard.Tokens, e.Overflow.Kind)
		})
	}
}

// errTooLongPlain has no numbers.
var errTooLongPlain = errors.New("context_length_exceeded: Input is too long for requested model")

func TestOtherErrorsAreUntouched(t *testing.T) {
	type appError struct{ error }
	errs := []error{
		context.Canceled, context.DeadlineExceeded, errors.New("429 rate limit: too many tokens, please wait"),
		errors.New("401 invalid token"),
		appError{errors.New("boom")},
		nil,
	}
	for _, want := range errs {
		c := newConversation(t, toolTurn(long(300_000))...)
		g := &guard.Guard{Observe: func(_ context.Context, e guard.Event) { t.Errorf("%v: event %+v", want, e) }}
		calls := 0
		answer, err := guard.Do(t.Context(), g, c, func(context.Context, guard.Call) (*int, error) {
			calls++
			return &calls, want
		})
		if err != want || calls != 1 || answer != &calls || len(c.relief) > 0 { //nolint:errorlint // the very same error
			t.Errorf("%v: got %v after %d calls", want, err, calls)
		}
	}
}

// A prompt that is too long by estimate is made smaller before it is sent.
func TestPreflight(t *testing.T) {
	c := newConversation(t, append([]transcript.Item{
		transcript.UserText(long(40_000)), transcript.AssistantText(long(40_000)),
	}, toolTurn(long(40_000))...)...)
	s := &script{}
	g := &guard.Guard{Window: 16_000, MaxOutput: 4_000}
	_, err := guard.Do(t.Context(), g, c, s.call)
	require.NoError(t, err)
	if len(s.calls) != 1 || len(c.relief) != 1 || c.relief[0] < 8_000 || c.relief[0] > 14_000 {
		t.Fatalf("%d calls, rooms %v", len(s.calls), c.relief)
	}
	text := transcript.Message{Content: s.calls[0].Messages[0].Content}.Text()
	require.Contains(t, text, "all that was said")
}

// The output is lowered first, and only once.
func TestLessOutput(t *testing.T) {
	full := errors.New("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again")
	c := newConversation(t, transcript.UserText("one"), transcript.AssistantText("two"), transcript.UserText("three"))
	s := &script{errs: []error{full}}
	_, err := guard.Do(t.Context(), &guard.Guard{MaxOutput: 20_000}, c, s.call)
	require.NoError(t, err)
	if len(s.calls) != 2 || len(c.relief) > 0 || s.calls[1].MaxOutput >= 10_000 || s.calls[1].MaxOutput < 9_000 {
		t.Fatalf("%d calls, output %d, %d compactions", len(s.calls), s.calls[1].MaxOutput, len(c.relief))
	}

	c = newConversation(t, transcript.UserText("one"), transcript.AssistantText("two"), transcript.UserText("three"))
	s = &script{errs: []error{full, full}}
	_, err = guard.Do(t.Context(), &guard.Guard{MaxOutput: 20_000}, c, s.call)
	require.NoError(t, err)
	require.Len(t, s.calls, 3)
	require.Len(t, c.relief, 1)

	// Too little is left for an answer: the history has to shrink.
	nothing := errors.New("input length and `max_tokens` exceed context limit: 199900 + 20000 > 200000")
	c = newConversation(t, transcript.UserText("one"), transcript.AssistantText("two"), transcript.UserText("three"))
	s = &script{errs: []error{nothing}}
	_, err = guard.Do(t.Context(), &guard.Guard{MaxOutput: 20_000}, c, s.call)
	require.NoError(t, err)
	require.Len(t, s.calls, 2)
	require.Len(t, c.relief, 1)
	require.Equal(t, 20_000, s.calls[1].MaxOutput)
}

// With numbers in the error, stages run until it fits, without a call between.
func TestFiguresSaveCalls(t *testing.T) {
	c := newConversation(t, append([]transcript.Item{
		transcript.UserText(long(400_000)), transcript.AssistantText(long(400_000)),
	}, toolTurn(long(400_000))...)...)
	s := &script{errs: []error{errors.New("prompt is too long: 310000 tokens > 100000 maximum")}}
	_, err := guard.Do(t.Context(), nil, c, s.call)
	require.NoError(t, err)
	require.Len(t, s.calls, 2)
	require.Len(t, c.relief, 1)
}

func TestFailures(t *testing.T) {
	boom := errors.New("disk full")
	c := newConversation(t, toolTurn(long(300_000))...)
	c.fail = boom
	before := fmt.Sprint(c.fold.History())
	s := &script{errs: []error{errTooLong}}
	_, err := guard.Do(t.Context(), nil, c, s.call)
	e, ok := errors.AsType[*guard.OverflowError](err)
	require.True(t, ok)
	require.ErrorIs(t, err, errTooLong)
	require.NotErrorIs(t, err, boom)
	require.Len(t, e.Stages, 2)
	require.ErrorIs(t, e.Stages[0], boom)
	require.Contains(t, err.Error(), "disk full")
	require.Len(t, s.calls, 1)
	require.Equal(t, before, fmt.Sprint(c.fold.History()))
	require.Equal(t, guard.Tokens, guard.Classify(err).Kind)
	require.NotEmpty(t, (&guard.OverflowError{}).Error(), "no text")

	c = newConversation(t, transcript.UserText("hi"))
	s = &script{errs: []error{errTooLong}}
	if _, err = guard.Do(t.Context(), nil, plain{c}, s.call); !errors.Is(err, errTooLong) || len(s.calls) != 1 {
		t.Errorf("without a compactor: %v after %d calls", err, len(s.calls))
	}

	ctx, cancel := context.WithCancel(t.Context())
	_, err = guard.Do(ctx, nil, c, func(context.Context, guard.Call) (int, error) { cancel(); return 0, errTooLong })
	if err != errTooLong || len(c.relief) > 0 { //nolint:errorlint // the very same error
		t.Errorf("cancelled: %v", err)
	}
}

// An answer that the window cut is an answer, and is returned at once.
func TestWindowFull(t *testing.T) {
	type own struct{ stop string }
	const full = transcript.StopContextWindow
	answers := map[string]any{
		"own": own{string(full)}, "response": &transcript.Response{StopReason: full}, "value": transcript.Response{StopReason: full},
		"nil": (*transcript.Response)(nil), "other": &transcript.Response{StopReason: transcript.StopEndTurn}, "unknown": 3,
	}
	for name, answer := range answers {
		c := newConversation(t, transcript.UserText("one"), transcript.AssistantText("two"), transcript.UserText("three"))
		told := 0
		g := &guard.Guard{
			Inspect: func(answer any) (guard.Outcome, bool) {
				o, ok := answer.(own)
				return guard.Outcome{StopReason: transcript.StopReason(o.stop)}, ok
			},
			Observe: func(_ context.Context, e guard.Event) {
				if told++; e.Kind != guard.EventOverflow || e.Overflow.Kind != guard.StopReason {
					t.Errorf("%s: %+v", name, e)
				}
			},
		}
		got, err := guard.Do(t.Context(), g, c, func(context.Context, guard.Call) (any, error) { return answer, nil })
		wanted := 1
		if name == "nil" || name == "other" || name == "unknown" {
			wanted = 0
		}
		if err != nil || len(c.relief) > 0 || told != wanted || fmt.Sprint(got) != fmt.Sprint(answer) {
			t.Errorf("%s: %v, %d compactions, %d events", name, err, len(c.relief), told)
		}
	}
}

// A call may change its messages.
func TestCallsOwnTheirSlices(t *testing.T) {
	c := newConversation(t, transcript.UserText("one"), transcript.AssistantText("two"), transcript.UserText("three"))
	errs := []error{errors.New("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000")}
	g := &guard.Guard{MaxOutput: 20_000, Tools: []transcript.Tool{{Name: "t"}}}
	_, err := guard.Do(t.Context(), g, c, func(_ context.Context, call guard.Call) (int, error) {
		if call.Messages[0].Text() != "one" || call.Messages[1].Text() != "two" || call.Tools[0].Name != "t" {
			t.Errorf("attempt %d has %v, %v", call.Attempt, call.Messages, call.Tools)
		}
		call.Messages[0].Content[0] = transcript.TextBlock{Text: "changed"}
		call.Messages[1] = transcript.UserText("changed")
		call.Tools[0].Name = "changed"
		if call.Attempt < len(errs) {
			return 0, errs[call.Attempt]
		}
		return 0, nil
	})
	require.NoError(t, err)
	require.Equal(t, "t", g.Tools[0].Name)
}

// After the history has become smaller the output limit is restored.
func TestOutputAfterCompaction(t *testing.T) {
	full := errors.New("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000")
	c := newConversation(t, transcript.UserText(long(400_000)), transcript.AssistantText("two"), transcript.UserText("three"))
	s := &script{errs: []error{full, full}}
	_, err := guard.Do(t.Context(), &guard.Guard{MaxOutput: 20_000}, c, s.call)
	require.NoError(t, err)
	if len(s.calls) != 3 || s.calls[1].MaxOutput >= 10_000 || s.calls[2].MaxOutput != 20_000 {
		t.Errorf("%d calls, output limits %d, %d", len(s.calls), s.calls[1].MaxOutput, s.calls[2].MaxOutput)
	}
}

// The room that stages must make, counted by the estimate.
func TestRoom(t *testing.T) {
	items := []transcript.Item{transcript.UserText(long(200_000)), transcript.AssistantText("two"), transcript.UserText("three")}
	size := guardSize(newConversation(t, items...))
	system := long(100_000)
	tests := []struct {
		name     string
		window   int
		err      string
		from, to float64 // of the size of the history
	}{
		{"a long system prompt", 0, fmt.Sprintf("prompt is too long: %d tokens > %d maximum", 3*size, 2*size), .3, .5},
		// The provider counts twice what we do, so 50,000 of its tokens are 25,000 of ours.
		{"figures", 0, fmt.Sprintf("prompt is too long: %d tokens > %d maximum", 2*size, size), .35, .5},
		{"figures, a wrong window", 1 << 30, fmt.Sprintf("prompt is too long: %d tokens > %d maximum", 2*size, size), .35, .5},
		{"a lower bound", 0, fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested 100 output tokens and your prompt contains at least %d input tokens", size, 2*size), .35, .5},
		{"no figures, a wrong window", 1 << 30, "context_length_exceeded", .4, .5},
		{"no figures, no window", 0, "context_length_exceeded", 0, 0},
		{"bytes", size * 2, "413 request_too_large", .4, .5},
	}
	for _, tt := range tests {
		c := newConversation(t, items...)
		s := &script{errs: []error{errors.New(tt.err)}}
		g := &guard.Guard{Window: tt.window}
		if tt.name == "a long system prompt" {
			g.System = system
		}
		if _, err := guard.Do(t.Context(), g, c, s.call); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if room := float64(c.relief[0]) / float64(size); len(c.relief) != 1 || room < tt.from || room > tt.to {
			t.Errorf("%s: the room is %v of the history", tt.name, room)
		}
	}
}

// A prompt at the top of the history counts in its room, and stays: the requested
// part is of the messages.
func TestRoomBesidesThePrompt(t *testing.T) {
	said := []transcript.Item{transcript.UserText(long(200_000)), transcript.AssistantText("two"), transcript.UserText("three")}
	size := guardSize(newConversation(t, said...))
	prompt := transcript.System{Text: long(300_000)}
	for window, text := range map[int]string{
		0:       fmt.Sprintf("prompt is too long: %d tokens > %d maximum", 3*size, 2*size),
		1 << 30: "context_length_exceeded",
	} {
		c := newConversation(t, append([]transcript.Item{prompt}, said...)...)
		front := guardSize(c) - size
		require.Greater(t, front, size)
		_, err := guard.Do(t.Context(), &guard.Guard{Window: window}, c, (&script{errs: []error{errors.New(text)}}).call)
		require.NoError(t, err)
		require.Len(t, c.relief, 1)
		if text == "context_length_exceeded" {
			require.InDelta(t, front+size/2, c.relief[0], 10)
		}
		require.Less(t, c.relief[0], front+size)
	}
}

// A lower bound does not show the room for the output, and a limit in bytes
// does not show the window.
func TestFiguresThatAreNone(t *testing.T) {
	c := newConversation(t, transcript.UserText("one"), transcript.AssistantText("two"), transcript.UserText("three"))
	s := &script{errs: []error{errors.New("This model's maximum context length is 40000 tokens. However, you requested 20000 output tokens and your prompt contains at least 20001 input tokens, for a total of at least 40001 tokens")}}
	if _, err := guard.Do(t.Context(), &guard.Guard{MaxOutput: 20_000}, c, s.call); err != nil {
		t.Fatal(err)
	}
	require.Len(t, c.relief, 1)
	require.Equal(t, 20_000, s.calls[1].MaxOutput)
	tooMany := errors.New("400 total message size 3000000 exceeds limit 2097152")
	_, err := guard.Do(t.Context(), nil, plain{c}, (&script{errs: []error{tooMany}}).call)
	e, ok := errors.AsType[*guard.OverflowError](err)
	require.True(t, ok)
	require.Equal(t, guard.Bytes, e.Overflow.Kind)
	require.Zero(t, e.Window)
	require.Contains(t, err.Error(), "3000000 bytes or characters of 2097152")
}

// Cancelled during the cure: no other call, and the history is whole.
func TestCancelledInAStage(t *testing.T) {
	c := newConversation(t, transcript.UserText("one"), transcript.AssistantText("two"), transcript.UserText("three"))
	ctx, cancel := context.WithCancel(t.Context())
	g := &guard.Guard{Stages: []guard.Stage{{Name: "mine", Run: func(context.Context, guard.History, guard.Need) (bool, error) {
		cancel()
		return true, nil
	}}, guard.Compact()}}
	s := &script{errs: []error{errTooLong}}
	if _, err := guard.Do(ctx, g, c, s.call); !errors.Is(err, context.Canceled) || !errors.Is(err, errTooLong) || len(s.calls) != 1 || len(c.relief) > 0 {
		t.Errorf("%v after %d calls, %d compactions", err, len(s.calls), len(c.relief))
	}
}

func guardSize(c *conversation) int {
	h := c.fold.History()
	return g20k.Count(h.SystemPrompt(""), nil, h.Messages)
}

// g20k counts as the default does.
var g20k = counter{}

type counter struct{ tokens.Estimator }

func (c counter) size(text string) int { return c.Text(text) }
