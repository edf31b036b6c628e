package jsontext_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/jsontext"
)

// documents are valid and invalid ones, all of them short.
var documents = []string{
	`{}`, ` { } `, `{"a":1}`, "\t{ \"a\" : [ 1 , { } , [ ] ] ,\r\n\"b\":null}\n", `{"a":{"b":[true,false,{"c":"}]"}]},"a":"\u00e9\\\""}`,
	`{"":""}`, `{"a":"é\u2028中文"}`, "{\"a\":\"\xe4\xb8\"}", "{\"\xff\":1}", "\xef\xbb\xbf{}", "{\"a\":\"\x00\"}", "{\"a\":\"\n\"}", "{}\x00",
	`{"a":1}}`, `{"a":1}{}`, `{"a":1,}`, `{,"a":1}`, `{"a":1 "b":2}`, `{"a" 1}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1`, `{"a":`, `{"a`, `{`, `{]`,
	`[]`, `[1,]`, `[,1]`, `[1 2]`, `[1`, `[}`, `[[],[[]]]`, `]`, ``, ` `,
	`"a"`, `"`, `"\x"`, `"\u12g4"`, `"\u12"`, `"\`, `"\ud800\udc00\ud800"`, `"a""b"`,
	`0`, `-0`, `01`, `-`, `1.`, `.5`, `1.5e`, `1.5E+`, `1.5e-07`, `+1`, `1e999`, `12a`, `0x1`, `1 2`, `-a`,
	`true`, `tru`, `truex`, `false`, `null`, `nul`, `nullnull`, `NaN`,
}

// Valid agrees with encoding/json and unicode/utf8 together, and a Walk with
// Valid and Members.
func FuzzValid(f *testing.F) {
	for _, doc := range documents {
		f.Add([]byte(doc))
	}
	for _, depth := range []int{63, 64, 65, 9_999, 10_000, 10_001} {
		f.Add([]byte(strings.Repeat(`[`, depth) + strings.Repeat(`]`, depth)))
		f.Add([]byte(strings.Repeat(`{"a":`, depth-1) + `{}` + strings.Repeat(`}`, depth-1)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		valid := utf8.Valid(data) && json.Valid(data)
		if got := jsontext.Valid(data); got != valid {
			t.Fatalf("Valid(%.200q) = %v, want %v", data, got, valid)
		}
		type member struct {
			name  string
			value string
		}
		var got, want []member
		w := jsontext.NewWalk(data)
		for w.Next() {
			if !jsontext.Valid(w.Value) {
				t.Fatalf("Walk(%.200q): %q = %.200q", data, w.Name, w.Value)
			}
			got = append(got, member{w.Name, string(w.Value)})
		}
		for name, value := range jsontext.Members(data) {
			want = append(want, member{name, string(value)})
		}
		if w.Next() {
			t.Fatalf("Walk(%.200q) goes on after its end", data)
		}
		isObject := valid && jsontext.IsObject(data)
		if w.Valid() != isObject || isObject && !slices.Equal(got, want) {
			t.Fatalf("Walk(%.200q): %.200q, valid: %v, want %.200q, %v", data, got, w.Valid(), want, isObject)
		}
	})
}

// Strings are read eight bytes at a time: every byte counts at every place.
func TestValidString(t *testing.T) {
	for size := range 20 {
		for at := range size {
			for c := range 256 {
				doc := []byte(`"` + strings.Repeat("~", size) + `"`)
				doc[1+at] = byte(c)
				if got, want := jsontext.Valid(doc), utf8.Valid(doc) && json.Valid(doc); got != want {
					t.Fatalf("Valid(%q) = %v, want %v", doc, got, want)
				}
			}
		}
	}
}
