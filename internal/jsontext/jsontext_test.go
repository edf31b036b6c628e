package jsontext_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/convolog/convolog/internal/jsontext"
)

func TestMembers(t *testing.T) {
	obj := []byte(` { "a" : 1.50 , "b\n":[1,{"x":"}"}] ,"c":"q\"}","a":null } `)
	var got []string
	for name, value := range jsontext.Members(obj) {
		got = append(got, name+"="+string(value))
	}
	want := []string{"a=1.50", "b\n=[1,{\"x\":\"}\"}]", `c="q\"}"`, "a=null"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if v, ok := jsontext.Member(obj, "a"); !ok || string(v) != "null" {
		t.Errorf("a = %q, %v", v, ok)
	}
}

func TestAppendString(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"plain", `"plain"`},
		{"a\"\\\n\r\t\x00\x1f", `"a\"\\\n\r\t\u0000\u001f"`},
		{"中文 <&>", `"中文 <&>"`},
		{"a\u2028b\u2029", `"a\u2028b\u2029"`},
		{"bad\xff\xfe", "\"bad\uFFFD\uFFFD\""},
		{"", `""`},
	} {
		if got := string(jsontext.AppendString(nil, tt.in)); got != tt.want {
			t.Errorf("AppendString(%q) = %s, want %s", tt.in, got, tt.want)
		}
	}
}

func TestAppendValue(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"{ \"a\" : [ 1 ,\n2.0 ] , \"s\":\" x \" }", `{"a":[1,2.0],"s":" x "}`},
		{`{"path": "a.go", "n": 1.50, "e": "\u00e9é" }`, `{"path": "a.go", "n": 1.50, "e": "\u00e9é" }`},
		{"{\"a\" : \"x\u2028y\u2029—\"}", `{"a" : "x\u2028y\u2029—"}`},
		{" 7\n", "7"},
		{`{"path":"a`, `"{\"path\":\"a"`},
		{"", "null"},
		{"\"\xff\"", "\"\\\"\uFFFD\\\"\""},
	} {
		if got := string(jsontext.AppendValue(nil, []byte(tt.in))); got != tt.want {
			t.Errorf("AppendValue(%q) = %s, want %s", tt.in, got, tt.want)
		}
	}
}

// Walking an object and writing it again keeps its meaning to encoding/json.
func FuzzWalk(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":[{"c":"}"}],"d":"\ud800"}`))
	f.Add([]byte(`{"a"`))
	f.Add([]byte(`{"":{},"x":[[],[1]],"y":-1e5}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var names []string
		values := map[string]json.RawMessage{}
		o := jsontext.AppendObject(nil)
		for name, value := range jsontext.Members(data) {
			names = append(names, name)
			values[name] = value
			o.Value(name, value)
		}
		for range jsontext.Elements(data) {
		}
		out := o.End()
		if !json.Valid(out) || bytes.IndexByte(out, '\n') >= 0 {
			t.Fatalf("wrote no JSON of one line: %q", out)
		}
		if !jsontext.Valid(data) || !jsontext.IsObject(data) {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(data, &want); err != nil {
			t.Skip() // nested too deeply for this target type
		}
		if len(want) != len(values) {
			t.Fatalf("%d members %q, encoding/json sees %d", len(values), names, len(want))
		}
		for name, value := range want {
			if got, want := jsontext.Trim(values[name]), jsontext.Trim(value); !bytes.Equal(got, want) {
				t.Fatalf("%s: got %q, want %q", name, got, want)
			}
		}
	})
}

func FuzzAppendString(f *testing.F) {
	f.Add("a\u2028\xff\"")
	f.Fuzz(func(t *testing.T, s string) {
		out := jsontext.AppendString(nil, s)
		var got string
		if err := json.Unmarshal(out, &got); err != nil || got != strings.ToValidUTF8(s, "\uFFFD") && strings.ToValidUTF8(got, "?") != got {
			t.Fatalf("AppendString(%q) = %s: %q, %v", s, out, got, err)
		}
		if back, ok := jsontext.String(out); !ok || back != got {
			t.Fatalf("String(%s) = %q, want %q", out, back, got)
		}
	})
}

// Decoded values equal encoding/json's.
func FuzzValues(f *testing.F) {
	for _, s := range []string{
		`"a\n\"\\\/\b\f\r\t"`, `"\u00e9\ud83d\ude00\ud83d\ud83dx\udc00\ud83d\n"`, `"\u12"`, `"\x"`, `"\"`, `12`, `012`, `-0`, `1.2e1`, `1.5`,
		`9223372036854775807`, `9223372036854775808`, `-9223372036854775808`, `1e300`, `null`, `""`, `"`,
		`"type"`, `[type]`, `"type`, `"tool_us\u0065"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, ok := jsontext.String(data)
		if word, isWord := jsontext.Word(data); word != s || isWord != ok {
			t.Fatalf("Word(%s) = %q, %v, String has %q, %v", data, word, isWord, s, ok)
		}
		n, isInt := jsontext.Int(data)
		if !jsontext.Valid(data) || !bytes.Equal(data, jsontext.Trim(data)) {
			return // no panic
		}
		var want string
		err := json.Unmarshal(data, &want)
		if wantOK := err == nil && jsontext.IsString(data); ok != wantOK || ok && s != want {
			t.Fatalf("String(%s) = %q, %v, want %q, %v", data, s, ok, want, wantOK)
		}
		var number int64
		if err := json.Unmarshal(data, &number); err == nil && !jsontext.IsNull(data) && (!isInt || n != number) {
			t.Fatalf("Int(%s) = %d, %v, want %d", data, n, isInt, number)
		}
	})
}

func TestInt(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "12": 12, "-12": -12, "12.0": 12, "1.2e1": 12, "9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63} {
		if n, ok := jsontext.Int([]byte(in)); !ok || n != want {
			t.Errorf("Int(%s) = %d, %v, want %d", in, n, ok, want)
		}
	}
	for _, in := range []string{"", "null", "1.5", "9223372036854775808", "1e300", `"1"`, "true", "012", "1 2"} {
		if n, ok := jsontext.Int([]byte(in)); ok {
			t.Errorf("Int(%s) = %d", in, n)
		}
	}
}

func TestSurrogates(t *testing.T) {
	tests := []struct{ doc, want string }{
		{`{"a":"x"}`, ""},
		{`"\ud83d\ude00"`, ""},
		{`"\\ud83d"`, ""},
		{`"\ud83d"`, `"\ufffd"`},
		{`"\uDE00 \n"`, `"\ufffd \n"`},
		{`"\ud83d\ud83d\ude00\udfff"`, `"\ufffd\ud83d\ude00\ufffd"`},
		{`"\ud83d\n\ude00"`, `"\ufffd\n\ufffd"`},
	}
	for _, tt := range tests {
		doc := []byte(tt.doc)
		mended := jsontext.MendSurrogates(doc)
		if want := cmp.Or(tt.want, tt.doc); string(doc) != want || mended != (tt.want != "") || jsontext.HalfSurrogate(doc) >= 0 {
			t.Errorf("%s became %s, %v, want %s", tt.doc, doc, mended, want)
		}
	}
}
