package rebuild_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
			if found := rebuild.Validate(rebuild.Anthropic, req); len(found) > 0 {
				b.Fatal(found)
			}
		}, func() {
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
		})
	})
}

// conversation returns messages of two parties who take turns, as lines and as
// entries.
func conversation(b *testing.B, messages int) (lines []byte, entries []transcript.Entry) {
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
		if err != nil {
			b.Fatal(err)
		}
		line := batch[0].Line()
		e, err := transcript.ParseEntry(slices.Clone(line))
		if err != nil {
			b.Fatal(err)
		}
		lines, entries = append(append(lines, line...), '\n'), append(entries, e)
	}
	return lines, entries
}

// compare lets op and base take turns and reports the median time of op as
// x-baseline, a multiple of that of base, and the allocations of op.
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
	b.ReportMetric(0, "ns/op") // of both together: says nothing
}
