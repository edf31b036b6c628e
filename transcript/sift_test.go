package transcript_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
)

// Sift yields the same as ScanBackward for the kept lines, for all lines.
func TestSift(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range few(40) {
		var file bytes.Buffer
		for i := range r.IntN(60) {
			switch r.IntN(12) {
			case 0:
				file.WriteString("\n")
			case 1:
				file.WriteString("\x00\x00{\"type\":\"user\"")
			case 2:
				fmt.Fprintf(&file, `{"type":"user","id":"g%d","ts":"2026-01-01T00:00:00Z","content":"x"}{"type":"user","id":"h%d","ts":"2026-01-01T00:00:00Z","content":"y"}`+"\n", i, i)
			default:
				size := r.IntN(2_000)
				if r.IntN(9) == 0 {
					size = r.IntN(700_000)
				}
				fmt.Fprintf(&file, `{"type":"user","id":"%d","content":"%s"}`+"\n", i, strings.Repeat("a b ", size/4))
			}
		}
		if r.IntN(3) == 0 && file.Len() > 0 {
			file.Truncate(file.Len() - r.IntN(min(file.Len(), 50)))
		}
		size := int64(file.Len())
		opts := &transcript.ScanOptions{Final: n%2 == 0, MaxLine: []int{1_000_000, 5_000, 700_000, 650_000, math.MaxInt}[n%5]}
		if all := bytes.SplitAfter(file.Bytes(), []byte("\n")); n%3 == 0 && len(all) > 3 {
			opts.From = int64(len(all[0]) + len(all[1]))
		}
		var want, got []string
		next := size
		for rec, err := range transcript.ScanBackward(bytes.NewReader(file.Bytes()), size, opts) {
			require.NoError(t, err)
			if rec.Damage == nil || rec.Damage.Kind != transcript.DamageTooLong {
				want = append(want, show(rec))
			}
		}
		for rec, err := range transcript.Sift(bytes.NewReader(file.Bytes()), size, func(offset int64, lines []byte) bool {
			require.Equal(t, string(file.Bytes()[offset:offset+int64(len(lines))]), string(lines))
			require.LessOrEqual(t, offset, next)
			if !bytes.Contains(lines, []byte("\n")) {
				next = offset
			}
			return true
		}, opts) {
			require.NoError(t, err)
			got = append(got, show(rec))
		}
		require.Equal(t, want, got)

		some := func(s string) bool { return strings.Contains(s, `"id":"1`) }
		got = got[:0]
		for rec, err := range transcript.Sift(bytes.NewReader(file.Bytes()), size, func(_ int64, lines []byte) bool { return some(string(lines)) }, opts) {
			require.NoError(t, err)
			if some(string(rec.Entry.Line())) {
				got = append(got, show(rec))
			}
		}
		var few []string
		for _, w := range want {
			if some(w) {
				few = append(few, w)
			}
		}
		require.Equal(t, strings.Join(few, "\n"), strings.Join(got, "\n"))
	}
}

func show(rec transcript.Record) string {
	return fmt.Sprint(rec.Offset, rec.End, rec.Damage != nil, rec.Damage, string(rec.Entry.Line()))
}
