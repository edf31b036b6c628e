package guard_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// pictures is a conversation with an image in each of its texts, which keeps
// calibrations.
func pictures(t testing.TB, n int) remembering {
	c := newConversation(t)
	for i := range n {
		_, err := c.Append(t.Context(), transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.TextBlock{Text: "look"}, image(8 + 4*i)}})
		require.NoError(t, err)
		_, err = c.Append(t.Context(), transcript.Response{API: "gemini", Model: "m", Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.ThinkingBlock{Thinking: "hm"}, transcript.TextBlock{Text: "nice"},
		}}})
		require.NoError(t, err)
	}
	_, err := c.Append(t.Context(), transcript.UserText("go on"))
	require.NoError(t, err)
	return remembering{c}
}

// imagesIn counts the images of a call.
func imagesIn(c guard.Call) (n int) {
	for _, m := range c.Messages {
		for _, b := range m.Content {
			if transcript.IsMedia(b) {
				n++
			}
		}
	}
	return n
}

// A cure is recorded when the next call is answered, or refused for something else. It is
// dropped when the same refusal comes back, and Do returns the first error; a failure of
// the connection, a rate limit and an error of the server record nothing.
func TestCureIsProven(t *testing.T) {
	refused := func(text string) error { return parts{Status: 400, Message: text} }
	unreadable, second := refused("Could not process image"), refused("Could not process image")
	transport := errors.New("connection reset by peer")
	minute := parts{Status: 429, Message: "Rate limit reached for m on tokens per minute (TPM): Limit 6000, Used 10, Requested 7000."}
	tests := []struct {
		name   string
		errs   []error
		images []int // of each call
		err    error
		left   int // recorded
	}{
		{"the newest", []error{unreadable}, []int{3, 2}, nil, 1},
		{"then all", []error{unreadable, second}, []int{3, 2, 0}, nil, 3},
		{"in vain", []error{refused("image 1 is unreadable (req_011CUf5PL)"), refused("image 2 is unreadable (req_011CVx9Qa)"), refused("image 3 is unreadable (req_011CWzzTk)")}, []int{3, 2, 0}, refused("image 1 is unreadable (req_011CUf5PL)"), 0},
		{"another refusal", []error{unreadable, refused("temperature: must be at most 1")}, []int{3, 2}, refused("temperature: must be at most 1"), 1},
		{"the connection", []error{unreadable, transport}, []int{3, 2}, transport, 0},
		{"a rate limit", []error{unreadable, parts{Status: 429, Message: "rate limit reached"}}, []int{3, 2}, parts{Status: 429, Message: "rate limit reached"}, 0},
		{"the server", []error{unreadable, parts{Status: 500, Message: "internal error"}}, []int{3, 2}, parts{Status: 500, Message: "internal error"}, 0},
		{"credentials", []error{unreadable, parts{Status: 401, Message: "invalid x-api-key"}}, []int{3, 2}, parts{Status: 401, Message: "invalid x-api-key"}, 0},
		{"a request too large for a minute", []error{unreadable, minute}, []int{3, 2}, minute, 0},
		{"an error without words", []error{unreadable, parts{Status: 400}}, []int{3, 2}, parts{Status: 400}, 0},
		{"no images at all", []error{refused("This model does not support images.")}, []int{3, 0}, nil, 0},
		{"a word alone", []error{refused("the image is odd")}, []int{3, 0}, nil, 3},
		{"a word alone, of an unknown type", []error{parts{Status: 415, Message: "the image is odd"}}, []int{3, 0}, nil, 3},
		{"a word alone, in vain", []error{refused("the image is odd"), refused("the image is odd")}, []int{3, 0}, refused("the image is odd"), 0},
		{"a word alone, of a server that failed", []error{parts{Status: 500, Message: "the image is odd"}}, []int{3}, parts{Status: 500, Message: "the image is odd"}, 0},
		{"an unknown error", []error{refused("Invalid request.")}, []int{3}, refused("Invalid request."), 0},
	}
	for _, tt := range tests {
		c := pictures(t, 3)
		s := &script{errs: tt.errs}
		var tried, recorded int
		g := &guard.Guard{Model: "m", Endpoint: "a", Observe: func(_ context.Context, e guard.Event) {
			switch {
			case e.Kind != guard.EventRefused:
			case e.Changed:
				recorded++
			default:
				tried++
				require.Error(t, e.Err)
			}
		}}
		_, err := guard.Do(t.Context(), g, c, s.call)
		if unfit, ok := errors.AsType[*guard.OverflowError](err); ok {
			err = unfit.Err
		}
		require.Equal(t, tt.err, err, tt.name)
		var images []int
		for _, call := range s.calls {
			images = append(images, imagesIn(call))
		}
		require.Equal(t, tt.images, images, tt.name)
		known, err := c.Calibration(t.Context(), "m", "a")
		require.NoError(t, err)
		require.Len(t, known.Left, tt.left, tt.name)
		require.Equal(t, known.IsZero(), recorded == 0, tt.name)
		require.Equal(t, len(tt.images)-1, tried, tt.name)
		other, err := c.Calibration(t.Context(), "m", "b")
		require.NoError(t, err)
		require.True(t, other.IsZero(), tt.name)
	}
}

// A cure that cannot be recorded costs no answer.
func TestCureIsNotRecorded(t *testing.T) {
	c, full := pictures(t, 3), errors.New("disk full")
	var recorded []error
	g := &guard.Guard{Model: "m", Observe: func(_ context.Context, e guard.Event) {
		if e.Attempt > 0 {
			require.False(t, e.Changed)
			recorded = append(recorded, e.Err)
		}
	}}
	_, err := guard.Do(t.Context(), g, c, func(_ context.Context, call guard.Call) (string, error) {
		if call.Attempt == 0 {
			return "", parts{Status: 400, Message: "Could not process image"}
		}
		c.fail = full
		return "fine", nil
	})
	require.NoError(t, err)
	require.Equal(t, []error{nil, full}, recorded) // of the second call, and of the record
}

// An image that is refused is left out wherever it is.
func TestEqualImages(t *testing.T) {
	c := pictures(t, 3)
	_, err := c.Append(t.Context(), transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{image(8)}})
	require.NoError(t, err)
	s := &script{errs: []error{parts{Status: 400, Message: "Could not process image"}}}
	_, err = guard.Do(t.Context(), &guard.Guard{Model: "m"}, c, s.call)
	require.NoError(t, err)
	require.Equal(t, 2, imagesIn(s.calls[1]))
}

// Errors that only resemble a refusal of a part change nothing, and at most two of them
// cost a call.
func TestLookAlikesChangeNothing(t *testing.T) {
	again := 0
	for _, r := range partRows(t, "lookalikes.jsonl") {
		c := pictures(t, 2)
		before := c.n
		s := &script{errs: slices.Repeat([]error{r.err()}, 5)}
		_, err := guard.Do(t.Context(), &guard.Guard{Model: "m"}, c, s.call)
		require.Equal(t, r.err(), err)
		require.Equal(t, before, c.n, "%s: an entry was appended", r.Text)
		if len(s.calls) > 1 {
			again++
			t.Logf("%d calls: %s", len(s.calls), r.Text)
		}
	}
	require.LessOrEqual(t, again, 2)
}

// A Do makes four calls at most, whatever is refused, and the next one goes on from what
// was proven.
func TestFourCalls(t *testing.T) {
	c := pictures(t, 3)
	s := &script{errs: []error{
		parts{Status: 400, Message: "Corrupted thought signature."},
		parts{Status: 400, Message: "Could not process image"},
		parts{Status: 400, Message: "Could not process this image"},
		parts{Status: 400, Message: "Failed to deserialize the JSON body: invalid type: sequence, expected a string"},
	}}
	_, err := guard.Do(t.Context(), &guard.Guard{Model: "m"}, c, s.call)
	require.ErrorContains(t, err, "expected a string")
	require.Len(t, s.calls, 4)
	known := c.known("m")
	require.NotEmpty(t, known.Unread)
	require.Len(t, known.Left, 3)
	_, err = guard.Do(t.Context(), &guard.Guard{Model: "m"}, c, s.call)
	require.NoError(t, err)
	require.Zero(t, imagesIn(s.calls[4]))
}

// A Do leaves out a part of a kind once: the same refusal after another one goes to the
// caller. Reasoning is left out only if the history has some.
func TestOneCureOfAKind(t *testing.T) {
	signature, image := parts{Status: 400, Message: "Corrupted thought signature."}, parts{Status: 400, Message: "Could not process image"}
	list := parts{Status: 400, Message: "Failed to deserialize the JSON body: invalid type: sequence, expected a string"}
	for _, errs := range [][]error{{signature, image, signature}, {list, signature, list}} {
		s := &script{errs: errs}
		_, err := guard.Do(t.Context(), &guard.Guard{Model: "m"}, pictures(t, 3), s.call)
		require.Equal(t, errs[2], err)
		require.Len(t, s.calls, 3)
	}
	c := pictures(t, 3) // said in other words, it is the same refusal
	_, err := guard.Do(t.Context(), &guard.Guard{Model: "m"}, c, (&script{errs: []error{signature, parts{Status: 400, Message: "Invalid thought_signature"}}}).call)
	require.Equal(t, signature, err)
	require.True(t, c.known("m").IsZero())

	proven := 0 // an overflow is another refusal
	g := &guard.Guard{Model: "m", Observe: func(_ context.Context, e guard.Event) {
		if e.Kind == guard.EventRefused && e.Changed {
			proven = e.Attempt
		}
	}}
	s := &script{errs: []error{image, errors.New("prompt is too long: 210000 tokens > 200000 maximum")}}
	_, err = guard.Do(t.Context(), g, pictures(t, 3), s.call)
	require.NoError(t, err)
	require.Equal(t, 1, proven)

	plain := newConversation(t)
	_, err = plain.Append(t.Context(), transcript.UserText("go"), transcript.AssistantText("done"), transcript.UserText("and"))
	require.NoError(t, err)
	s = &script{errs: []error{signature}}
	_, err = guard.Do(t.Context(), &guard.Guard{Model: "m"}, remembering{plain}, s.call)
	require.Equal(t, signature, err)

	c = pictures(t, 3)
	ctx, cancel := context.WithCancel(t.Context()) // an error after the end proves nothing
	s = &script{errs: []error{signature, parts{Status: 400, Message: "temperature: must be at most 1"}}}
	_, err = guard.Do(ctx, &guard.Guard{Model: "m"}, c, func(ctx context.Context, call guard.Call) (string, error) {
		if call.Attempt > 0 {
			cancel()
		}
		return s.call(ctx, call)
	})
	require.ErrorContains(t, err, "temperature")
	require.True(t, c.known("m").IsZero())
}

// The window of a plan is believed of long requests alone, and is not kept.
func TestPlanWindow(t *testing.T) {
	err := parts{Status: 401, Type: "authentication_error", Message: "Your current plan supports only 64K context for this model."}
	for runes, calls := range map[int]int{20_000: 1, 600_000: 2} {
		c := talked(t, runes)
		s := &script{errs: []error{err}}
		_, got := guard.Do(t.Context(), &guard.Guard{Model: "m"}, c, s.call)
		require.Equal(t, calls == 1, got != nil)
		require.Len(t, s.calls, calls)
		require.Zero(t, c.known("m").Window)
	}
}

// Too many messages are an overflow: a compaction cures it, and the limit is kept.
func TestTooManyMessages(t *testing.T) {
	c := talked(t, 4_000)
	s := &script{errs: []error{errors.New("Invalid 'messages': array too long. Expected an array with maximum length 2048, but got an array with length 2109 instead.")}}
	_, err := guard.Do(t.Context(), &guard.Guard{Model: "m", Observe: func(_ context.Context, e guard.Event) { require.Zero(t, e.Learned.Window) }}, c, s.call)
	require.NoError(t, err)
	require.Len(t, s.calls, 2)
	require.Len(t, c.relief, 1)
	require.Equal(t, 2048, c.known("m").Messages)

	// Without a number in the error the messages of the request are counted.
	c = talked(t, 4_000)
	for range 147 {
		_, err = c.Append(t.Context(), transcript.AssistantText("yes"), transcript.UserText("and"))
		require.NoError(t, err)
	}
	s = &script{errs: []error{parts{Status: 400, Code: "messages_too_long", Message: "messages may contain at most 148 entries"}}}
	_, err = guard.Do(t.Context(), &guard.Guard{Model: "m", Window: 1_000_000}, c, s.call)
	require.NoError(t, err)
	size := tokens.Estimator{}.Count("", nil, s.calls[0].Messages)
	require.Len(t, s.calls[0].Messages, 297)
	require.InDelta(t, size*148/297*4/5, c.relief[0], 5)

	// A shorter result is no answer to too many messages.
	c = remembering{newConversation(t, append(toolTurn(strings.Repeat("a line\n", 100_000)), transcript.AssistantText("ok"), transcript.UserText("go on"))...)}
	s = &script{errs: []error{parts{Status: 400, Code: "messages_too_long", Message: "messages may contain at most 3 entries"}}}
	_, err = guard.Do(t.Context(), &guard.Guard{Model: "m"}, c, s.call)
	require.NoError(t, err)
	require.Len(t, s.calls[1].Messages, 1)

	// A known limit is kept before the call.
	c, s = talked(t, 4_000), &script{}
	_, err = guard.Do(t.Context(), &guard.Guard{Model: "m", Takes: transcript.Takes{Messages: 2}}, c, s.call)
	require.NoError(t, err)
	require.Len(t, s.calls, 1)
	require.Len(t, c.relief, 1)
}

// Media above the number that a service takes go before the call, some more than needed,
// so that the next ones change nothing before them.
func TestMediaAreCounted(t *testing.T) {
	c := pictures(t, 25)
	s := &script{}
	g := &guard.Guard{Model: "m", Takes: transcript.Takes{Images: 20}}
	_, err := guard.Do(t.Context(), g, c, s.call)
	require.NoError(t, err)
	require.Equal(t, 15, imagesIn(s.calls[0]))
	_, err = guard.Do(t.Context(), g, c, s.call)
	require.NoError(t, err)
	require.Equal(t, 15, imagesIn(s.calls[1]))

	for _, text := range []string{ // learned from a refusal
		"image count 25 exceeds the limit of 20", "Too much media: 0 document pages + 25 images > 20",
		"too many images and documents: 25 + 0 > 20", "Please use fewer than 20 images in your request to models/m",
	} {
		c = pictures(t, 25)
		s = &script{errs: []error{parts{Status: 400, Message: text}}}
		_, err = guard.Do(t.Context(), &guard.Guard{Model: "m"}, c, s.call)
		require.NoError(t, err)
		require.Equal(t, 15, imagesIn(s.calls[1]), text)
		require.Equal(t, 20, c.known("m").Images, text)
	}
	c = pictures(t, 25)
	s = &script{errs: []error{parts{Status: 400, Message: "At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels"}}}
	_, err = guard.Do(t.Context(), &guard.Guard{Model: "m"}, c, s.call)
	require.NoError(t, err)
	require.Equal(t, 20, c.known("m").Images)
	require.Zero(t, c.known("m").Side, "a limit of requests with many images")
	s = &script{errs: []error{parts{Status: 400, Message: "At least one of the image dimensions exceed max allowed size: 8000 pixels"}}}
	_, err = guard.Do(t.Context(), &guard.Guard{Model: "n"}, c, s.call)
	require.NoError(t, err)
	require.Equal(t, 8000, c.known("n").Side)
}

// A form that the guard knows not to be taken is left out as if it were learned: the note
// names the entry, and answers record that their request lacked something.
func TestFormsOfTheService(t *testing.T) {
	c := pictures(t, 2)
	s := &script{}
	for _, takes := range []transcript.Takes{{}, {Without: []transcript.Form{transcript.Images}}} {
		_, err := guard.Do(t.Context(), &guard.Guard{Model: "m", Takes: takes}, c, s.call)
		require.NoError(t, err)
	}
	require.Equal(t, 2, imagesIn(s.calls[0]))
	require.Zero(t, imagesIn(s.calls[1]))
	require.Contains(t, s.calls[1].Messages[0].Text(), "because the model takes none; it is in entry e1]")
	require.NotEqual(t, s.calls[0].Made.PromptHash, s.calls[1].Made.PromptHash)
}
