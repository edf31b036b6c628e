package transcript_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
)

// collect reads data in both directions and returns the records of a forward
// scan.
func collect(t testing.TB, data string, opts *transcript.ScanOptions) []transcript.Record {
	t.Helper()
	var forward, backward []transcript.Record
	for rec, err := range transcript.Scan(strings.NewReader(data), int64(len(data)), opts) {
		require.NoError(t, err)
		forward = append(forward, rec)
	}
	for rec, err := range transcript.ScanBackward(strings.NewReader(data), int64(len(data)), opts) {
		require.NoError(t, err)
		backward = append(backward, rec)
	}
	slices.Reverse(backward)
	require.Equal(t, backward, forward, data)
	return forward
}

// summary lists records: entries by ID or type, damage as kind@offset+size.
func summary(recs []transcript.Record) string {
	var words []string
	for _, r := range recs {
		switch {
		case r.Damage != nil:
			words = append(words, fmt.Sprintf("%s@%d+%d", r.Damage.Kind, r.Damage.Offset, r.Damage.Size))
		case r.Entry.ID != "":
			words = append(words, r.Entry.ID)
		default:
			words = append(words, r.Entry.Type())
		}
	}
	return strings.Join(words, " ")
}

const (
	lineA = `{"type":"user","id":"a","ts":"2026-11-20T08:00:00Z","content":"你好 {x} \"} "}`
	lineB = `{"type":"tool_use","id":"b","ts":"2026-11-20T08:00:01Z","mid":"a","part":2,"tool_use_id":"t","name":"f","input":{"code":["if {","x}\"","{\"type\":1"],"é":{"type":"object","o":[{},{"a":null}]}}}`
)

func TestScan(t *testing.T) {
	a, b := lineA, lineB
	na := len(a)
	for _, tt := range []struct {
		name, data, want, final string // final: with Final, "" if the same
	}{
		{"empty", "", "", ""},
		{"two lines", a + "\n" + b + "\n", "a b", ""},
		{"unterminated", a + "\n" + b, "a", "a b"},
		{"torn tail", a + "\n" + b[:50], "a", fmt.Sprintf("a torn@%d+50", na+1)},
		{"torn tail inside a rune", a + "\n{\"type\":\"user\",\"content\":\"\xe4", "a", fmt.Sprintf("a torn@%d+27", na+1)},
		{"torn line", b[:50] + "\n" + a + "\n", "torn@0+50 a", ""},
		{"glued", b[:50] + a + "\n", "torn@0+50 a", ""},
		{"glued twice", a[:30] + b[:50] + a + "\n", "not-json@0+80 a", ""},
		{"newline lost", a + b + a + "\n", "a b a", ""},
		{"newline lost before a torn one", a + b[:50] + "\n", fmt.Sprintf("a torn@%d+50", na), ""},
		{"newline lost, then glued", a + b[:50] + a + "\n", fmt.Sprintf("a torn@%d+50 a", na), ""},
		{"record and text", a + " xyz\n" + b + "\n", fmt.Sprintf("a not-json@%d+3 b", na+1), ""},
		{"text and record", "xyz" + a + "\n", "not-json@0+3 a", ""},
		{"object without type and record", `{"x":1}` + a + "\n", "malformed@0+7 a", ""},
		{"NUL line", "\x00\x00\x00\n" + a + "\n", "nul@0+3 a", ""},
		{"NUL in front", "\x00\x00" + a + "\n", "nul@0+2 a", ""},
		{"NUL behind", a + "\x00\x00\n", fmt.Sprintf("a nul@%d+2", na), ""},
		{"NUL around spaces", " \x00 \x00 \r\n", "nul@1+1 nul@3+1", ""},
		{"NUL between records", a + "\x00\x00" + b + "\n", fmt.Sprintf("a nul@%d+2 b", na), ""},
		{"NUL behind a torn one", b[:50] + "\x00\x00\n", "torn@0+50 nul@50+2", ""},
		{"NUL between torn and whole", b[:50] + "\x00\x00" + a + "\n", "torn@0+52 a", ""},
		{"NUL and CR", a + "\x00\r\n" + b + "\n", fmt.Sprintf("a nul@%d+1 b", na), ""},
		{"NUL without end", a + "\n\x00\x00", "a", fmt.Sprintf("a nul@%d+2", na+1)},
		{"BOM", "\xef\xbb\xbf" + a + "\n", "a", ""},
		{"BOM of a file put behind another", a + "\n\xef\xbb\xbf" + b + "\n", "a b", ""},
		{"BOM alone", "\xef\xbb\xbf\n" + a + "\n", "a", ""},
		{"CRLF", a + "\r\n" + b + "\r\n", "a b", ""},
		{"blank lines", "\n\r\n \t\n" + a + "\n\n\n" + b + "\n\n", "a b", ""},
		{"spaces", "  " + a + " \t\n", "a", ""},
		{"scalars", "42\n\"{\"\nnull\n[1]\n" + a + "\n", "not-object@0+2 not-object@3+3 not-object@7+4 not-object@12+3 a", ""},
		{"text", "hello\n" + a + "\n", "not-json@0+5 a", ""},
		{"invalid UTF-8", "{\"type\":\"user\",\"content\":\"\xff\"}\n" + a + "\n", "utf8@0+29 a", ""},
		{"invalid UTF-8 and a record", "{\"type\":\"user\",\"content\":\"\xff\"}" + a + "\n", "utf8@0+29 a", ""},
		{"other line ends", "{\"type\":\"x\",\"s\":\"\u2028\u2029\u0085\"}\n", "x", ""},
		{"unknown type", `{"type":"odd"}` + "\n", "odd", ""},
		{"no type", `{"a":1}` + "\n", "malformed@0+7", ""},
		{"bad member", `{"type":"user","content":5}` + "\n", "malformed@0+27", ""},
		{"unknown type glued", b[:50] + `{"type":"odd","id":"x","ts":"y"}` + "\n", "not-json@0+82", ""},
		{"glued without id", b[:50] + `{"type":"user","ts":"2026-11-20T08:00:00Z"}` + "\n", "not-json@0+93", ""},
		{"a piece of a record", `{"type":"custom","id":"z","ts":"2026-11-20T08:00:09Z","data":` + a + "\n", fmt.Sprintf("torn@0+%d", 61+na), ""},
		{"a piece of a list", "[" + a + "\n", fmt.Sprintf("not-json@0+%d", 1+na), ""},
		{"lines of a list", "[\n" + a + ",\n" + a + "\n]\n", fmt.Sprintf("not-json@0+1 a not-json@%d+1 a not-json@%d+1", na+2, 2*na+5), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, summary(collect(t, tt.data, nil)))
			if tt.final == "" {
				tt.final = tt.want
			}
			recs := collect(t, tt.data, &transcript.ScanOptions{Final: true})
			require.Equal(t, tt.final, summary(recs))
			checkCovered(t, tt.data, recs)
		})
	}
}

// checkCovered fails unless every byte of data that is not white space or a
// byte order mark at the front of a line is in exactly one record, the records
// are in order, and each is where it says.
func checkCovered(t testing.TB, data string, recs []transcript.Record) {
	t.Helper()
	pos := 0
	gap := func(end int) {
		for s := range strings.SplitSeq(data[pos:end], "\n") {
			if s = strings.TrimPrefix(s, "\xef\xbb\xbf"); strings.Trim(s, " \t\r") != "" {
				t.Fatalf("%q: %q is in no record of %s", data, s, summary(recs))
			}
		}
	}
	for _, r := range recs {
		size := len(r.Entry.Line())
		if r.Damage != nil {
			size = int(r.Damage.Size)
			if r.Damage.Offset != r.Offset || size == 0 || r.Damage.Kind == "" {
				t.Fatalf("%q: damage %+v in a record at %d", data, r.Damage, r.Offset)
			}
		}
		start := int(r.Offset)
		if start < pos {
			t.Fatalf("%q: records overlap: %s", data, summary(recs))
		}
		gap(start)
		pos = start + size
		if r.Damage == nil && data[start:pos] != string(r.Entry.Line()) {
			t.Fatalf("%q: at %d is not %q", data, start, r.Entry.Line())
		}
		end := strings.IndexByte(data[start:], '\n')
		if end = start + end + 1; end == start {
			end = len(data)
		}
		if int(r.End) != end || pos > end {
			t.Fatalf("%q: record at %d ends at %d, its line at %d", data, start, r.End, end)
		}
	}
	gap(len(data))
}

// Wherever a record is torn, the one written after it is found, and the first
// gives no entry.
func TestScanGlued(t *testing.T) {
	if testing.Short() {
		t.Skip("many samples in one goroutine")
	}
	second := `{"type":"tool_use","id":"z","ts":"2026-11-20T08:00:02Z","tool_use_id":"t","name":"f","input":{"é":["{","{\"type\":",{"type":"user","id":"x","ts":"2026-11-20T08:00:02Z"}],"n":{"n":{"n":{"n":{"n":{}}}}}}}`
	firsts := []string{lineA, lineB, strings.Replace(second, `"id":"z"`, `"id":"y"`, 1)}
	for _, l := range lines {
		firsts = append(firsts, l.line)
	}
	gaps := []string{"", "\r", "\x00\x00", " "}
	for i, first := range firsts {
		if i == 3 {
			gaps = gaps[:1]
		}
		for n := range len(first) {
			if *soak == "short" && n%3 != i%3 {
				continue
			}
			for _, gap := range gaps {
				data := lineA + "\n" + first[:n] + gap + second + "\n" + lineB + "\n"
				recs := collect(t, data, nil)
				checkCovered(t, data, recs)
				var got []string
				for _, r := range recs {
					if r.Damage == nil {
						got = append(got, string(r.Entry.Line()))
					}
				}
				if !slices.Equal(got, []string{lineA, second, lineB}) {
					t.Fatalf("cut at %d, found %s:\n%s", n, summary(recs), data)
				}
			}
		}
	}
}

// Salvage finds a record after many lookalikes, and gives up on a line made to
// cost time.
func TestScanGluedHard(t *testing.T) {
	code := strings.Repeat(`"func f() {","if x {",`, 500) + `"}"`
	second := `{"type":"tool_use","id":"z","ts":"2026-11-20T08:00:02Z","input":{"code":[` + code + `]}}`
	require.Equal(t, "torn@0+40 z", summary(collect(t, lineA[:40]+second+"\n", nil)))
	for _, hostile := range []string{
		strings.Repeat(`{"type":"x"}`, 5000),
		strings.Repeat(`{"type":"x"`, 20000) + "}",
		strings.Repeat(`{"type":"`, 20000) + "}",
		strings.Repeat(`{"`, 50000) + "}",
		strings.Repeat(`{"type":"user","ts":"","id":"","content":[`, 5000) + "}",
		strings.Repeat("\x00 ", 20000),
		strings.Repeat(`{"type":"x"} 5 `, 3000),
		strings.Repeat(`{} `, 5000),
	} {
		checkCovered(t, hostile, collect(t, hostile, &transcript.ScanOptions{Final: true}))
	}
}

func TestScanFrom(t *testing.T) {
	data := lineA + "\n\n" + lineB + "\n" + lineA + "\n" + lineB[:20]
	all := collect(t, data, &transcript.ScanOptions{Final: true})
	for i, r := range all {
		got := collect(t, data, &transcript.ScanOptions{From: r.Offset, Final: true})
		if !reflect.DeepEqual(got, all[i:]) {
			t.Errorf("from %d: %s, want %s", r.Offset, summary(got), summary(all[i:]))
		}
		// A scan can continue where any line ends.
		if got := collect(t, data, &transcript.ScanOptions{From: r.End, Final: true}); !reflect.DeepEqual(got, append([]transcript.Record(nil), all[i+1:]...)) {
			t.Errorf("from end %d: %s", r.End, summary(got))
		}
	}
	if got := collect(t, data, &transcript.ScanOptions{From: int64(len(data)) + 5}); len(got) != 0 {
		t.Errorf("from behind the end: %s", summary(got))
	}
}

// The sequences can be ranged over again, and left early.
func TestScanAgain(t *testing.T) {
	data := strings.Repeat(lineA+"\n", 5)
	for _, scan := range []func(io.ReaderAt, int64, *transcript.ScanOptions) (seq func(func(transcript.Record, error) bool)){
		func(r io.ReaderAt, n int64, o *transcript.ScanOptions) func(func(transcript.Record, error) bool) {
			return transcript.Scan(r, n, o)
		},
		func(r io.ReaderAt, n int64, o *transcript.ScanOptions) func(func(transcript.Record, error) bool) {
			return transcript.ScanBackward(r, n, o)
		},
	} {
		seq := scan(strings.NewReader(data), int64(len(data)), nil)
		for want := range 5 {
			n := 0
			for _, err := range seq {
				require.NoError(t, err)
				if n++; n > want {
					break
				}
			}
			if n != want+1 {
				t.Errorf("%d records, want %d", n, want+1)
			}
		}
	}
}

func TestScanMaxLine(t *testing.T) {
	long := `{"type":"user","id":"l","content":"` + strings.Repeat("x", 1000) + `"}`
	data := lineA + "\n" + long + "\n" + lineA + "\n" + long
	at := int64(len(lineA) + 1)
	for _, tt := range []struct {
		max  int
		want string
	}{
		{0, "a l a l"},
		{len(long), "a l a l"},
		{len(long) - 1, fmt.Sprintf("a too-long@%d+%d a too-long@%d+%d", at, len(long), 2*at+int64(len(long))+1, len(long))},
	} {
		if got := summary(collect(t, data, &transcript.ScanOptions{MaxLine: tt.max, Final: true})); got != tt.want {
			t.Errorf("MaxLine %d: %s, want %s", tt.max, got, tt.want)
		}
	}
}

// endless is a line of 24 MiB between two short ones.
type endless struct{ before, after string }

const endlessSize = 24 << 20

func (e endless) size() int64 { return int64(len(e.before)) + endlessSize + int64(len(e.after)) }

func (e endless) ReadAt(p []byte, off int64) (int, error) {
	for i := range p {
		switch at := off + int64(i); {
		case at < int64(len(e.before)):
			p[i] = e.before[at]
		case at < int64(len(e.before))+endlessSize:
			p[i] = 'x'
		case at < e.size():
			p[i] = e.after[at-int64(len(e.before))-endlessSize]
		default:
			return i, io.EOF
		}
	}
	return len(p), nil
}

// A line of any length is skipped in bounded memory.
func TestScanMemory(t *testing.T) {
	r := endless{before: lineA + "\n{", after: "}\n" + lineB + "\n"}
	opts := &transcript.ScanOptions{MaxLine: 1 << 20}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	want := fmt.Sprintf("a too-long@%d+%d b", len(lineA)+1, endlessSize+2)
	for _, seq := range []func(func(transcript.Record, error) bool){
		transcript.Scan(r, r.size(), opts), transcript.ScanBackward(r, r.size(), opts),
	} {
		var recs []transcript.Record
		for rec, err := range seq {
			require.NoError(t, err)
			recs = append(recs, rec)
		}
		slices.SortFunc(recs, func(a, b transcript.Record) int { return int(a.Offset - b.Offset) })
		if got := summary(recs); got != want {
			t.Errorf("found %s, want %s", got, want)
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
		t.Errorf("allocated %d bytes for lines of at most %d", n, opts.MaxLine)
	}
}

type countingReader struct {
	io.ReaderAt
	calls int
}

func (c *countingReader) ReadAt(p []byte, off int64) (int, error) {
	c.calls++
	return c.ReaderAt.ReadAt(p, off)
}

// A transcript is read in pieces of many lines, in both directions.
func TestScanReads(t *testing.T) {
	data := strings.Repeat(lineA+"\n", 10_000)
	size := int64(len(data))
	for _, scan := range []func(io.ReaderAt, int64, *transcript.ScanOptions) iter.Seq2[transcript.Record, error]{
		transcript.Scan, transcript.ScanBackward,
	} {
		r := &countingReader{ReaderAt: strings.NewReader(data)}
		n := 0
		for rec, err := range scan(r, size, nil) {
			require.NoError(t, err)
			require.Equal(t, "a", rec.Entry.ID)
			n++
		}
		if n != 10_000 || r.calls > n/100 {
			t.Errorf("%d lines in %d reads", n, r.calls)
		}
	}
}

type failingReader struct {
	io.ReaderAt
	from int64 // reads that reach beyond fail
	err  error
}

func (f failingReader) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.from {
		return 0, f.err
	}
	return f.ReaderAt.ReadAt(p, off)
}

func TestScanErrors(t *testing.T) {
	data := strings.Repeat(lineA+"\n", 2000) // several chunks
	size := int64(len(data))
	errDisk := errors.New("disk on fire")
	for _, tt := range []struct {
		name string
		r    io.ReaderAt
		want error
	}{
		{"file that shrinks", strings.NewReader(data[:size-100]), io.ErrUnexpectedEOF},
		{"file that is gone", bytes.NewReader(nil), io.ErrUnexpectedEOF},
		{"reader error", failingReader{strings.NewReader(data), 100_000, errDisk}, errDisk},
		{"reader error at once", failingReader{strings.NewReader(data), -1, errDisk}, errDisk},
	} {
		for direction, seq := range map[string]func(func(transcript.Record, error) bool){
			"forward": transcript.Scan(tt.r, size, nil), "backward": transcript.ScanBackward(tt.r, size, nil),
		} {
			var last error
			n := 0
			for rec, err := range seq {
				if last != nil {
					t.Errorf("%s, %s: something follows the error: %+v, %v", tt.name, direction, rec, err)
				}
				if last = err; err == nil && (rec.Damage != nil || rec.Entry.ID != "a") {
					t.Errorf("%s, %s: %+v", tt.name, direction, rec)
				}
				n++
			}
			if !errors.Is(last, tt.want) {
				t.Errorf("%s, %s: %v after %d records, want %v", tt.name, direction, last, n, tt.want)
			}
		}
	}
}

func TestScanDecode(t *testing.T) {
	data := " {\"n\":1}\r\n{\"n\":2}{\"n\":3}\n{\"n\":4,\"torn\":[{\"n\":5}\n{\"n\":6,{\"n\":7,\"ts\":0}\n"
	var offsets []int64
	opts := &transcript.ScanOptions{
		Decode: func(line []byte, offset int64) (transcript.Entry, error) {
			if _, err := transcript.ParseEntry(line); err != nil {
				if de, ok := errors.AsType[*transcript.DamageError](err); ok && de.Kind != transcript.DamageMalformed {
					return transcript.Entry{}, err
				}
			}
			if string(line) == `{"n":2}` {
				return transcript.Entry{}, errors.New("no twos")
			}
			offsets = append(offsets, offset)
			return transcript.Entry{ID: string(line[5]), Body: transcript.Custom{}}.WithLine(line), nil
		},
	}
	recs := collect(t, data, opts)
	require.Equal(t, "1 malformed@10+7 3 torn@25+22 torn@48+7 7", summary(recs))
	require.Equal(t, "no twos", recs[1].Damage.Reason)
	checkCovered(t, data, recs)
}

func TestDamageString(t *testing.T) {
	d := transcript.Damage{Kind: transcript.DamageTorn, Offset: 5, Size: 7}
	require.Equal(t, "torn: 7 bytes at offset 5", d.String())
	d.Reason = "why"
	require.Equal(t, "torn: 7 bytes at offset 5 (why)", d.String())
}

// A line of very many records costs memory in proportion to the line.
func TestScanManyRecordsOnOneLine(t *testing.T) {
	text := strings.Repeat("{}", 100_000) + "\n"
	n, end := 0, int64(0)
	for rec, err := range transcript.Scan(strings.NewReader(text), int64(len(text)), nil) {
		require.NoError(t, err)
		if rec.Damage == nil || rec.Offset != end {
			t.Fatalf("record %d: %+v, want damage at %d", n, rec, end)
		}
		end = rec.Offset + rec.Damage.Size
		n++
	}
	require.Equal(t, 1001, n)
	require.Equal(t, int64(len(text)-1), end)
}
