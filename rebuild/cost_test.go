package rebuild_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Folding allocates by the hundred messages, not by the message.
func TestFoldAllocs(t *testing.T) {
	const messages = 1000
	texts := make([]transcript.Batch, 0, messages)
	_, entries := conversation(t, messages)
	for _, e := range entries {
		texts = append(texts, transcript.Batch{Entries: []transcript.Entry{e}, Complete: true})
	}
	for _, tt := range []struct {
		name    string
		batches []transcript.Batch
		first   float64 // allocations of the whole, at most
		again   float64 // of a history asked for once more
	}{
		{"texts", texts, messages / 10, 3},
		{"tools", toolTurns(t, messages/4), messages * 3 / 4, 3},
	} {
		var fold *rebuild.Fold
		first := testing.AllocsPerRun(5, func() {
			fold = foldAll(t, nil, tt.batches)
			if h := fold.History(); len(h.Messages) != messages {
				t.Fatalf("%s: %d messages", tt.name, len(h.Messages))
			}
		})
		again := testing.AllocsPerRun(5, func() { fold.History() })
		if first > tt.first || again > tt.again {
			t.Errorf("%s: %v allocations, want at most %v; %v for another history, want at most %v", tt.name, first, tt.first, again, tt.again)
		}
	}
}

// The unfinished work is found without rendering the history.
func TestPendingBytes(t *testing.T) {
	_, entries := conversation(t, 1001) // the last one is a question
	fold := rebuild.New(nil)
	for _, e := range entries {
		require.NoError(t, fold.Add(transcript.Batch{Entries: []transcript.Entry{e}, Complete: true}))
	}
	require.True(t, fold.Pending().Owed)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		fold.Pending()
	}
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/100, uint64(8<<10))
}

// Changes that a caller makes to the slices of a history reach no other
// history.
func TestHistoryIsTheCallers(t *testing.T) {
	fold := foldLines(t, &rebuild.Options{Summary: rebuild.SummaryPair}, lines(
		user("1", "a"), assistant("2", "b"), user("3", "c"), user("4", "d"), answer("A", "look", "x", "y"), result("5", "x", "X"), user("6", "steer"),
		`{"type":"compaction","id":"7","summary":"S","firstKeptEntryId":"2"}`, user("8", "e"))...)
	want := show(fold.History())
	spoil := func(h rebuild.History) {
		for i := range h.Messages {
			m := &h.Messages[i]
			for j := range m.Content {
				m.Content[j], m.Origins[j] = transcript.TextBlock{Text: "spoilt"}, transcript.Origin{}
			}
			m.Content = append(m.Content, transcript.TextBlock{Text: "more"})
			m.Origins = append(m.Origins, transcript.Origin{})
		}
	}
	spoil(fold.History())
	require.Equal(t, want, show(fold.History()))
	h := fold.History()
	for i := range h.Messages {
		h.Messages[i].Content = append(h.Messages[i].Content, transcript.TextBlock{Text: "more"})
		h.Messages[i].Content = h.Messages[i].Content[:len(h.Messages[i].Content)-1]
	}
	require.Equal(t, want, show(h))
	preview, _ := fold.Preview(transcript.Compaction{Summary: "T", FirstKept: "3"})
	spoil(preview)
	require.Equal(t, want, show(fold.History()))
}

// Four times the transcript takes about four times the memory, for every kind.
func TestFoldGrowsWithItsInput(t *testing.T) {
	call := func(id string) transcript.Block {
		return transcript.ToolCallBlock{ID: id, Name: "f", Input: json.RawMessage(`{}`)}
	}
	calls := func(n int, id func(int) string) transcript.Message {
		m := transcript.Message{Role: transcript.RoleAssistant}
		for i := range n {
			m.Content = append(m.Content, call(id(i)))
		}
		return m
	}
	own := func(i int) string { return fmt.Sprint("c", i) }
	same := func(int) string { return "c" }
	results := func(n int, id func(int) string) (items []transcript.Item) {
		for i := range n {
			items = append(items, transcript.ToolResult(id(i), "r"))
		}
		return items
	}
	repeat := func(n int, item transcript.Item) (items []transcript.Item) {
		for range n {
			items = append(items, item)
		}
		return items
	}
	for name, items := range map[string]func(n int) []transcript.Item{
		"turns": func(n int) []transcript.Item { return repeat(n, transcript.UserText("a")) },
		"calls one after the other": func(n int) (items []transcript.Item) {
			items = append(items, transcript.UserText("go"))
			for i := range n {
				items = append(items, calls(1, func(int) string { return own(i) }), transcript.ToolResult(own(i), "r"))
			}
			return items
		},
		"calls of one answer":                func(n int) []transcript.Item { return append([]transcript.Item{calls(n, own)}, results(n, own)...) },
		"calls of one ID":                    func(n int) []transcript.Item { return append(repeat(n, calls(1, same)), results(n, same)...) },
		"results before their calls":         func(n int) []transcript.Item { return append(results(n, own), calls(n, own)) },
		"results of one ID before the calls": func(n int) []transcript.Item { return append(results(n, same), repeat(n, calls(1, same))...) },
		"calls that wait":                    func(n int) []transcript.Item { return append(repeat(n, calls(1, same)), transcript.UserText("a")) },
		"late results": func(n int) []transcript.Item {
			return append([]transcript.Item{calls(n, own), transcript.ToolResult("c0", "r"), transcript.AssistantText("a"), transcript.UserText("next")}, results(n, own)...)
		},
		"steering": func(n int) []transcript.Item {
			return append([]transcript.Item{calls(n, own)}, repeat(n, transcript.UserText("more"))...)
		},
		"clips": func(n int) []transcript.Item {
			items := append([]transcript.Item{calls(n, own)}, results(n, own)...)
			return append(items, repeat(n, transcript.Clip{Clips: []transcript.Clipping{{Entry: "e2", Content: "c"}}})...)
		},
		"hides": func(n int) []transcript.Item {
			items := append([]transcript.Item{calls(n, own)}, results(n, own)...)
			return append(items, repeat(n, transcript.Hide{Entries: []string{"e2"}})...)
		},
		"rewinds": func(n int) (items []transcript.Item) {
			for i := range n {
				items = append(items, transcript.UserText("a"), transcript.Rewind{To: fmt.Sprint("e", i/2+1)})
			}
			return items
		},
		"compactions": func(n int) []transcript.Item {
			return append(repeat(n, transcript.UserText("a")), repeat(n, transcript.Compaction{Summary: "s", CoversTo: "e1"})...)
		},
	} {
		const n = 400
		cost := func(n int) float64 {
			var batches []transcript.Batch
			line := 0
			id := func() string { line++; return fmt.Sprint("e", line) }
			for _, item := range items(n) {
				entries, err := transcript.NewBatch(testTime, id, item)
				require.NoError(t, err)
				batches = append(batches, transcript.Batch{Entries: entries, Complete: true})
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			fold := foldAll(t, nil, batches)
			fold.History()
			fold.Report()
			fold.Pending()
			for i := range line {
				fold.Has(fmt.Sprint("e", i))
				fold.Live(fmt.Sprint("e", i))
			}
			_, _ = fold.BeforeTurn(n)
			for range n {
				fold.Turns()
			}
			runtime.ReadMemStats(&after)
			return float64(after.TotalAlloc - before.TotalAlloc)
		}
		if small, large := cost(n), cost(4*n); large > 5.5*small {
			t.Errorf("%s: %.0f bytes for %d, %.0f for %d: %.1f times as many", name, small, n, large, 4*n, large/small)
		}
	}
}
