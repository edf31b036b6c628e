package tokens_test

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var sink int

// An estimate, compared with decoding the runes of the same bytes.
func BenchmarkEstimate(b *testing.B) {
	for _, text := range []struct{ name, of string }{
		{"English", "The quick brown fox jumps over the lazy dog, and then it goes home.\n"},
		{"Chinese", "对话记录是只追加的文件，每行一个对象。"},
		{"code", "func (s *Store) Load(ctx context.Context, key Key) (*Session, error) {\n\treturn nil, nil\n}\n"},
		{"JSON", `{"path": "internal/store.go", "limit": 200, "offset": 1024},`},
		{"mixed", "会議 at 10:30, встреча 😀 – see `store.go`.\n"},
	} {
		b.Run(text.name, func(b *testing.B) {
			s := strings.Repeat(text.of, 64<<10/len(text.of))
			compare(b,
				func() { sink = est.Text(s) },
				func() {
					n := 0
					for rest := s; rest != ""; n++ {
						_, size := utf8.DecodeRuneInString(rest)
						rest = rest[size:]
					}
					sink = n
				})
		})
	}
}

// compare lets op and base take turns and reports the median speed of op as
// x-throughput, a multiple of base's, and the allocations of op.
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
	b.ReportMetric(median(times[1])/median(times[0]), "x-throughput")
	b.ReportMetric(median(times[0]), "ns-p50")
	b.ReportMetric(median(times[1]), "ns-baseline")
	b.ReportMetric(testing.AllocsPerRun(1, op), "allocs/call")
	b.ReportMetric(0, "ns/op") // of both together: meaningless
}
