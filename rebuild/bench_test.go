package rebuild_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Making a history of 1,000 messages of 512 bytes that were decoded before, and
// judging it, against decoding their lines with encoding/json.
func BenchmarkFold(b *testing.B) {
	const messages = 1000
	b.Run("1000x512B", func(b *testing.B) {
		lines, entries := conversation(b, messages)
		compare(b, func() {
			fold := rebuild.New(nil)
			for _, e := range entries {
				if err := fold.Add(transcript.Batch{Entries: []transcript.Entry{e}, Complete: true}); err != nil {
					b.Fatal(err)
				}
			}
			h := fold.History()
			if len(h.Messages) != messages {
				b.Fatalf("%d messages", len(h.Messages))
			}
			// The last answer has no question yet: a request ends with one.
			req := transcript.Request{Messages: h.Messages[:messages-1]}
			if found := wiretest.Validate(req); len(found) > 0 {
				b.Fatal(found)
			}
		}, func() { decodeJSON(b, lines) })
	})
}

// Loading a conversation of 1,000 messages of 512 bytes: its lines are scanned,
// put together into batches and folded into a history, against decoding the
// same lines with encoding/json.
func BenchmarkLoad(b *testing.B) {
	const messages = 1000
	b.Run("1000x512B", func(b *testing.B) {
		lines, _ := conversation(b, messages)
		compare(b, func() {
			fold := rebuild.New(nil)
			for batch, err := range transcript.Batches(transcript.Scan(bytes.NewReader(lines), int64(len(lines)), nil)) {
				if err != nil {
					b.Fatal(err)
				}
				if err := fold.Add(batch); err != nil {
					b.Fatal(err)
				}
			}
			if h := fold.History(); len(h.Messages) != messages {
				b.Fatalf("%d messages", len(h.Messages))
			}
		}, func() { decodeJSON(b, lines) })
	})
}

// decodeJSON is the baseline: the least that lines have to say.
func decodeJSON(b *testing.B, lines []byte) {
	b.Helper()
	for line := range bytes.Lines(lines) {
		var r struct {
			Type    string
			ID      string
			TS      time.Time
			Content string
		}
		if err := json.Unmarshal(line, &r); err != nil {
			b.Fatal(err)
		}
	}
}

// The history after each turn of a session: a question and an answer with a
// call, its result and an answer with text.
func BenchmarkHistory(b *testing.B) {
	const turns = 1000
	b.Run(fmt.Sprintf("after-each-of-%d-turns", turns), func(b *testing.B) {
		batches := toolTurns(b, turns)
		b.ReportAllocs()
		for b.Loop() {
			fold := rebuild.New(nil)
			for i, batch := range batches {
				if err := fold.Add(batch); err != nil {
					b.Fatal(err)
				}
				if i%4 != 3 {
					continue
				}
				if h := fold.History(); len(h.Messages) != i+1 {
					b.Fatalf("%d messages after %d batches", len(h.Messages), i+1)
				}
			}
		}
	})
}

// toolTurns returns four batches a turn, each of them one message.
func toolTurns(t testing.TB, turns int) []transcript.Batch {
	t.Helper()
	text := strings.Repeat("words and ", 40)
	var batches []transcript.Batch
	for i := range turns {
		call := fmt.Sprintf("toolu_%d", i)
		batches = append(batches, foldable(t, i,
			transcript.UserText(text),
			transcript.Response{API: "anthropic", Model: "m", Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
				transcript.TextBlock{Text: text},
				transcript.ToolCallBlock{ID: call, Name: "read", Input: json.RawMessage(`{"path":"a.go"}`)},
			}}},
			transcript.ToolResult(call, text),
			transcript.AssistantText(text))...)
	}
	return batches
}

// foldable returns each item as a batch that was read back.
func foldable(t testing.TB, n int, items ...transcript.Item) []transcript.Batch {
	t.Helper()
	var batches []transcript.Batch
	line := 0
	id := func() string { line++; return fmt.Sprintf("0198d2c5-0000-7000-%04d-%012d", n, line) }
	for _, item := range items {
		entries, err := transcript.NewBatch(testTime, id, item)
		require.NoError(t, err)
		for i := range entries {
			if entries[i], err = transcript.ParseEntry(slices.Clone(entries[i].Line())); err != nil {
				t.Fatal(err)
			}
		}
		batches = append(batches, transcript.Batch{Entries: entries, Complete: true})
	}
	return batches
}

// conversation returns messages of two parties who take turns, as lines and as
// entries.
func conversation(b testing.TB, messages int) (lines []byte, entries []transcript.Entry) {
	b.Helper()
	text := strings.Repeat("The test fails in \"store.go\" – 请再试一次.\n", 9)[:395]
	n := 0
	id := func() string { n++; return fmt.Sprintf("0198d2c5-0000-7000-8000-%012d", n) }
	for i := range messages {
		item := transcript.UserText(text)
		if i%2 == 1 {
			item = transcript.AssistantText(text)
		}
		batch, err := transcript.NewBatch(testTime, id, item)
		require.NoError(b, err)
		line := batch[0].Line()
		e, err := transcript.ParseEntry(slices.Clone(line))
		require.NoError(b, err)
		lines, entries = append(append(lines, line...), '\n'), append(entries, e)
	}
	return lines, entries
}

// compare lets op and base take turns and reports the median time of op as
// x-baseline, a multiple of base's, and the allocations of op.
func compare(b *testing.B, op, base func()) {
	b.Helper()
	var times [2][]time.Duration
	for b.Loop() {
		for i, call := range []func(){op, base} {
			began := time.Now()
			call()
			times[i] = append(times[i], time.Since(began))
		}
	}
	median := func(ts []time.Duration) float64 {
		slices.Sort(ts)
		return float64(ts[len(ts)/2])
	}
	b.ReportMetric(median(times[0])/median(times[1]), "x-baseline")
	b.ReportMetric(median(times[0]), "ns-p50")
	b.ReportMetric(median(times[1]), "ns-baseline")
	b.ReportMetric(testing.AllocsPerRun(1, op), "allocs/call")
	b.ReportMetric(0, "ns/op") // of both together: meaningless
}
