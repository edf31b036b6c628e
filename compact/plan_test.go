package compact_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

var at = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

// flat counts 10 tokens a message, so that sizes are easy to read.
type flat struct{}

func (flat) Count(system string, _ []transcript.Tool, msgs []transcript.Message) int {
	n := 10 * len(msgs)
	if system != "" {
		n += 10
	}
	return n
}

// history folds the messages that the words name: u is a user text, a an
// answer, c an answer with a call x<i>, r the result of the latest call, cc an
// answer with two calls, rr their results; other words fail. Every word is an
// append with the ID e0, e1 ...
func history(t testing.TB, words string, opts *rebuild.Options) rebuild.History {
	t.Helper()
	return fold(t, words, opts).History()
}

func fold(t testing.TB, words string, opts *rebuild.Options) *rebuild.Fold {
	t.Helper()
	f := rebuild.New(opts)
	call := func(i, k int) transcript.ToolCallBlock {
		return transcript.ToolCallBlock{ID: fmt.Sprintf("x%d.%d", i, k), Name: "f", Input: []byte("{}")}
	}
	last := 0
	for i, w := range strings.Fields(words) {
		var items []transcript.Item
		switch w {
		case "u":
			items = []transcript.Item{transcript.UserText(fmt.Sprintf("question %d", i))}
		case "a":
			items = []transcript.Item{transcript.AssistantText(fmt.Sprintf("answer %d", i))}
		case "c", "cc":
			m := transcript.Message{Role: transcript.RoleAssistant}
			for k := range w {
				m.Content = append(m.Content, call(i, k))
			}
			items, last = []transcript.Item{m}, i
		case "r", "rr":
			for k := range w {
				items = append(items, transcript.ToolResult(call(last, k).ID, "result"))
			}
		default:
			t.Fatalf("what is %q?", w)
		}
		add(t, f, fmt.Sprintf("e%d", i), items...)
	}
	return f
}

// add appends entries with the IDs id, id+ ...
func add(t testing.TB, f *rebuild.Fold, id string, items ...transcript.Item) {
	t.Helper()
	next := id
	entries, err := transcript.NewBatch(at, func() string { defer func() { next += "+" }(); return next }, items...)
	require.NoError(t, err)
	require.NoError(t, f.Add(transcript.Batch{Entries: entries, Complete: true}))
}

func TestPlan(t *testing.T) {
	long := strings.Repeat("u a ", 30)
	tests := []struct {
		name, words string
		opts        compact.Options
		want        string // At FirstKept CoversTo [split], or the reason
	}{
		{"nothing at all", "", compact.Options{Keep: compact.Keep{Tokens: 10}}, string(compact.TooShort)},
		{"the default keeps 20,000 tokens", long, compact.Options{}, string(compact.TooShort)},
		{"by tokens, at a turn", "u a u a u a", compact.Options{Keep: compact.Keep{Tokens: 25}}, "4 e4 e3"},
		{"by tokens, inside a turn that is too long", "u c r c r c r", compact.Options{Keep: compact.Keep{Tokens: 45}}, "3 e3+ e2 split"},
		{"by tokens, a turn is preferred", "u c r c r a u a", compact.Options{Keep: compact.Keep{Tokens: 45}}, "6 e6 e5"},
		{"less than the last exchange", "u a u c r", compact.Options{Keep: compact.Keep{Tokens: 5}}, "3 e3+ e2 split"},
		{"one exchange", "u c r", compact.Options{Keep: compact.Keep{Tokens: 5}}, "1 e1+ e0 split"},
		{"one message", "u", compact.Options{Keep: compact.Keep{Tokens: 5}}, string(compact.NoCut)},
		{"by turns, no more than these", strings.Repeat("u a ", 20), compact.Options{Keep: compact.Keep{Turns: 20}}, string(compact.TooShort)},
		{"by turns", strings.Repeat("u a ", 21), compact.Options{Keep: compact.Keep{Turns: 20}}, "2 e2 e1"},
		{"by turns, with calls", "u c r a u cc rr a u a", compact.Options{Keep: compact.Keep{Turns: 2}}, "4 e4 e3"},
		{"turns that do not fit", "u a u a u a u a", compact.Options{Keep: compact.Keep{Turns: 3}, Room: 75}, "6 e6 e5"},
		{"turns that are too many for the room", "u a u a", compact.Options{Keep: compact.Keep{Turns: 3}, Room: 30}, "3 e3 e2 split"},
		{"half of the room is for what comes next", strings.Repeat("u a ", 10), compact.Options{Room: 150}, "18 e18 e17"},
		{"the last exchange is larger than the room", "u a u a u a", compact.Options{Room: 7}, string(compact.TooLarge)},
		{"no room at all", "u a u a u a", compact.Options{Trigger: compact.Trigger{Window: 1000, Overhead: 800}}, string(compact.NoRoom)},
		{"by fraction, all", "u a u a u a", compact.Options{Keep: compact.Keep{Fraction: 1}}, string(compact.TooShort)},
		{"numbers below 0", strings.Repeat("u a ", 10), compact.Options{Keep: compact.Keep{Turns: -1, Fraction: -1, Tokens: -1}, MaxSummary: -1}, string(compact.TooShort)},
		{"by fraction, moved off a result", "u c r c r c r c r a", compact.Options{Keep: compact.Keep{Fraction: .5}}, "5 e5+ e4 split"},
		{"by fraction, moved to the nearest", "u c r c r c r a", compact.Options{Keep: compact.Keep{Fraction: .5}}, "3 e3+ e2 split"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.opts.Counter = flat{}
			c := compact.Plan(history(t, tt.words, nil), &tt.opts)
			got := string(c.Nothing)
			require.Contains(t, c.String(), got, c.Nothing)
			if got == "" {
				got = fmt.Sprintf("%d %s %s", c.At, c.FirstKept, c.CoversTo)
				if c.Split {
					got += " split"
				}
				require.Equal(t, c.Covered+c.Kept, c.Before)
				require.Equal(t, 10*c.At, c.Covered)
			}
			if got != tt.want {
				t.Errorf("cut %s, want %s\n%s", got, tt.want, c)
			}
		})
	}
}

// claw0's numbers, for histories of plain texts.
func TestFractionSizes(t *testing.T) {
	want := map[int]int{4: 0, 5: 0, 6: 2, 7: 3, 8: 4, 9: 4, 10: 5, 12: 6, 20: 10, 21: 10, 40: 20, 100: 50}
	for n, covered := range want {
		words := strings.Join(strings.Fields(strings.Repeat("u a ", 50))[:n], " ")
		c := compact.Plan(history(t, words, nil), &compact.Options{Keep: compact.Keep{Fraction: .5}, Counter: flat{}})
		if c.At != covered {
			t.Errorf("of %d messages %d are summarised, want %d", n, c.At, covered)
		}
	}
}

func TestTrigger(t *testing.T) {
	tests := []struct {
		trigger compact.Trigger
		room    int // tokens of a history that is not compacted; 0: any
	}{
		{compact.Trigger{}, 0},
		{compact.Trigger{Threshold: 80_000}, 80_000},
		{compact.Trigger{Window: 200_000}, 200_000 - 16_384},
		{compact.Trigger{Window: 32_000}, 24_000},
		{compact.Trigger{Window: 200_000, Share: .7}, 140_000},
		{compact.Trigger{Window: 32_000, Share: .9, Overhead: 800}, 28_000},
		{compact.Trigger{Window: 32_000, Share: 2}, 32_000},
		{compact.Trigger{Window: 200_000, Share: .9, Threshold: 80_000}, 80_000},
		{compact.Trigger{Window: 200_000, Threshold: 80_000}, 80_000},
		{compact.Trigger{Window: 32_000, Threshold: 80_000, Overhead: 4_000}, 20_000},
	}
	for _, tt := range tests {
		if tt.trigger.Room() != tt.room {
			t.Errorf("%+v: room %d, want %d", tt.trigger, tt.trigger.Room(), tt.room)
		}
	}
}

// Results from before their calls or long after them: a cut keeps the same
// messages as the fold.
func TestOddOrders(t *testing.T) {
	call := func(id string) transcript.Message {
		return transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.ToolCallBlock{ID: id, Name: "f", Input: []byte("{}")},
		}}
	}
	say, answer := transcript.UserText, transcript.AssistantText
	result := transcript.ToolResult
	tests := []struct {
		name  string
		items []transcript.Item
		legal string
	}{
		{"in order", []transcript.Item{say("1"), call("a"), result("a", "A"), answer("2"), say("3"), answer("4")}, "1 3 4 5"},
		{"a result before its call", []transcript.Item{say("1"), answer("2"), result("a", "A"), say("3"), call("a"), answer("4")}, "5"},
		{"a late result", []transcript.Item{say("1"), call("a"), say("2"), answer("3"), say("4"), answer("5"), result("a", "A"), say("6")}, "1 3 4 5 6"},
		{"a late result, the ID in use again", []transcript.Item{say("1"), call("a"), say("2"), answer("3"), say("4"), call("a"), result("a", "B"), result("a", "A"), answer("6")}, "1 3 4 5 7"},
		{"IDs in use again, whole turns at once", []transcript.Item{turns("a"), turns("a"), turns("a")}, "4 8"},
		{"a late result that a waiting call would take", []transcript.Item{say("1"), call("a"), say("2"), answer("3"), say("4"), result("a", "LATE"), call("a")}, "1"},
		{"a call without a result", []transcript.Item{say("1"), call("a"), answer("2"), say("3"), call("b")}, "1 3 4 5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := rebuild.New(nil)
			for i, item := range tt.items {
				if turn, ok := item.(wholeTurn); ok {
					add(t, f, fmt.Sprintf("e%d", i), turn.items...)
				} else {
					add(t, f, fmt.Sprintf("e%d", i), item)
				}
			}
			var got []string
			for at := range compact.LegalCuts(f.History().Messages) {
				if compact.LegalCuts(f.History().Messages)[at] {
					got = append(got, fmt.Sprint(at))
				}
			}
			if s := strings.Join(got, " "); s != tt.legal {
				t.Errorf("legal cuts %q, want %q\n%+v", s, tt.legal, f.History().Messages)
			}
			checkCuts(t, f, true)
		})
	}
}

// wholeTurn is a turn in one append.
type wholeTurn struct {
	transcript.Custom
	items []transcript.Item
}

func turns(callID string) wholeTurn {
	return wholeTurn{items: []transcript.Item{
		transcript.UserText("go"),
		transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: callID, Name: "f", Input: []byte("{}")}}},
		transcript.ToolResult(callID, "out"), transcript.AssistantText("done"),
	}}
}

// checkCuts asserts for every legal cut that the fold keeps exactly the blocks
// after it, and that the history is valid.
func checkCuts(t *testing.T, f *rebuild.Fold, strict bool) {
	t.Helper()
	h := f.History()
	// Blocks that the fold left out or moved may find another partner in the
	// kept part alone. The history does not always show that: hence
	// Options.Check.
	lost := []rebuild.Rule{"doubled-result", "orphan-result", "doubled-call", "unfinished-call", "moved-result"}
	hidden := slices.ContainsFunc(f.Report(), func(r rebuild.Repair) bool {
		return !strict && slices.Contains(lost, r.Rule) || r.Rule == "doubled-result" // shown as a text without its call
	})
	for at, legal := range compact.LegalCuts(h.Messages) {
		if !legal {
			continue
		}
		first, covers, read := compact.Ends(h, at)
		for _, c := range []transcript.Compaction{{Summary: "s", FirstKept: first, CoversTo: covers, Read: read}, {Summary: "s", CoversTo: covers, Read: read}} {
			after, _ := f.Preview(c)
			got, want := blocks(after.Messages), blocks(h.Messages[at:])
			if got != want && !hidden {
				t.Fatalf("cut %d keeps\n%s\nwant\n%s\n%+v", at, got, want, c)
			}
			after.Messages = append(after.Messages, transcript.UserText("next"))
			if n := len(after.Messages); n > 1 && after.Messages[n-2].Role == transcript.RoleUser {
				after.Messages = after.Messages[:n-1]
			}
			checkValid(t, after)
		}
	}
}

// checkValid asserts that a history renders to a valid request.
func checkValid(t testing.TB, h rebuild.History) {
	t.Helper()
	body, _, err := anthropic.Format{}.Request(transcript.Request{Model: "m", System: h.System, Messages: h.Messages})
	require.NoError(t, err)
	var req transcript.Request
	require.NoError(t, json.Unmarshal(body, &req))
	if v := wiretest.Validate(req); len(v) > 0 {
		t.Fatalf("an invalid request: %v\n%s", v, body)
	}
}

func blocks(msgs []transcript.Message) string {
	var sb strings.Builder
	for _, m := range msgs {
		for i, b := range m.Content {
			if m.Origins[i].Batch > 0 {
				fmt.Fprintf(&sb, "%s %s\n", m.Origins[i].Entry, transcript.MarshalBlock(b))
			}
		}
	}
	return sb.String()
}

// Any sequence of appends: the fold agrees with each cut of Plan.
func FuzzCuts(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, uint8(40))
	}
	f.Fuzz(func(t *testing.T, seed uint64, n uint8) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		fold := rebuild.New(&rebuild.Options{Summary: rebuild.SummaryForm(seed % 3)})
		ids := []string{"a", "b", "c", "d"}
		for i := range int(n) {
			id := ids[rnd.IntN(len(ids))]
			if rnd.IntN(2) == 0 {
				id = fmt.Sprint("x", rnd.IntN(i+1))
			}
			var items []transcript.Item
			for range 1 + rnd.IntN(3) {
				switch rnd.IntN(7) {
				case 0, 1:
					items = append(items, transcript.UserText("text"))
				case 2:
					items = append(items, transcript.AssistantText("answer"))
				case 3, 4:
					m := transcript.AssistantText("look")
					for range 1 + rnd.IntN(2) {
						m.Content = append(m.Content, transcript.ToolCallBlock{ID: id, Name: "f", Input: []byte("{}")})
						id += "'"
					}
					items = append(items, &transcript.Response{Message: m, StopReason: [...]transcript.StopReason{"tool_use", "aborted"}[rnd.IntN(5)/4]})
				case 5:
					items = append(items, transcript.ToolResult(id, "result"))
				case 6:
					h := fold.History()
					if at := nthLegal(h, rnd.IntN(4)); at > 0 {
						first, covers, read := compact.Ends(h, at)
						items = append(items, transcript.Compaction{Summary: "sum", FirstKept: first, CoversTo: covers, Read: read})
					}
				}
				// No program appends a result together with a call after it.
				if rnd.IntN(3) > 0 || endsWithResult(items) {
					break
				}
			}
			if len(items) > 0 {
				add(t, fold, fmt.Sprintf("e%d", i), items...)
			}
		}
		checkCuts(t, fold, false)
	})
}

func endsWithResult(items []transcript.Item) bool {
	if len(items) == 0 {
		return false
	}
	m, ok := items[len(items)-1].(transcript.Message)
	if !ok {
		return false
	}
	_, ok = m.Content[0].(transcript.ToolResultBlock)
	return ok
}

func nthLegal(h rebuild.History, n int) int {
	for at, legal := range compact.LegalCuts(h.Messages) {
		if legal {
			if n == 0 {
				return at
			}
			n--
		}
	}
	return 0
}

// The prompt at the top of a history stays: it counts in the sizes, is not
// summarised, and takes its part of the room.
func TestPlanWithPrompt(t *testing.T) {
	h := history(t, "u a u a u a u a u a", nil)
	opts := &compact.Options{Keep: compact.Keep{Turns: 2}, Counter: flat{}, Trigger: compact.Trigger{Threshold: 60, Overhead: 20}}
	bare := compact.Plan(h, opts)
	require.Empty(t, bare.Nothing)
	h.Prompt = "You help."
	cut := compact.Plan(h, opts)
	require.Equal(t, bare.Before+10, cut.Before)
	require.Equal(t, bare.Covered, cut.Covered)
	require.Equal(t, bare.Kept+10, cut.Kept)
	require.Equal(t, bare.After+10, cut.After)
	require.Equal(t, 30, cut.Overhead)
	opts.Trigger.Overhead = 50
	require.Equal(t, compact.NoRoom, compact.Plan(h, opts).Nothing)
	h.Prompt = ""
	require.Empty(t, compact.Plan(h, opts).Nothing)
}

// A window or threshold as large as an int keeps as much as any large one.
func TestPlanHugeWindow(t *testing.T) {
	fold := rebuild.New(nil)
	for i := range 40 {
		add(t, fold, fmt.Sprint("m", i), transcript.UserText(facts(20)), transcript.AssistantText(facts(20)))
	}
	want := compact.Plan(fold.History(), &compact.Options{Window: 1 << 24})
	for _, opts := range []compact.Options{{Window: math.MaxInt}, {Trigger: compact.Trigger{Threshold: math.MaxInt}}, {Room: math.MaxInt}} {
		got := compact.Plan(fold.History(), &opts)
		require.Equal(t, []any{want.At, want.Nothing}, []any{got.At, got.Nothing}, "%+v", opts)
	}
}
