package transcript_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/checksum"
	"github.com/convolog/convolog/transcript"
)

// Any bytes: both directions find the same, every byte is found once, and
// entries parse again.
func FuzzScan(f *testing.F) {
	var file strings.Builder
	for _, l := range lines {
		f.Add([]byte(l.line+"\n"), uint16(0), true)
		file.WriteString(l.line + "\n")
	}
	for _, line := range sealed(f) {
		f.Add(append(line, '\n'), uint16(0), true)
		f.Add(bytes.Replace(line, []byte("a"), []byte("b"), 1), uint16(0), true)
	}
	all := file.String()
	f.Add([]byte(all), uint16(300), false)
	f.Add([]byte(all[:800]+all), uint16(0), false)
	f.Add([]byte(lineB[:50]+lineA+"\x00\x00\r\n\xef\xbb\xbf"+lineB+"{\"a\xe4\n\n5\n[]{}\n"), uint16(0), true)
	f.Fuzz(func(t *testing.T, data []byte, maxLine uint16, final bool) {
		text := string(data)
		opts := &transcript.ScanOptions{MaxLine: int(maxLine), Final: final}
		recs := collect(t, text, opts)
		if !final {
			text = text[:strings.LastIndexByte(text, '\n')+1]
		}
		checkCovered(t, text, recs)
		for i, r := range recs {
			if !r.HasEntry() {
				continue
			}
			require.Equal(t, r.Damage == nil, checksum.Intact(r.Entry.Line()))
			again, err := transcript.ParseEntry(r.Entry.Line())
			if err != nil || !reflect.DeepEqual(again, r.Entry) {
				t.Fatalf("%q is read again as %+v, %v", r.Entry.Line(), again, err)
			}
			opts := *opts
			opts.From = r.End
			rest := recs[i+1:]
			if len(rest) > 0 && rest[0].End == r.End {
				continue // a scan cannot begin inside a line
			}
			if got := collect(t, string(data), &opts); !slices.EqualFunc(got, rest, equalRecords) {
				t.Fatalf("from %d: %s, want %s", r.End, summary(got), summary(rest))
			}
			if i > 20 {
				break
			}
		}
	})
}

func equalRecords(a, b transcript.Record) bool { return reflect.DeepEqual(a, b) }

// A transcript that ends anywhere has lost no line that was complete, and a
// record written after it is found.
func FuzzPrefix(f *testing.F) {
	f.Add("hello", "你好", `{"path": "a.go"}`, "out\n", uint(300))
	f.Add(`{"type":"user"}`, "\u2028\xff", `{"type":"user","id":"0","ts":"2026-11-20T08:00:00Z"}`, `{"`, uint(700))
	f.Add("", "}", `[{},{"type":"a`, `"`, uint(9))
	f.Fuzz(func(t *testing.T, question, answerText, input, output string, cut uint) {
		newID := ids()
		var file []byte
		var want []transcript.Record
		for _, items := range [][]transcript.Item{
			{transcript.UserText(question)},
			{answer(transcript.TextBlock{Text: answerText}, call("t1", "f", input), call("t2", question, output))},
			{transcript.ToolResult("t1", output), transcript.ToolError("t2", input)},
			{transcript.Custom{Name: question, Data: raw(input)}, transcript.Compaction{Summary: answerText}},
		} {
			newBatch := transcript.NewBatch
			if cut%2 == 0 {
				newBatch = transcript.NewBatchWithChecksums
			}
			entries, err := newBatch(at, newID, items...)
			require.NoError(t, err)
			for _, e := range entries {
				line := e.Line()
				if bytes.ContainsAny(line, "\n\r\u2028\u2029") || !utf8.Valid(line) {
					t.Fatalf("line %q", line)
				}
				parsed := parse(t, string(line))
				start := int64(len(file))
				file = append(append(file, line...), '\n')
				want = append(want, transcript.Record{Offset: start, End: int64(len(file)), Entry: parsed})
			}
		}
		n := int64(cut % uint(len(file)+1))
		prefix := string(file[:n])
		for len(want) > 0 && want[len(want)-1].End > n {
			want = want[:len(want)-1]
		}
		if got := collect(t, prefix, nil); !slices.EqualFunc(got, want, equalRecords) {
			t.Fatalf("found %s, want %s in\n%s", summary(got), summary(want), prefix)
		}

		got := collect(t, prefix, &transcript.ScanOptions{Final: true})
		checkCovered(t, prefix, got)
		if len(got) < len(want) || !slices.EqualFunc(got[:len(want)], want, equalRecords) {
			t.Fatalf("with Final found %s, want %s in\n%s", summary(got), summary(want), prefix)
		}

		const next = `{"type":"user","id":"f","ts":"2026-11-21T00:00:00Z","content":"{"}`
		data := prefix + next + "\n"
		got = collect(t, data, nil)
		checkCovered(t, data, got)
		if len(got) == 0 || string(got[len(got)-1].Entry.Line()) != next {
			t.Fatalf("found %s, want f at the end of\n%s", summary(got), data)
		}
	})
}

// No changed byte of a line with a checksum goes unnoticed, and the next line
// is found.
func FuzzSealed(f *testing.F) {
	f.Add("hello", `{"path": "a.go"}`, uint(40), byte('x'))
	f.Add(`,"crc":"00000000"}`, `{"crc":"00000000"}`, uint(90), byte('"'))
	f.Add(`{"type":"user","id":"z","ts":"2027-01-01T00:00:00Z"}`, `[{"type":"user","id":"z","ts":"2027-01-01T00:00:00Z","content":"a"}]`, uint(7), byte('\n'))
	f.Fuzz(func(t *testing.T, text, input string, place uint, b byte) {
		entries, err := transcript.NewBatchWithChecksums(at, ids(), answer(transcript.TextBlock{Text: text}, call("t1", "f", input)), transcript.Custom{Name: text, Data: raw(input)})
		require.NoError(t, err)
		for _, e := range entries {
			line := slices.Clone(e.Line())
			i := int(place % uint(len(line)))
			if line[i] == b {
				continue
			}
			line[i] = b
			const next = `{"type":"user","id":"zz","ts":"2028-11-21T00:00:00Z","content":"a"}`
			recs := collect(t, string(line)+"\n"+next+"\n", nil)
			if !slices.ContainsFunc(recs, func(r transcript.Record) bool { return r.Damage != nil }) {
				t.Fatalf("byte %d of %s is now %#x: %s", i, e.Line(), b, summary(recs))
			}
			if last := recs[len(recs)-1]; last.Damage != nil || string(last.Entry.Line()) != next {
				t.Fatalf("found %s behind %s", summary(recs), line)
			}
		}
	})
}

// Any bytes: one pass over a line finds the same as encoding/json.
func FuzzParseEntry(f *testing.F) {
	for _, l := range lines {
		f.Add([]byte(l.line))
		f.Add([]byte(l.line[:len(l.line)/2]))
	}
	for _, line := range []string{
		` { "content" : "a\u00e9\ud800\n" , "ts":"2026-11-20t08:00:00z", "id" : "" , "type" : "us\u0065r" } `,
		`{"type":"user","ts":"2026-11-20T08:00:00,5+02:00","ts":null,"content":[],"content":"b","type":"assistant"}`,
		`{"type":"user","content":1,"x":tru}`, `{"id":1}`, `{"type":"","id":"a"}`, `{"type":"x"}{}`, `[1]`, `7`, "\x00\x00", "{\"type\":\"\xff\"}",
		`{"type":"x","v":` + strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999) + `}`,
		`{"type":"x","v":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := transcript.ParseEntry(line)
		damage, _ := errors.AsType[*transcript.DamageError](err)
		isObject := utf8.Valid(line) && json.Valid(line) && bytes.HasPrefix(bytes.Trim(line, " \t\r\n"), []byte("{"))
		if got := err == nil || damage.Kind == transcript.DamageMalformed; got != isObject {
			t.Fatalf("%.200q: error %v, but a valid object: %v", line, err, isObject)
		}
		if err != nil {
			return
		}
		var members map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(line, &members))
		same := func(name, got string) {
			var want string
			if raw, ok := members[name]; ok && json.Unmarshal(raw, &want) != nil || got != want {
				t.Fatalf("%.200q: %s is %q, want %q", line, name, got, want)
			}
		}
		same("type", e.Type())
		same("id", e.ID)
		same("idem", e.Idem)
		same("idemHash", e.IdemHash)
		var ts string
		_ = json.Unmarshal(members["ts"], &ts)
		if want, err := time.Parse(time.RFC3339Nano, ts); err == nil && e.Time != want.UTC() {
			t.Fatalf("%.200q: the time is %v, want %v", line, e.Time, want.UTC())
		}
		if b, ok := e.Body.(transcript.MessageLine); ok {
			if b.Kind == transcript.TypeAssistant {
				same("api", b.API)
				same("model", b.Model)
				same("request_id", b.RequestID)
			}
			if b.Message().Plain() {
				same("content", b.Message().Text())
			}
		}
	})
}

// Any bytes: a line read as a whole gives the same as a decoder that is called
// with one record after the other.
func FuzzScanRecords(f *testing.F) {
	for _, l := range lines {
		f.Add([]byte(l.line + "\n" + lineA + "\r\n \xef\xbb\xbf" + l.line))
		f.Add([]byte(l.line + lineB + "\x00\n"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		opts := transcript.ScanOptions{Final: true}
		whole := collect(t, string(data), &opts)
		opts.Decode = func(line []byte, _ int64) (transcript.Entry, error) { return transcript.ParseEntry(line) }
		single := collect(t, string(data), &opts)
		damaged := func(r transcript.Record) bool { return r.Damage != nil }
		if slices.ContainsFunc(whole, damaged) && slices.ContainsFunc(single, damaged) {
			return // the format decides about damage
		}
		if !slices.EqualFunc(whole, single, equalRecords) {
			t.Fatalf("%q: found %s, want %s", data, summary(whole), summary(single))
		}
	})
}

// Any JSON: an entry equals the one read from its line.
func FuzzEntry(f *testing.F) {
	for _, l := range lines {
		f.Add([]byte(l.line))
	}
	f.Add([]byte(`{"type":"tool_use","type":"user","content":[{"type":"text"}],"content":null,"usage":{"input_tokens":"a"}}`))
	f.Add([]byte(`{"type":"tool_result","extra":{"extra":{"id":1}},"ext":[ 1 ],"content":[{"type":"image","source":{}}]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := transcript.ParseEntry(line)
		if err != nil {
			return
		}
		require.Equal(t, string(bytes.Trim(line, " \t\r\n")), string(e.Line()))
		made := remade(e).Line()
		again, err := transcript.ParseEntry(made)
		require.NoError(t, err, "%s\nmade of %s", made, line)
		if !reflect.DeepEqual(plainValues(t, again.Body), plainValues(t, e.Body)) ||
			again.ID != e.ID || again.Batch != e.Batch || again.Part != e.Part || again.Idem != e.Idem || again.IdemHash != e.IdemHash {
			t.Fatalf("%s\nmade of %s\nsays %#v\nwant %#v", made, line, again.Body, e.Body)
		}
		third := remade(again).Line()
		require.Equal(t, string(made), string(third))
		if bytes.ContainsAny(made, "\n\r\u2028\u2029") {
			t.Fatalf("line %q", made)
		}
	})
}

// plainValues returns the body with the JSON that it holds in one spelling.
func plainValues(t *testing.T, b transcript.Body) transcript.Body {
	same := func(r raw) raw {
		if r == nil {
			return nil
		}
		var v any
		d := json.NewDecoder(bytes.NewReader(r))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Skip("nested too deeply")
		}
		out, err := json.Marshal(v)
		require.NoError(t, err)
		return out
	}
	switch b := b.(type) {
	case transcript.MessageLine:
		b.Ext = same(b.Ext)
		if len(b.Content) == 1 {
			if c, ok := b.Content[0].(transcript.ToolCallBlock); ok && b.Kind == transcript.TypeToolUse {
				c.Input = same(c.Input)
				b.Content = []transcript.Block{c}
			}
		}
		if len(b.Content) == 0 {
			b.Content = nil
		}
		// FuzzBlock tests the blocks.
		var content []transcript.Block
		for _, c := range b.Content {
			if again, err := transcript.UnmarshalBlock(transcript.MarshalBlock(c)); err == nil {
				c = again
			}
			content = append(content, c)
		}
		b.Content = content
		if u := b.Usage; u.Extra != nil && len(u.Extra) == 0 {
			b.Usage.Extra = nil
		}
		return b
	case transcript.Used:
		if b.Skill == nil {
			return b
		}
		skill := *b.Skill
		if len(skill.Extra) == 0 {
			skill.Extra = nil
		}
		b.Skill = &skill
		return b
	case transcript.Custom:
		b.Data = same(b.Data)
		return b
	}
	return b
}

// Any JSON: a block keeps its JSON, without empty members.
func FuzzBlock(f *testing.F) {
	for _, b := range blocks {
		f.Add([]byte(b.json))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := transcript.UnmarshalBlock(data)
		if err != nil {
			return
		}
		made := transcript.MarshalBlock(b)
		if bytes.ContainsAny(made, "\n\r\u2028\u2029") {
			t.Fatalf("%q", made)
		}
		var want, got any
		if json.Unmarshal(data, &want) != nil || json.Unmarshal(made, &got) != nil {
			t.Skip("nested too deeply or a number too large")
		}
		if want, got = withoutNothing(want), withoutNothing(got); !reflect.DeepEqual(want, got) {
			t.Fatalf("%s\nbecame %s", data, made)
		}
		again, err := transcript.UnmarshalBlock(made)
		require.NoError(t, err)
		require.Equal(t, string(made), string(transcript.MarshalBlock(again)))
	})
}

// withoutNothing drops members equal to absent ones: false, null, "" and [].
func withoutNothing(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, m := range v {
			switch m := withoutNothing(m).(type) {
			case nil:
				delete(v, name)
			case bool:
				if !m {
					delete(v, name)
				}
			case string:
				if m == "" {
					delete(v, name)
				}
			case []any:
				if len(m) == 0 {
					delete(v, name)
				}
			}
		}
	case []any:
		for _, m := range v {
			withoutNothing(m)
		}
	}
	return v
}
