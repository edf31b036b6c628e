package dialect_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// longLines is a transcript of n lines of a MiB each.
type longLines struct {
	line []byte
	n    int
}

func (l longLines) ReadAt(p []byte, off int64) (int, error) {
	read := 0
	for read < len(p) && off < int64(l.n*len(l.line)) {
		k := copy(p[read:], l.line[off%int64(len(l.line)):])
		read += k
		off += int64(k)
	}
	if read < len(p) {
		return read, io.EOF
	}
	return read, nil
}

// A scan holds a few lines, however many there are.
func TestScanMemory(t *testing.T) {
	text := strings.Repeat("x", 1<<18)
	for d, line := range map[dialect.Dialect]string{
		dialect.Pi:         `{"type":"message","id":"a","timestamp":"2026-03-01T09:00:00Z","message":{"role":"user","content":"%s"}}`,
		dialect.ZyHive:     `{"type":"message","message":{"role":"user","content":"%s"},"timestamp":1}`,
		dialect.ClaudeCode: `{"type":"user","uuid":"a","message":{"role":"user","content":"%s"}}`,
		dialect.OpenViking: `{"id":"a","role":"user","parts":[{"type":"text","text":"%s"}]}`,
	} {
		r := longLines{line: []byte(fmt.Sprintf(line, text) + "\n"), n: 16}
		var before, m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		n := 0
		for rec, err := range d.Scan(r, int64(r.n*len(r.line)), nil) {
			require.NoError(t, err)
			require.Nil(t, rec.Damage)
			if n++; n%16 == 0 {
				runtime.GC()
				runtime.ReadMemStats(&m)
				if grown := int64(m.HeapAlloc) - int64(before.HeapAlloc); grown > 3<<20 {
					t.Errorf("%s: %d bytes are held after %d lines of 256 KiB", d, grown, n)
				}
			}
		}
		if n != r.n {
			t.Errorf("%s: %d records", d, n)
		}
	}
}

// An error of the reader, in either pass, ends the scan once.
func TestScanErrors(t *testing.T) {
	const line = `{"type":"message","message":{"role":"user","content":"x"},"timestamp":1}` + "\n"
	for _, d := range append(slices.Clone(foreign), dialect.Native, "nothing") {
		n := 0
		for _, err := range d.Scan(strings.NewReader(line), 1000, nil) {
			if n++; err == nil && n > 1 {
				t.Errorf("%s: record %d", d, n)
			}
			if known := d != "nothing"; err != nil && known != errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: %v", d, err)
			}
		}
		if n == 0 {
			t.Errorf("%s: nothing, want an error", d)
		}
		for _, err := range d.Scan(strings.NewReader(line), int64(len(line)), nil) {
			if err != nil && d != "nothing" {
				t.Errorf("%s: %v", d, err)
			}
			break // a loop may end early
		}
	}
	for _, d := range foreign {
		opts := &transcript.ScanOptions{MaxLine: 10, Final: true}
		for rec, err := range d.Scan(strings.NewReader(line), int64(len(line)), opts) {
			if err != nil || rec.Damage == nil || rec.Damage.Kind != transcript.DamageTooLong {
				t.Errorf("%s: %+v, %v", d, rec, err)
			}
		}
		// Without Final the last bytes may be a write in progress.
		for rec, err := range d.Scan(strings.NewReader(line[:20]), 20, nil) {
			t.Errorf("%s: %+v, %v", d, rec, err)
		}
	}
}

// A record that was glued to a torn one is found.
func TestScanGlued(t *testing.T) {
	for name, data := range fixtures(t) {
		d, _, err := dialect.Detect(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		if !slices.Contains([]dialect.Dialect{dialect.ZyHive, dialect.Pi, dialect.ClaudeCode, dialect.OpenViking}, d) {
			continue
		}
		lines := bytes.SplitAfter(bytes.TrimSpace(data), []byte("\n"))
		second := bytes.TrimSpace(lines[len(lines)-1])
		if !bytes.HasSuffix(second, []byte("}")) || len(lines) < 2 {
			continue // torn itself
		}
		first := bytes.TrimSpace(lines[len(lines)-2])
		step := 1
		if testing.Short() {
			step = 7
		}
		for n := 0; n < len(first); n += step {
			if c := first[n]; n == 0 || strings.ContainsRune(" :[,", rune(first[n-1])) || c == '{' {
				continue // a value might follow
			}
			recs := scan(t, d, string(first[:n])+string(second)+"\n")
			last := recs[len(recs)-1]
			if last.Damage != nil || string(last.Entry.Line()) != string(second) {
				t.Errorf("%s: cut at %d: %s", name, n, kinds(recs))
				break
			}
		}
	}
}
