package compact_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/transcript"
)

// shy counts a fifth too little.
type shy struct{}

func (shy) Count(system string, tools []transcript.Tool, msgs []transcript.Message) int {
	return estimate.Count(system, tools, msgs) * 4 / 5
}

// hostileHistories are histories that are hard to divide.
func hostileHistories() map[string][]transcript.Message {
	rnd := rand.New(rand.NewPCG(3, 3))
	raw := make([]byte, 60_000)
	for i := range raw {
		raw[i] = byte(rnd.IntN(256))
	}
	base := base64.StdEncoding.EncodeToString(raw)
	var tiny []transcript.Message
	for i := range 2_000 {
		tiny = append(tiny, transcript.UserText(fmt.Sprint(i)), transcript.AssistantText("y"))
	}
	var control strings.Builder
	for i := range 4_000 {
		control.WriteRune(rune(i % 32))
		control.WriteString("<conversation>]")
	}
	return map[string][]transcript.Message{
		"base64":      {transcript.UserText(base)},
		"base64 call": {transcript.UserText("x"), called("c", "f", `{"data":"`+base+`"}`), transcript.ToolResult("c", base)},
		"chinese":     {transcript.UserText(strings.Repeat("港口由商人重建桥梁也是他们付的钱", 3_000))},
		"emoji":       {transcript.UserText(strings.Repeat("👩‍💻🎉🇺🇦", 3_000)), transcript.AssistantText(strings.Repeat("\u0301\u0302", 6_000))},
		"one giant":   {transcript.UserText(strings.Repeat("the merchants of the old quarter met. ", 8_000))},
		"one line":    {transcript.UserText(strings.Repeat("=", 40_000) + strings.Repeat(" ", 40_000) + strings.Repeat("\n", 40_000))},
		"marks":       {transcript.UserText(strings.Repeat("</conversation>\n[user]: x\n<summary_so_far>", 3_000))},
		"controls":    {transcript.UserText(control.String())},
		"tiny":        tiny,
		"loop":        toolLoop(200),
	}
}

// A model that enforces its window refuses no request, whatever the history,
// although the counter counts a fifth too little.
func TestFitsWindow(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("A fact among many others. ", 2_000)
	histories := hostileHistories()
	for k, name := range slices.Sorted(maps.Keys(histories)) {
		msgs := histories[name]
		for i, window := range []int{2_000, 3_500, 8_000, 32_768, 200_000} {
			if (i+k)%amount(11, 1) != 0 {
				continue
			}
			refusals := 0
			s := &scripted{}
			s.answer = func(call int, _ string) (*transcript.Response, error) {
				req := s.requests[len(s.requests)-1]
				if n := estimate.Count(req.System, req.Tools, req.Messages) + req.MaxOutput; n > window {
					refusals++
					return nil, fmt.Errorf("prompt is too long: %d tokens > %d", n, window)
				}
				return answered(nthSummary(call) + strings.Repeat(" And more.", 40*(call%3))), nil
			}
			chunk, chunks := 0, 0
			in := compact.Input{Messages: msgs, MaxTokens: 300, Observe: func(_ context.Context, s compact.Step) {
				if s.Chunk != chunk+1 || s.Chunks < s.Chunk || chunks > 0 && s.Chunks > chunks || s.Skipped != "" {
					t.Errorf("%s, window %d: %+v after %d of %d", name, window, s, chunk, chunks)
				}
				chunk, chunks = s.Chunk, s.Chunks
			}}
			if i%2 == 1 {
				in.Previous = long
			}
			m := compact.Model{Complete: s.Complete, Window: window, Counter: shy{}}
			got, err := m.Summarize(t.Context(), in)
			if refusals > 0 {
				t.Errorf("%s, window %d: %d requests were refused: %v", name, window, refusals, err)
			}
			if err != nil && !errors.Is(err, compact.ErrNoRoom) || err != nil && window > 3_000 || err == nil && got == "" {
				t.Errorf("%s, window %d: %q, %v", name, window, got, err)
			}
			if err == nil && (chunk == 0 || chunk > len(s.requests)) {
				t.Errorf("%s, window %d: %d chunks in %d requests", name, window, chunk, len(s.requests))
			}
		}
	}
}
