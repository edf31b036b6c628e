package compact_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/transcript"
)

// A plan keeps its effect after it was written as JSON and read.
func TestReplay(t *testing.T) {
	h := conversation(t, 60)
	for _, opts := range []*compact.Options{
		{Keep: compact.Keep{Turns: 5}},
		{Keep: compact.Keep{Fraction: .25}, Room: 3_000},
		{Keep: compact.Keep{Tokens: 500}, Trigger: compact.Trigger{Window: 8_000, Overhead: 1_000}, MaxCarried: -1},
		{},
		{Trigger: compact.Trigger{Window: 1_000, Overhead: 900}},
	} {
		cut := compact.Plan(h, opts)
		text, err := json.Marshal(cut)
		require.NoError(t, err)
		var read compact.Cut
		if err := json.Unmarshal(text, &read); err != nil || !reflect.DeepEqual(read, cut) {
			t.Fatalf("%s: %+v, %v, want %+v", text, read, err, cut)
		}
		want, err1 := compact.Run(t.Context(), h, cut, opts)
		got, err2 := compact.Run(t.Context(), h, read, opts)
		if !reflect.DeepEqual(got, want) || (err1 == nil) != (cut.Nothing == "") || (err2 == nil) != (err1 == nil) {
			t.Errorf("%s: %+v, %v, want %+v, %v", text, got, err2, want, err1)
		}
	}
}

// Run refuses a plan of another history, and made-up numbers do no harm.
func TestReplayElsewhere(t *testing.T) {
	h, opts := conversation(t, 60), &compact.Options{Keep: compact.Keep{Turns: 5}}
	cut := compact.Plan(h, opts)
	asked := 0
	opts.Summarizer = compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
		asked++
		return nthSummary(asked), nil
	})
	other := h
	other.Messages = h.Messages[2:]
	if c, err := compact.Run(t.Context(), other, cut, opts); err == nil || asked > 0 || !strings.Contains(err.Error(), "plan again") {
		t.Errorf("%+v, %v", c, err)
	}
	longer := conversation(t, 70) // the same beginning
	c, err := compact.Run(t.Context(), longer, cut, opts)
	require.NoError(t, err)
	require.Equal(t, cut.FirstKept, c.FirstKept)
	cut.MaxSummary, cut.MaxCarried, cut.Before, cut.After, cut.Room = math.MinInt, math.MinInt, math.MinInt, math.MaxInt, -5
	c, err = compact.Run(t.Context(), h, cut, opts)
	require.NoError(t, err)
	require.Equal(t, nthSummary(2), c.Summary)
}

// Plan first counts the parts that every request repeats; its refusal holds
// their sizes.
func TestNoRoom(t *testing.T) {
	h := conversation(t, 60)
	for overhead, want := range map[int]compact.Reason{0: "", 20_000: "", 21_600: "", 21_601: compact.NoRoom, 24_000: compact.NoRoom, 90_000: compact.NoRoom} {
		opts := &compact.Options{Keep: compact.Keep{Tokens: 500}, Trigger: compact.Trigger{Window: 32_000, Overhead: overhead}}
		c := compact.Plan(h, opts)
		if c.Nothing != want {
			t.Errorf("overhead %d: %s", overhead, c)
		}
		if want == "" {
			continue
		}
		for _, word := range []string{fmt.Sprint("~", overhead), "24000", "the system prompt and the tools", "larger window"} {
			if !strings.Contains(c.String(), word) {
				t.Errorf("no %q in %s", word, c)
			}
		}
		_, err := compact.Run(t.Context(), h, c, opts)
		if e, ok := errors.AsType[*compact.Error](err); !ok || !reflect.DeepEqual(e.Cut, c) || !strings.Contains(err.Error(), "larger window") {
			t.Errorf("overhead %d: %v", overhead, err)
		}
	}
}

// If almost no part can be summarised, no summarizer is called for it; and
// after a call, the history is small enough for a while.
func TestNoGain(t *testing.T) {
	f := fold(t, "u a u a u c r", nil)
	add(t, f, "x", transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: "big", Name: "f", Input: []byte("{}")}}})
	add(t, f, "y", transcript.ToolResult("big", strings.Repeat("the merchants have paid ", 2_500)))
	h := f.History()
	size := estimate.Count("", nil, h.Messages)
	c := compact.Plan(h, &compact.Options{Room: size - 50})
	require.Equal(t, compact.NoGain, c.Nothing)
	require.Contains(t, c.String(), "too little to make a difference")
	for room := 500; room < 40_000; room = room*amount(8, 5)/4 + 1 {
		for _, keep := range []compact.Keep{{}, {Turns: 20}, {Turns: 300}, {Fraction: .9}} {
			h := conversation(t, room/30)
			c := compact.Plan(h, &compact.Options{Room: room, Keep: keep})
			if c.Nothing != "" {
				t.Fatalf("room %d, %+v: %s", room, keep, c)
			}
			most := room * 2 / 3
			if keep.Tokens == 0 && keep != (compact.Keep{}) {
				most = room*6/10 + c.MaxCarried
			}
			if c.After > most {
				t.Errorf("room %d, %+v: %s", room, keep, c)
			}
		}
	}
}
