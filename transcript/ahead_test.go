package transcript_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
)

var soak = flag.String("soak", "short", "how many samples the tests of scans take: short, gate or long")

// few is how many of n samples a test takes: with -short, as under the race detector, a
// fifth.
func few(n int) int {
	switch {
	case testing.Short():
		return n / 5
	case *soak == "short":
		return n / 2
	}
	return n
}

// Lines decoded ahead by several goroutines give the same records, in order, as
// lines decoded one at a time, however early the loop ends.
func TestScanDecodesAhead(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range few(30) {
		file := roughFile(r)
		want := lineByLine(t, file)
		size := int64(len(file))
		forward := transcript.Scan(bytes.NewReader(file), size, nil)
		backward := transcript.ScanBackward(bytes.NewReader(file), size, nil)
		back := slices.Clone(want)
		slices.Reverse(back)
		for _, n := range []int{len(want), r.IntN(len(want) + 1), r.IntN(min(len(want), 40) + 1)} {
			require.Equal(t, want[:n:n], firstRecords(t, forward, n))
			require.Equal(t, back[:n], firstRecords(t, backward, n))
		}
	}
}

// A scan yields the lines read before an error, and then the error.
func TestScanGivesWhatItReadBeforeAnError(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range few(30) {
		file := roughFile(r)
		want := lineByLine(t, file)
		size := int64(len(file))
		bad := int64(r.IntN(len(file)))
		broken := errAt{bytes.NewReader(file), bad}
		recs := []transcript.Record{}
		var failed error
		for rec, err := range transcript.Scan(broken, size, nil) {
			if failed = err; err == nil {
				recs = append(recs, rec)
			}
		}
		require.ErrorIs(t, failed, errBroken)
		require.Equal(t, want[:len(recs)], recs)
		const block = 64 << 10 // the size of one read of a scan
		for _, rec := range want[len(recs):] {
			require.Greater(t, rec.End, bad/block*block, "%d bytes, an error at %d", size, bad)
		}
	}
}

var errBroken = errors.New("broken")

type errAt struct {
	*bytes.Reader
	bad int64
}

func (r errAt) ReadAt(p []byte, offset int64) (int, error) {
	if offset <= r.bad && r.bad < offset+int64(len(p)) {
		return 0, errBroken
	}
	return r.Reader.ReadAt(p, offset)
}

// roughFile writes up to 1,500 lines: entries long and short, two on a line, damage.
func roughFile(r *rand.Rand) []byte {
	var file bytes.Buffer
	for n := range 1 + r.IntN(1500) {
		entry := func() []byte {
			text := strings.Repeat("x", 1<<r.IntN(8))
			if r.IntN(200) == 0 {
				text = strings.Repeat("y", 100_000)
			}
			e := transcript.Entry{ID: fmt.Sprint(n), Body: transcript.Custom{Name: "n", Data: fmt.Appendf(nil, "%q", text)}}
			return e.Line()
		}
		switch line := entry(); r.IntN(20) {
		case 0:
			file.Write(line[:r.IntN(len(line))])
		case 1:
			file.Write(line[:len(line)/2])
			file.Write(entry())
		case 2:
			file.Write(line)
			file.Write(entry())
		case 3:
			file.Write(make([]byte, r.IntN(5)))
		default:
			file.Write(line)
		}
		file.WriteByte('\n')
	}
	return file.Bytes()
}

// lineByLine scans each line of a file separately.
func lineByLine(t *testing.T, file []byte) (all []transcript.Record) {
	at := int64(0)
	for line := range bytes.Lines(file) {
		end := at + int64(len(line))
		in := io.NewSectionReader(bytes.NewReader(file), 0, end)
		for rec, err := range transcript.Scan(in, end, &transcript.ScanOptions{From: at}) {
			require.NoError(t, err)
			all = append(all, rec)
		}
		at = end
	}
	return all
}

func firstRecords(t *testing.T, scan iter.Seq2[transcript.Record, error], n int) []transcript.Record {
	recs := []transcript.Record{}
	for rec, err := range scan {
		require.NoError(t, err)
		if len(recs) == n {
			break
		}
		recs = append(recs, rec)
	}
	return recs
}
