package transcript_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
)

// benchLines are lines of about 1 KiB.
func benchLines(b *testing.B) map[string][]byte {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog, 敏捷的棕色狐狸.\n", 14)
	out := map[string][]byte{}
	for name, item := range map[string]transcript.Item{
		"user":   transcript.UserText(text),
		"result": transcript.ToolResult("toolu_1", text),
		"answer": &transcript.Response{
			Message: answer(transcript.ThinkingBlock{Thinking: text[:400], Signature: "sig"}, transcript.TextBlock{Text: text[:500]}),
			API:     "anthropic", Model: "m", StopReason: transcript.StopEndTurn, Usage: transcript.Usage{Input: 1000, Output: 200},
		},
		"custom": transcript.Custom{Name: "n", Data: raw(`{"a":` + strings.Repeat(`[1,`, 200) + `2` + strings.Repeat(`]`, 200) + `}`)},
	} {
		entries, err := transcript.NewBatch(at, ids(), item)
		if err != nil {
			b.Fatal(err)
		}
		out[name] = entries[0].Line()
	}
	return out
}

func BenchmarkParseEntry(b *testing.B) {
	for name, line := range benchLines(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := transcript.ParseEntry(line); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/encoding-json", func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				var v struct {
					Type, ID, TS, Name string
					Content            json.RawMessage
					Data               json.RawMessage
				}
				if err := json.Unmarshal(line, &v); err != nil {
					b.Fatal(err)
				}
				var s string
				if len(v.Content) > 0 && v.Content[0] == '"' {
					if err := json.Unmarshal(v.Content, &s); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkScan(b *testing.B) {
	var file bytes.Buffer
	for range 250 {
		for _, line := range benchLines(b) {
			fmt.Fprintf(&file, "%s\n", line)
		}
	}
	r, size := bytes.NewReader(file.Bytes()), int64(file.Len())
	b.Run("forward", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			for _, err := range transcript.Scan(r, size, nil) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("backward", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			for _, err := range transcript.ScanBackward(r, size, nil) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

func BenchmarkNewBatch(b *testing.B) {
	item := transcript.UserText(strings.Repeat("word ", 200))
	b.SetBytes(1000)
	b.ReportAllocs()
	newID := func() string { return "0198d2c5-0000-7000-8000-000000000000" }
	for b.Loop() {
		if _, err := transcript.NewBatch(at, newID, item); err != nil {
			b.Fatal(err)
		}
	}
}

// thousand is a transcript of 1,000 messages of 512 bytes, made by NewBatch or
// NewBatchWithChecksums, and scanThousand reads it.
func thousand(t testing.TB, batch func(time.Time, func() string, ...transcript.Item) ([]transcript.Entry, error)) (file []byte) {
	text := strings.Repeat("The test fails in \"store.go\" – 请再试一次.\n", 9)[:395]
	user, assistant := transcript.Item(transcript.UserText(text)), transcript.Item(transcript.AssistantText(text))
	id := func() string { return "0198d2c5-0000-7000-8000-000000000000" }
	for i := range 1000 {
		item := user
		if i%2 == 1 {
			item = assistant
		}
		entries, err := batch(at, id, item)
		require.NoError(t, err)
		file = append(append(file, entries[0].Line()...), '\n')
	}
	return file
}

func scanThousand(t testing.TB, file []byte) {
	n := 0
	for rec, err := range transcript.Scan(bytes.NewReader(file), int64(len(file)), nil) {
		require.NoError(t, err)
		require.Nil(t, rec.Damage)
		n++
	}
	require.Equal(t, 1000, n)
}

// A message costs six allocations: its line, its ID, its text, the block, the
// list of blocks and the body.
func TestLoadAllocs(t *testing.T) {
	file := thousand(t, transcript.NewBatch)
	const reader = 200 // for the scan itself: its goroutines, and lines that lie across its chunks
	if n := testing.AllocsPerRun(3, func() { scanThousand(t, file) }); n > 6*1000+reader {
		t.Errorf("%v allocations for 1,000 messages, want 6 for each", n)
	}
}

// Reading 1,000 messages of 512 bytes, compared with encoding/json decoding the
// fewest members of the same lines. With checksums the base is the same
// without: the difference is the cost of verification.
func BenchmarkLoad(b *testing.B) {
	const messages = 1000
	file, sealed := thousand(b, transcript.NewBatch), thousand(b, transcript.NewBatchWithChecksums)
	scan := func() { scanThousand(b, file) }
	decode := func() {
		for line := range bytes.Lines(file) {
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
	for _, bench := range []struct {
		name     string
		op, base func()
	}{
		{"1000x512B", scan, decode},
		{"1000x512B/checksum", func() { scanThousand(b, sealed) }, scan},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var times [2][]time.Duration
			for b.Loop() {
				for i, call := range []func(){bench.op, bench.base} {
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
			b.ReportMetric(median(times[0])/messages, "ns/message")
			b.ReportMetric(testing.AllocsPerRun(1, bench.op)/messages, "allocs/message")
			b.ReportMetric(0, "ns/op") // of both together: meaningless
		})
	}
}
