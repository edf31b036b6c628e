package guard_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

func TestClip(t *testing.T) {
	c := newConversation(t, toolTurn("BEGIN\n"+long(100_000)+"END {\"exit\":1}")...)
	if _, err := c.Append(t.Context(), transcript.AssistantText("I see"), transcript.UserText("go on")); err != nil {
		t.Fatal(err)
	}
	s := &script{errs: []error{errors.New("prompt is too long: 26000 tokens > 20000 maximum")}}
	if _, err := guard.Do(t.Context(), &guard.Guard{Stages: []guard.Stage{guard.Clip()}}, c, s.call); err != nil {
		t.Fatal(err)
	}
	h, _ := c.History(t.Context())
	r, ok := h.Messages[2].Content[0].(transcript.ToolResultBlock)
	if !ok {
		t.Fatalf("%+v", h.Messages[2])
	}
	text := r.Text()
	for _, want := range []string{"BEGIN\n", "END {\"exit\":1}", "left out", "entry e4", "\n[... ", " ...]\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the clipped result: %.200s", want, text)
		}
	}
	if n := g20k.size(text); n > 6000 || n < 5000 {
		t.Errorf("the clipped result has %d tokens, want a little under 6000", n)
	}
	// Once more changes nothing.
	changed, err := guard.Clip().Run(t.Context(), c, guard.Need{Window: 20_000, Counter: g20k})
	require.False(t, changed)
	require.NoError(t, err)
}

// The results of the last message share half of the room: no compaction can
// leave them out.
func TestClipTheLastResults(t *testing.T) {
	call := transcript.Message{Role: transcript.RoleAssistant}
	results := []transcript.Item{}
	for i, runes := range []int{100, 40_000, 30_000, 1_000} {
		id := fmt.Sprint("c", i)
		call.Content = append(call.Content, transcript.ToolCallBlock{ID: id, Name: "read", Input: []byte(`{}`)})
		results = append(results, transcript.ToolResult(id, long(runes)))
	}
	c := newConversation(t, append([]transcript.Item{transcript.UserText("go"), call}, results...)...)
	changed, err := guard.Clip().Run(t.Context(), c, guard.Need{Window: 100_000, Room: 10_000})
	require.True(t, changed)
	require.NoError(t, err)
	h := c.fold.History()
	var sizes []int
	for _, b := range h.Messages[2].Content {
		r, _ := b.(transcript.ToolResultBlock)
		sizes = append(sizes, g20k.size(r.Text()))
	}
	if n := g20k.Count("", nil, h.Messages[2:]); n > 5_100 || n < 4_000 || sizes[0] > 40 || sizes[3] > 400 || sizes[3] < 200 {
		t.Errorf("the results have %d tokens: %v", n, sizes)
	}
}

// A prompt that the history has in front takes its part of the room.
func TestClipLeavesRoomForThePrompt(t *testing.T) {
	left := func(items ...transcript.Item) int {
		c := newConversation(t, append(items, toolTurn(long(40_000))...)...)
		changed, err := guard.Clip().Run(t.Context(), c, guard.Need{Window: 100_000, Room: 6_000})
		require.NoError(t, err)
		require.True(t, changed)
		h, err := c.History(t.Context())
		require.NoError(t, err)
		return tokens.Estimator{}.Count("", nil, h.Messages[2:])
	}
	prompt := transcript.System{Text: long(8_000)}
	front := tokens.Estimator{}.Count(prompt.Text, nil, nil)
	require.InDelta(t, left()-front/2, left(prompt), float64(left())/10)
}

// Whatever the limit, a clipped result uses most of it: line breaks in odd
// places must not make it give up everything.
func TestClipUsesTheRoom(t *testing.T) {
	var sb strings.Builder
	for i := range 400 {
		sb.WriteString(strings.Repeat("word ", i*i%97) + "\n")
	}
	for window := 1_000; window < 12_000; window += 97 {
		c := newConversation(t, toolTurn(sb.String())...)
		_, err := c.Append(t.Context(), transcript.AssistantText("I see"), transcript.UserText("go on"))
		require.NoError(t, err)
		changed, err := guard.Clip().Run(t.Context(), c, guard.Need{Window: window, Counter: g20k})
		require.True(t, changed)
		require.NoError(t, err)
		h, _ := c.History(t.Context())
		r, _ := h.Messages[2].Content[0].(transcript.ToolResultBlock)
		if n := g20k.size(r.Text()); n > window*3/10 || n < window*3/20 {
			t.Errorf("window %d: %d tokens are left", window, n)
		}
	}
}
