package transcript_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/checksum"
	"github.com/convolog/convolog/transcript"
)

// ids returns a source of the IDs e1, e2 ...
func ids() func() string {
	n := 0
	return func() string { n++; return fmt.Sprintf("e%d", n) }
}

func call(id, name, input string) transcript.ToolCallBlock {
	return transcript.ToolCallBlock{ID: id, Name: name, Input: raw(input)}
}

func answer(blocks ...transcript.Block) transcript.Message {
	return transcript.Message{Role: transcript.RoleAssistant, Content: blocks}
}

func TestNewBatch(t *testing.T) {
	const ts = `,"ts":"2026-11-20T08:00:01.123456Z"`
	text := func(s string) transcript.Block { return transcript.TextBlock{Text: s} }
	think := transcript.ThinkingBlock{Thinking: "hm", Signature: "s"}
	for _, tt := range []struct {
		name  string
		items []transcript.Item
		want  []string
	}{
		{"nothing", nil, nil},
		{"one text", []transcript.Item{transcript.UserText("hi")}, []string{`{"type":"user","id":"e1"` + ts + `,"content":"hi"}`}},
		{
			"answer",
			[]transcript.Item{&transcript.Response{
				Message: answer(text("Let me look."), call("t1", "read", `{"path":"a.go"}`), call("t2", "read", `{"path":"b.go"}`)),
				API:     "anthropic", Model: "m", StopReason: transcript.StopToolUse, Usage: transcript.Usage{Input: 1, Output: 2}, RequestID: "r",
			}},
			[]string{
				`{"type":"assistant","id":"e1"` + ts + `,"batch":3,"api":"anthropic","model":"m","stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2},"request_id":"r","content":[{"type":"text","text":"Let me look."}]}`,
				`{"type":"tool_use","id":"e2"` + ts + `,"mid":"e1","part":2,"tool_use_id":"t1","name":"read","input":{"path":"a.go"}}`,
				`{"type":"tool_use","id":"e3"` + ts + `,"mid":"e1","part":3,"tool_use_id":"t2","name":"read","input":{"path":"b.go"}}`,
			},
		},
		{
			"blocks between calls",
			[]transcript.Item{transcript.Response{Message: transcript.Message{Content: []transcript.Block{
				call("t1", "f", `{}`), think, text("a"), call("t2", "f", `{}`), text("b"),
			}}}},
			[]string{
				`{"type":"assistant","id":"e1"` + ts + `,"batch":5,"content":[]}`,
				`{"type":"tool_use","id":"e2"` + ts + `,"mid":"e1","part":2,"tool_use_id":"t1","name":"f","input":{}}`,
				`{"type":"assistant","id":"e3"` + ts + `,"mid":"e1","part":3,"content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"a"}]}`,
				`{"type":"tool_use","id":"e4"` + ts + `,"mid":"e1","part":4,"tool_use_id":"t2","name":"f","input":{}}`,
				`{"type":"assistant","id":"e5"` + ts + `,"mid":"e1","part":5,"content":[{"type":"text","text":"b"}]}`,
			},
		},
		{
			"empty answer",
			[]transcript.Item{&transcript.Response{StopReason: transcript.StopAborted}},
			[]string{`{"type":"assistant","id":"e1"` + ts + `,"stop_reason":"aborted","content":[]}`},
		},
		{"plain answer", []transcript.Item{transcript.AssistantText("ok")}, []string{`{"type":"assistant","id":"e1"` + ts + `,"content":"ok"}`}},
		{
			"results and text",
			[]transcript.Item{transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{
				text("a"), transcript.ToolResult("t1", "out").Content[0], text("b"), transcript.ToolError("t2", "no").Content[0],
			}}},
			[]string{
				`{"type":"tool_result","id":"e1"` + ts + `,"batch":3,"tool_use_id":"t1","content":"out","is_error":false}`,
				`{"type":"tool_result","id":"e2"` + ts + `,"part":2,"tool_use_id":"t2","content":"no","is_error":true}`,
				`{"type":"user","id":"e3"` + ts + `,"part":3,"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`,
			},
		},
		{
			"several items",
			[]transcript.Item{transcript.UserText("q"), new(transcript.AssistantText("a")), transcript.Rewind{To: "e0"}},
			[]string{
				`{"type":"user","id":"e1"` + ts + `,"batch":3,"content":"q"}`,
				`{"type":"assistant","id":"e2"` + ts + `,"part":2,"content":"a"}`,
				`{"type":"rewind","id":"e3"` + ts + `,"part":3,"to":"e0"}`,
			},
		},
		{
			"characters",
			[]transcript.Item{transcript.UserText("你好 <&>\u2028\u2029\n\r\x00\xff")},
			[]string{`{"type":"user","id":"e1"` + ts + `,"content":"你好 <&>\u2028\u2029\n\r\u0000` + "\uFFFD" + `"}`},
		},
		{
			"inputs",
			[]transcript.Item{answer(
				call("t1", "f", `{"b": 1.0,"a":"\u00e9é"}`), call("t2", "f", "{\n  \"a\": [1,\n 2]\n}"), call("t3", "f", `{"path":"a`), call("t4", "f", ``),
			)},
			[]string{
				`{"type":"assistant","id":"e1"` + ts + `,"batch":5,"content":[]}`,
				`{"type":"tool_use","id":"e2"` + ts + `,"mid":"e1","part":2,"tool_use_id":"t1","name":"f","input":{"b": 1.0,"a":"\u00e9é"}}`,
				`{"type":"tool_use","id":"e3"` + ts + `,"mid":"e1","part":3,"tool_use_id":"t2","name":"f","input":{"a":[1,2]}}`,
				`{"type":"tool_use","id":"e4"` + ts + `,"mid":"e1","part":4,"tool_use_id":"t3","name":"f","input":"{\"path\":\"a"}`,
				`{"type":"tool_use","id":"e5"` + ts + `,"mid":"e1","part":5,"tool_use_id":"t4","name":"f"}`,
			},
		},
		{
			"raw blocks of known types",
			[]transcript.Item{
				answer(transcript.RawBlock{JSON: raw(`{"type":"tool_use","id":"t1","name":"f","input":{}}`)}, transcript.RawBlock{JSON: raw(`{"type":"odd"}`)}),
				transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.RawBlock{JSON: raw(`{"type":"tool_result","tool_use_id":"t1"}`)}}},
			},
			[]string{
				`{"type":"assistant","id":"e1"` + ts + `,"batch":4,"content":[]}`,
				`{"type":"tool_use","id":"e2"` + ts + `,"mid":"e1","part":2,"tool_use_id":"t1","name":"f","input":{}}`,
				`{"type":"assistant","id":"e3"` + ts + `,"mid":"e1","part":3,"content":[{"type":"odd"}]}`,
				`{"type":"tool_result","id":"e4"` + ts + `,"part":4,"tool_use_id":"t1","is_error":false}`,
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			entries, err := transcript.NewBatch(at.Add(999), ids(), tt.items...)
			require.NoError(t, err)
			var got []string
			for _, e := range entries {
				got = append(got, string(e.Line()))
				if back := parse(t, string(e.Line())); back.ID != e.ID || !back.Time.Equal(e.Time) || back.Batch != e.Batch || back.Part != e.Part {
					t.Errorf("entry %+v is read as %+v", e, back)
				}
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("lines:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// A block comes back from its line unchanged, for all names of extras.
func TestNewBatchKeepsBlocks(t *testing.T) {
	odd := extra{}
	for _, name := range []string{"id", "ts", "batch", "part", "idem", "idemHash", "mid", "extra", "tool_use_id", "model", "é\n"} {
		odd[name] = raw(fmt.Sprintf(`{"was": %q}`, name))
	}
	c := call("t1", "f", `{}`)
	c.Extra = odd
	r := transcript.ToolResult("t1", "out").Content[0].(transcript.ToolResultBlock)
	r.Extra = odd
	entries, err := transcript.NewBatch(at, ids(), answer(c), transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{r}})
	require.NoError(t, err)
	for i, want := range map[int]transcript.Block{1: c, 2: r} {
		e := parse(t, string(entries[i].Line()))
		if got := e.Body.(transcript.MessageLine).Content; !reflect.DeepEqual(got, []transcript.Block{want}) {
			t.Errorf("%s\nholds %#v\nwant  %#v", e.Line(), got, want)
		}
		if e.ID != entries[i].ID || e.Part != i+1 {
			t.Errorf("%s\nhas ID %q and part %d", e.Line(), e.ID, e.Part)
		}
	}
}

func TestNewBatchErrors(t *testing.T) {
	user := func(b ...transcript.Block) transcript.Message {
		return transcript.Message{Role: transcript.RoleUser, Content: b}
	}
	for _, tt := range []struct {
		item transcript.Item
		want string
	}{
		{nil, "nil item"},
		{(*transcript.Message)(nil), "nil *Message"},
		{(*transcript.Response)(nil), "nil *Response"},
		{(*transcript.Custom)(nil), "a *transcript.Custom cannot be appended"},
		{transcript.Calibration{Factor: math.NaN()}, "factor of NaN"},
		{transcript.Calibration{Factor: math.Inf(1)}, "factor of +Inf"},
		{transcript.Message{}, `role ""`},
		{transcript.Message{Role: "system"}, `role "system"`},
		{user(), "without content"},
		{user(nil), "block 0 is nil"},
		{user(&transcript.TextBlock{}), "block 0 is a *transcript.TextBlock"},
		{user(transcript.TextBlock{}, transcript.ToolResultBlock{Content: []transcript.Block{nil}}), "block 1: block 0 is nil"},
		{user(transcript.RawBlock{}), "block 0: the JSON"},
		{user(transcript.RawBlock{JSON: raw(`{"a":1}`)}), "block 0: the JSON"},
		{user(transcript.RawBlock{JSON: raw(`{"type":"a"`)}), "block 0: the JSON"},
		{user(call("t", "f", "{}")), "a tool call in a user message"},
		{answer(transcript.ToolResultBlock{}), "a tool result in an assistant message"},
		{transcript.Response{Message: transcript.UserText("x")}, `role "user"`},
	} {
		_, err := transcript.NewBatch(at, ids(), transcript.UserText("fine"), tt.item, transcript.UserText("fine"))
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "item 2 of 3") {
			t.Errorf("%#v: %v, want item 2 of 3 and %q", tt.item, err, tt.want)
		}
	}
}

func TestWithIdem(t *testing.T) {
	entries, err := transcript.NewBatch(at, ids(), transcript.UserText("q"), transcript.AssistantText("a"))
	require.NoError(t, err)
	if entries, err = transcript.WithIdem(entries, "key"); err != nil {
		t.Fatal(err)
	}
	e := parse(t, string(entries[0].Line()))
	if e.Idem != "key" || e.IdemHash != transcript.IdemHash(entries) || e.Batch != 2 {
		t.Errorf("%s", e.Line())
	}
	if e := parse(t, string(entries[1].Line())); e.Idem != "" || e.Part != 2 {
		t.Errorf("%s", e.Line())
	}
	got, err := transcript.WithIdem(nil, "k")
	require.Nil(t, got)
	require.NoError(t, err)
}

// The hash of a batch depends on its items, not on IDs, times, checksums, numbers or
// the key, which differ when they are appended again.
func TestIdemHash(t *testing.T) {
	hash := func(at time.Time, newID func() string, app string, items ...transcript.Item) string {
		items = append(slices.Clone(items), transcript.WithApp(transcript.Response{
			Message: transcript.Message{Content: []transcript.Block{transcript.TextBlock{Text: "a"}, transcript.ToolCallBlock{ID: "c", Name: "n", Input: json.RawMessage(`{"id": 1}`)}}},
		}, json.RawMessage(app)))
		entries, err := transcript.NewBatch(at, newID, items...)
		require.NoError(t, err)
		plain := transcript.IdemHash(entries)
		entries, err = transcript.NewBatchWithChecksums(at.Add(time.Hour), uuid.NewString, items...)
		require.NoError(t, err)
		require.Equal(t, plain, transcript.IdemHash(entries))
		entries[0] = entries[0].WithSource([]byte("other")).WithChecksum()
		entries, err = transcript.WithIdem(entries, `a "key"`)
		require.NoError(t, err)
		require.Equal(t, []string{plain, `a "key"`}, []string{entries[0].IdemHash, entries[0].Idem})
		require.Equal(t, plain, transcript.IdemHash(entries))
		require.True(t, checksum.Ends(entries[0].Line()) && checksum.Intact(entries[0].Line()))
		read, err := transcript.ParseEntry(bytes.Clone(entries[0].Line()))
		require.NoError(t, err)
		require.Equal(t, read, entries[0])
		require.Equal(t, string(read.WithLine(nil).WithSource([]byte("other")).WithChecksum().Line()), string(entries[0].Line()))
		return plain
	}
	one := hash(at, ids(), `1`)
	require.Equal(t, one, hash(at.Add(1), uuid.NewString, `1`))
	for _, other := range []string{hash(at, ids(), `2`), hash(at, ids(), `1`, transcript.UserText("q")), hash(at, ids(), `1`, transcript.Rewind{To: "x"})} {
		require.NotEqual(t, one, other)
	}
}

// A line with a key must be as readable as a line without.
func TestWithIdemThatNoReaderTakes(t *testing.T) {
	batch := func(n int) []transcript.Entry {
		entries, err := transcript.NewBatch(at, ids(), transcript.UserText(strings.Repeat("x", n)))
		require.NoError(t, err)
		return entries
	}
	_, err := transcript.WithIdem(batch(1), "k\xff")
	require.ErrorContains(t, err, "not valid UTF-8")
	if *soak == "short" {
		return // the longest lines take seconds
	}
	keyed, err := transcript.WithIdem(batch(1), "key")
	require.NoError(t, err)
	// The longest text that fits into a line with this key.
	long := batch(transcript.DefaultMaxLine - (len(keyed[0].Line()) - 1))
	_, err = transcript.WithIdem(slices.Clone(long), "keys")
	require.ErrorContains(t, err, "over the limit")
	keyed, err = transcript.WithIdem(long, "key")
	require.NoError(t, err)
	require.Len(t, keyed[0].Line(), transcript.DefaultMaxLine)
}

func TestBatcher(t *testing.T) {
	// An entry is written as its ID, b and the length of the batch it starts,
	// p and its part; "!" is damage. A batch is its IDs, in brackets if whole.
	for _, tt := range []struct{ in, want, open string }{
		{"a b c", "[a] [b] [c]", ""},
		{"a,b3 b,p2 c,p3 d", "[a b c] [d]", ""},
		{"a,b2 b,p2 c,b2 d,p2", "[a b] [c d]", ""},
		{"a,b3 b,p2", "", "a b"},
		{"a,b3 b,p2 c", "a b [c]", ""},
		{"a,b3 b,p2 c,b2 d,p2", "a b [c d]", ""},
		{"a,b3 b,p3 c,p2", "a b c", ""},
		{"a,b3 b,p2 c,p2", "a b c", ""},
		{"a,b2 ! b,p2", "a b", ""},
		{"! a,b2 b,p2 !", "[a b]", ""},
		{"a,p2 b,p3 c", "a b [c]", ""},
		{"a,b2 b,b2,p2 c,p2", "a [b c]", ""},
		{"a,b1 b,b0 c,b-5 d", "[a] [b] [c] [d]", ""},
		{"a,b999999999999 b,p2 c", "a b [c]", ""},
	} {
		var b transcript.Batcher
		var got []string
		add := func(batches []transcript.Batch) {
			for _, batch := range batches {
				var names []string
				for _, e := range batch.Entries {
					names = append(names, e.ID)
				}
				text := strings.Join(names, " ")
				if batch.Complete {
					text = "[" + text + "]"
				}
				got = append(got, text)
			}
		}
		for word := range strings.FieldsSeq(tt.in) {
			if word == "!" {
				add(b.Break())
				continue
			}
			var e transcript.Entry
			for i, field := range strings.Split(word, ",") {
				n, err := strconv.Atoi(field[1:])
				switch {
				case i == 0:
					e.ID = field
				case err != nil:
					t.Fatal(err)
				case field[0] == 'b':
					e.Batch = n
				case field[0] == 'p':
					e.Part = n
				}
			}
			add(b.Add(e))
		}
		if b.Open() != (tt.open != "") {
			t.Errorf("%s: Open = %v", tt.in, b.Open())
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s: %s, want %s", tt.in, s, tt.want)
		}
		got = nil
		add(b.Break())
		if s := strings.Join(got, " "); s != tt.open || b.Open() {
			t.Errorf("%s: left open: %s, want %s", tt.in, s, tt.open)
		}
	}
}

func TestRequestJSON(t *testing.T) {
	const want = `{"model":"m","system":"s","messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f","input_schema":{"type":"object"}}],"max_tokens":5}`
	var r transcript.Request
	require.NoError(t, json.Unmarshal([]byte(want), &r))
	got, err := json.Marshal(r)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

// An item keeps its own time on each of its lines; the others get the time of the append.
func TestAt(t *testing.T) {
	then := at.Add(-time.Hour)
	call := transcript.Response{Message: transcript.Message{Content: []transcript.Block{
		transcript.TextBlock{Text: "a"}, transcript.ToolCallBlock{ID: "c", Name: "n", Input: json.RawMessage(`{}`)},
	}}}
	entries, err := transcript.NewBatch(at, ids(),
		transcript.UserText("q"),
		transcript.At(then.Add(1), transcript.WithApp(call, json.RawMessage(`1`))),
		transcript.WithApp(transcript.At(then, transcript.ToolResult("c", "r")), json.RawMessage(`2`)),
		transcript.At(time.Time{}, transcript.AssistantText("b")))
	require.NoError(t, err)
	times, apps := []time.Time{}, []string{}
	for _, e := range entries {
		require.Equal(t, parse(t, string(e.Line())).Time, e.Time)
		times, apps = append(times, e.Time), append(apps, string(e.App))
	}
	require.Equal(t, []time.Time{at, then, then, then, at}, times)
	require.Equal(t, []string{"", "1", "", "2", ""}, apps)
}
