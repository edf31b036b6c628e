package dialect_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

var flat = []dialect.Dialect{dialect.MiniClaw, dialect.Claw0}

// read returns the records of data, which it reads in both directions.
func read(t testing.TB, d dialect.Dialect, data string) []transcript.Record {
	t.Helper()
	opts, err := d.ScanOptions()
	require.NoError(t, err)
	opts.Final = true
	var recs, back []transcript.Record
	for rec, err := range transcript.Scan(strings.NewReader(data), int64(len(data)), opts) {
		require.NoError(t, err)
		recs = append(recs, rec)
	}
	for rec, err := range transcript.ScanBackward(strings.NewReader(data), int64(len(data)), opts) {
		require.NoError(t, err)
		back = append(back, rec)
	}
	if slices.Reverse(back); !reflect.DeepEqual(recs, back) {
		t.Fatalf("%q\nforward  %+v\nbackward %+v", data, recs, back)
	}
	checkKept(t, data, recs)
	return recs
}

// checkKept fails unless every byte of data that is not white space is in an
// entry, which keeps its line and has an ID of its own, or is damage.
func checkKept(t testing.TB, data string, recs []transcript.Record) {
	t.Helper()
	rest := []byte(data)
	seen := map[string]bool{}
	for _, r := range recs {
		size := int64(len(r.Entry.Line()))
		if r.Damage != nil {
			size = r.Damage.Size
		} else {
			if got := data[r.Offset : r.Offset+size]; got != string(r.Entry.Line()) {
				t.Fatalf("at %d is %q, the entry has %q", r.Offset, got, r.Entry.Line())
			}
			if _, header := r.Entry.Body.(transcript.Header); !header {
				if want := fmt.Sprintf("@%d", r.Offset); r.Entry.ID != want || seen[want] {
					t.Fatalf("ID %q, want %q", r.Entry.ID, want)
				}
			}
			seen[r.Entry.ID] = true
		}
		for i := r.Offset; i < r.Offset+size; i++ {
			require.NotEqualValues(t, '\n', rest[i])
			rest[i] = '\n'
		}
	}
	left := strings.ReplaceAll(string(rest), "\xef\xbb\xbf", "")
	require.Empty(t, strings.Trim(left, " \t\r\n"), data)
}

// show returns one line of text about a record.
func show(r transcript.Record) string {
	if r.Damage != nil {
		return "damage " + string(r.Damage.Kind)
	}
	switch b := r.Entry.Body.(type) {
	case transcript.Header:
		return "session " + r.Entry.ID + " " + b.Key
	case transcript.MessageLine:
		m, err := b.Message().MarshalJSON()
		if err != nil {
			return err.Error()
		}
		answer := ""
		if b.Of != "" {
			answer = " of " + b.Of
		}
		if b.API+b.Model != "" {
			answer += fmt.Sprintf(" by %s %s, stop %s, usage %d %d %d %d", b.API, b.Model, b.StopReason, b.Usage.Input, b.Usage.Output, b.Usage.CacheRead, b.Usage.CacheWrite)
		}
		return b.Kind + " " + string(m) + answer
	case transcript.Unknown:
		return "unknown " + b.Kind
	case transcript.Custom:
		return "custom " + b.Name
	case transcript.Compaction:
		return fmt.Sprintf("compaction first=%q covers=%q before=%d after=%d %q", b.FirstKept, b.CoversTo, b.TokensBefore, b.TokensAfter, b.Summary)
	case transcript.Meta:
		return fmt.Sprintf("meta title=%q", *b.Title)
	}
	return fmt.Sprintf("%#v", r.Entry.Body)
}

func TestFlatRecords(t *testing.T) {
	const user, assistant = `{"role":"user","content":`, `{"role":"assistant","content":`
	for in, want := range map[string]string{
		`{"type":"session","id":"abc","key":"main:cli:user","created":"2025-01-01T00:00:00Z"}`: "session abc main:cli:user",
		`{"type":"session","id":"abc","created":"2025-01-01T00:00:00Z"}`:                       "session abc ",
		`{"type":"session"}`: "session @0 ",
		`{"type":"user","content":"hi","ts":"2025-01-01T00:00:01Z"}`:                "user " + user + `"hi"}`,
		`{"type":"user","content":[{"type":"text","text":"a"},"b",{"type":"odd"}]}`: "user " + user + `[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"odd"}]}`,
		`{"type":"user"}`:                        "user " + user + `""}`,
		`{"type":"user","content":null}`:         "user " + user + `""}`,
		`{"type":"user","content":[]}`:           "user " + user + `[]}`,
		`{"type":"user","content":5}`:            "damage malformed",
		`{"type":"user","content":[{"text":1}]}`: "damage malformed",
		`{"type":"assistant","content":"plain"}`: "assistant " + assistant + `"plain"}`,
		`{"type":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"A","name":"f","input":{}}],"ts":1.5}`: "assistant " + assistant + `[{"type":"text","text":"x"},{"type":"tool_use","id":"A","name":"f","input":{}}]}`,
		`{"type":"tool_use","name":"f","tool_use_id":"A","input":{"b": 1.0}}`:                                                     "tool_use " + assistant + `[{"type":"tool_use","id":"A","name":"f","input":{"b": 1.0}}]}`,
		`{"type":"tool_use"}`:                                                       "tool_use " + assistant + `[{"type":"tool_use","id":"","name":"","input":{}}]}`,
		`{"type":"tool_use","name":"f","input":null}`:                               "tool_use " + assistant + `[{"type":"tool_use","id":"","name":"f","input":{}}]}`,
		`{"type":"tool_use","name":"f","input":"{\"a"}`:                             "tool_use " + assistant + `[{"type":"tool_use","id":"","name":"f","input":"{\"a"}]}`,
		`{"type":"tool_result","tool_use_id":"A","output":"o"}`:                     "tool_result " + user + `[{"type":"tool_result","tool_use_id":"A","content":"o"}]}`,
		`{"type":"tool_result","tool_use_id":"A","content":"c"}`:                    "tool_result " + user + `[{"type":"tool_result","tool_use_id":"A","content":"c"}]}`,
		`{"type":"tool_result","tool_use_id":"A","output":null,"content":"c"}`:      "tool_result " + user + `[{"type":"tool_result","tool_use_id":"A","content":"c"}]}`,
		`{"type":"tool_result","tool_use_id":"A","output":{"a":1},"is_error":true}`: "tool_result " + user + `[{"type":"tool_result","tool_use_id":"A","content":"{\"a\":1}","is_error":true}]}`,
		`{"type":"tool_result","tool_use_id":"A","output":[1,2]}`:                   "tool_result " + user + `[{"type":"tool_result","tool_use_id":"A","content":"[1,2]"}]}`,
		`{"type":"tool_result","content":[{"type":"text","text":"a"}]}`:             "tool_result " + user + `[{"type":"tool_result","tool_use_id":"","content":[{"type":"text","text":"a"}]}]}`,
		`{"type":"tool_result"}`:                                                    "tool_result " + user + `[{"type":"tool_result","tool_use_id":"","content":""}]}`,
		`{"type":"usage","input":12}`:                                               "unknown usage",
		`{"type":"compaction","summary":"s"}`:                                       "unknown compaction",
		`{"role":"user","parts":[]}`:                                                "damage malformed",
		`{"type":5}`:                                                                "damage malformed",
		`{}`:                                                                        "damage malformed",
		`[]`:                                                                        "damage not-object",
		`{"type":"us`:                                                               "damage torn",
		"{\"type\":\"user\",\"content\":\"\xff\"}":                                  "damage utf8",
	} {
		for _, d := range flat {
			recs := read(t, d, in)
			if len(recs) != 1 {
				t.Errorf("%s: %s: %d records", d, in, len(recs))
			} else if got := show(recs[0]); got != want {
				t.Errorf("%s: %s\nis   %s\nwant %s", d, in, got, want)
			}
		}
	}
	const both = `{"type":"tool_result","tool_use_id":"A","output":"o","content":"c"}`
	for d, want := range map[dialect.Dialect]string{dialect.MiniClaw: "o", dialect.Claw0: "c"} {
		f := read(t, d, both)[0].Entry.Body.(transcript.MessageLine)
		if got := f.Content[0].(transcript.ToolResultBlock).Text(); got != want {
			t.Errorf("%s: the result is %q, want %q", d, got, want)
		}
	}
}

func TestFlatTimes(t *testing.T) {
	at := time.Date(2026, 2, 24, 10, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Time{
		`"2026-02-24T10:00:00.123456+00:00"`: at.Add(123456 * time.Microsecond),
		`"2026-02-24T10:00:00Z"`:             at,
		`"2026-02-24T11:00:00+01:00"`:        at,
		`"2026-02-24T11:00:00.5+0100"`:       at.Add(500 * time.Millisecond),
		`"2026-02-24 10:00:00Z"`:             at,
		`"2026-02-24T10:00Z"`:                at,
		`"2026-02-24T10:00:00.123456"`:       at.Add(123456 * time.Microsecond),
		`"2026-02-24 10:00:00"`:              at,
		`"2026-02-24T10:00"`:                 at,
		`"2026-02-24"`:                       {},
		`"..."`:                              {},
		`""`:                                 {},
		fmt.Sprint(at.Unix()):                at,
		fmt.Sprintf("%d.5795097", at.Unix()): at.Add(579510 * time.Microsecond),
		fmt.Sprintf("%d000", at.Unix()):      at,
		fmt.Sprintf(`"%d"`, at.Unix()):       at,
		`1`:                                  time.Unix(1, 0),
		`-1.5`:                               time.Unix(-2, 5e8),
		`1e300`:                              {},
		`"NaN"`:                              {},
		`"Inf"`:                              {},
		`null`:                               {},
		`{}`:                                 {},
		`true`:                               {},
	} {
		for _, d := range flat {
			recs := read(t, d, `{"type":"user","content":"x","ts":`+in+`}`)
			if got := recs[0].Entry.Time; !got.Equal(want) {
				t.Errorf("%s: %s is %v, want %v", d, in, got, want)
			}
			recs = read(t, d, `{"type":"session","created":`+in+`}`)
			if got := recs[0].Entry.Body.(transcript.Header).Created; !got.Equal(want) {
				t.Errorf("%s: created %s is %v, want %v", d, in, got, want)
			}
		}
	}
	require.True(t, read(t, dialect.Claw0, `{"type":"user"}`)[0].Entry.Time.IsZero())
}

// situations are the defects in files of these programs. The lines are records
// in the words of show; %s is where the two forms differ.
var situations = []struct{ name, data, want string }{
	{
		"results before calls",
		`{"type": "tool_result", "tool_use_id": "t1", RESULT: "hello", TS}` + "\n" + `{"type": "user", "content": "q", TS}` + "\n" +
			`{"type": "tool_use", "name": "f", "tool_use_id": "t1", "input": {}, TS}` + "\n",
		"tool_result user tool_use",
	},
	{
		"each call twice",
		`{"type": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}], TS}` + "\n" +
			`{"type": "tool_use", "tool_use_id": "t1", "name": "f", "input": {}, TS}` + "\n" + `{"type": "tool_result", "tool_use_id": "t1", RESULT: "r", TS}` + "\n",
		"assistant tool_use tool_result",
	},
	{"torn last line", `{"type": "user", "content": "one", TS}` + "\n" + `{"type":"user","content":"half`, "user !torn"},
	{"append after a torn line", `{"type":"user","content":"half{"type": "user", "content": "after", TS}` + "\n" + `{"type": "assistant", "content": "r", TS}` + "\n", "!torn user assistant"},
	{"append after a value", `{"type": "tool_use", "input": {"type": "user", "content": "after", TS}` + "\n", "!torn user"},
	{"other line separators", "{\"type\": \"user\", \"content\": \"a\u2028b\u2029c\u0085d\", TS}\n", "user"},
	{"foreign lines", `{"type": "user", "content": "one", TS}` + "\n42\n[]\nnull\n\"str\"\n" + `{"type": "assistant", "content": "r", TS}` + "\n", "user !not-object !not-object !not-object !not-object assistant"},
	{"invalid UTF-8", "{\"type\":\"user\",\"content\":\"\xff\xfe\",\"ts\":1}\n" + `{"type": "assistant", "content": "ok", TS}` + "\n", "!utf8 assistant"},
	{"BOM, CRLF, blank lines, NUL", "\xef\xbb\xbf" + `{"type": "user", "content": "a", TS}` + "\r\n\r\n\n\x00\x00\x00" + `{"type": "user", "content": "b", TS}` + "\r\n", "user !nul user"},
	{"no final newline", `{"type": "user", "content": "one", TS}` + "\n" + `{"type": "assistant", "content": "r", TS}`, "user assistant"},
	{"unknown type", `{"type": "usage", "input": 12}` + "\n" + `{"type": "user", "content": "one", TS}` + "\n", "usage user"},
	{"two headers", `{"type":"session","id":"a","created":"x"}` + "\n" + `{"type":"session","id":"b","created":"x"}` + "\n", "session session"},
}

func forms(data string) map[dialect.Dialect]string {
	return map[dialect.Dialect]string{
		dialect.MiniClaw: strings.NewReplacer("RESULT", `"output"`, "TS", `"ts": "2026-02-24T10:00:03.000000+00:00"`).Replace(data),
		dialect.Claw0:    strings.NewReplacer("RESULT", `"content"`, "TS", `"ts": 1771927203.0`).Replace(data),
	}
}

// kinds lists the types of entries, and the kinds of damage after a "!".
func kinds(recs []transcript.Record) string {
	var words []string
	for _, r := range recs {
		if r.Damage != nil {
			words = append(words, "!"+string(r.Damage.Kind))
		} else {
			words = append(words, r.Entry.Type())
		}
	}
	return strings.Join(words, " ")
}

func TestSituations(t *testing.T) {
	for _, tt := range situations {
		for d, data := range forms(tt.data) {
			if got := kinds(read(t, d, data)); got != tt.want {
				t.Errorf("%s, %s: %s, want %s\n%s", tt.name, d, got, tt.want, data)
			}
		}
	}
}

// Wherever a record is torn, the record glued to it is found.
func TestGlued(t *testing.T) {
	const second = `{"type": "assistant", "content": [{"type": "text", "text": "a {\"}"}, {"type": "tool_use", "id": "t", "name": "f", "input": {"a": {}}}], TS}`
	for _, first := range []string{
		`{"type": "user", "content": "你好 {", TS}`, second,
		`{"type": "tool_use", "name": "f", "tool_use_id": "t", "input": {"b": [{"type": "user"}]}, TS}`,
	} {
		for d, data := range forms(first + "\n" + second) {
			first, second, _ := strings.Cut(data, "\n")
			for n := range len(first) {
				recs := read(t, d, first[:n]+second+"\n")
				last := recs[len(recs)-1]
				if last.Damage != nil || string(last.Entry.Line()) != second || len(recs) > 2 || len(recs) == 2 && recs[0].Damage == nil {
					t.Fatalf("%s: cut at %d: %s\n%s", d, n, kinds(recs), first[:n]+second)
				}
			}
		}
	}
}

func TestScanOptions(t *testing.T) {
	for _, d := range []dialect.Dialect{"", "zyhive"} {
		if opts, err := d.ScanOptions(); err == nil {
			t.Errorf("%q: %+v", d, opts)
		}
	}
	const line = `{"type":"user","id":"a","ts":"2026-02-24T10:00:00Z","content":"x"}`
	opts, err := dialect.Native.ScanOptions()
	require.NoError(t, err)
	for rec, err := range transcript.Scan(strings.NewReader(line+"\n"), int64(len(line)+1), opts) {
		if err != nil || rec.Entry.ID != "a" {
			t.Errorf("%+v, %v", rec, err)
		}
	}
}

func FuzzFlat(f *testing.F) {
	for _, tt := range situations {
		for d, data := range forms(tt.data) {
			f.Add([]byte(data), d == dialect.MiniClaw)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, miniClaw bool) {
		d := dialect.Claw0
		if miniClaw {
			d = dialect.MiniClaw
		}
		for _, r := range read(t, d, string(data)) {
			fragment, ok := r.Entry.Body.(transcript.MessageLine)
			if !ok {
				continue
			}
			// A message that was read can be stored.
			items, err := transcript.NewBatch(r.Entry.Time, func() string { return "x" }, fragment.Message())
			if err != nil {
				if fragment.Kind == transcript.TypeToolUse || fragment.Kind == transcript.TypeToolResult {
					t.Fatalf("%s: %v", r.Entry.Line(), err)
				}
				continue // a result in an assistant message, for example
			}
			for _, e := range items {
				if _, err := transcript.ParseEntry(e.Line()); err != nil {
					t.Fatalf("%s of %s: %v", e.Line(), r.Entry.Line(), err)
				}
			}
		}
		_, _, err := dialect.Detect(strings.NewReader(string(data)), int64(len(data)))
		require.NoError(t, err)
	})
}
