package transcript_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
)

type (
	extra = transcript.Extra
	raw   = json.RawMessage
)

// Blocks in the form in which this package writes them.
var blocks = []struct {
	name, json string
	want       transcript.Block // nil: a RawBlock
}{
	{"text", `{"type":"text","text":"a \"<&>\" 你好 \u2028"}`, transcript.TextBlock{Text: "a \"<&>\" 你好 \u2028"}},
	{"empty text", `{"type":"text","text":""}`, transcript.TextBlock{}},
	{
		"text with extras", `{"type":"text","text":"a","cache_control":{"type":"ephemeral"},"citations":null,"n":1.50}`,
		transcript.TextBlock{Text: "a", Extra: extra{"cache_control": raw(`{"type":"ephemeral"}`), "citations": raw(`null`), "n": raw(`1.50`)}},
	},
	{
		"image", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk=","x":[1]}}`,
		transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: "aGk=", Extra: extra{"x": raw(`[1]`)}}},
	},
	{"image url", `{"type":"image","source":{"type":"url","url":"http://x/"}}`, transcript.ImageBlock{Source: transcript.Source{Type: "url", URL: "http://x/"}}},
	{
		"document", `{"type":"document","source":{"type":"file","file_id":"f"},"title":"T","context":"C","citations":{"enabled":true}}`,
		transcript.DocumentBlock{Source: transcript.Source{Type: "file", FileID: "f"}, Title: "T", Context: "C", Extra: extra{"citations": raw(`{"enabled":true}`)}},
	},
	{
		"document with nulls", `{"type":"document","source":{"type":"text","data":"d"},"context":null,"title":null}`,
		transcript.DocumentBlock{Source: transcript.Source{Type: "text", Data: "d"}, Extra: extra{"context": raw(`null`), "title": raw(`null`)}},
	},
	{
		"call", `{"type":"tool_use","id":"t1","name":"f","input":{"b": 1.0,"a":"\u00e9é"},"ext":{"sig":"x"}}`,
		transcript.ToolCallBlock{ID: "t1", Name: "f", Input: raw(`{"b": 1.0,"a":"\u00e9é"}`), Extra: extra{"ext": raw(`{"sig":"x"}`)}},
	},
	{"call without input", `{"type":"tool_use","id":"t1","name":"f"}`, transcript.ToolCallBlock{ID: "t1", Name: "f"}},
	{"call with null", `{"type":"tool_use","id":"t1","name":"f","input":null}`, transcript.ToolCallBlock{ID: "t1", Name: "f", Input: raw(`null`)}},
	{"result", `{"type":"tool_result","tool_use_id":"t1","content":"out","is_error":true}`, transcript.ToolError("t1", "out").Content[0]},
	{"result without content", `{"type":"tool_result","tool_use_id":"t1"}`, transcript.ToolResult("t1", "").Content[0]},
	{
		"result with blocks", `{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"a"},{"type":"odd"}],"x":1}`,
		transcript.ToolResultBlock{
			CallID: "t1", Extra: extra{"x": raw(`1`)},
			Content: []transcript.Block{transcript.TextBlock{Text: "a"}, rawBlock(`{"type":"odd"}`)},
		},
	},
	{
		"result in a result", `{"type":"tool_result","tool_use_id":"t1","content":[{"type":"tool_result","tool_use_id":"t2"}]}`,
		transcript.ToolResultBlock{CallID: "t1", Content: []transcript.Block{rawBlock(`{"type":"tool_result","tool_use_id":"t2"}`)}},
	},
	{"thinking", `{"type":"thinking","thinking":"hm","signature":"sig"}`, transcript.ThinkingBlock{Thinking: "hm", Signature: "sig"}},
	{"redacted", `{"type":"redacted_thinking","data":"d"}`, transcript.RedactedThinkingBlock{Data: "d"}},
	{
		"context", `{"type":"context","uri":"viking://a","context_type":"skill","abstract":"A","score":0.5}`,
		transcript.ContextBlock{URI: "viking://a", Kind: "skill", Abstract: "A", Extra: extra{"score": raw(`0.5`)}},
	},
	{"unknown", `{"type":"server_tool_use","id":"s","input":{"q":"x"}}`, nil},
	{"known type, wrong member", `{"type":"text","text":5}`, nil},
	{"known type, missing member", `{"type":"image"}`, nil},
	{"spaces are kept", `{ "type" : "odd", "n" : 1e3 }`, nil},
}

// rawBlock is a RawBlock as a decoder makes it.
func rawBlock(text string) transcript.Block {
	b, err := transcript.UnmarshalBlock([]byte(text))
	if _, ok := b.(transcript.RawBlock); !ok {
		// Only inside a result is it a RawBlock.
		outer, err := transcript.UnmarshalBlock([]byte(`{"type":"tool_result","tool_use_id":"","content":[` + text + `]}`))
		if err != nil {
			panic(err)
		}
		return outer.(transcript.ToolResultBlock).Content[0]
	}
	if err != nil {
		panic(err)
	}
	return b
}

func TestBlockJSON(t *testing.T) {
	for _, tt := range blocks {
		t.Run(tt.name, func(t *testing.T) {
			b, err := transcript.UnmarshalBlock([]byte(tt.json))
			require.NoError(t, err)
			require.Equal(t, tt.json, string(transcript.MarshalBlock(b)))
			require.Equal(t, typeOf(tt.json), transcript.BlockType(b))
			if tt.want == nil {
				if r, ok := b.(transcript.RawBlock); !ok || string(r.JSON) != tt.json {
					t.Errorf("decoded %#v, want a RawBlock", b)
				}
				return
			}
			require.Equal(t, tt.want, b)
			require.Equal(t, tt.json, string(transcript.MarshalBlock(tt.want)))
		})
	}
}

func typeOf(text string) string {
	var v struct{ Type string }
	_ = json.Unmarshal([]byte(text), &v) // the caller compares the blocks
	return v.Type
}

func TestBlockErrors(t *testing.T) {
	for _, text := range []string{``, `null`, `5`, `"text"`, `[]`, `{}`, `{"type":5}`, `{"type":""}`, `{"type":"text"`, "{\"type\":\"\xff\"}"} {
		if b, err := transcript.UnmarshalBlock([]byte(text)); err == nil {
			t.Errorf("UnmarshalBlock(%s) = %#v, want an error", text, b)
		}
	}
}

// The last of equal names counts, everywhere.
func TestBlockEqualNames(t *testing.T) {
	for in, want := range map[string]string{
		`{"type":"x","text":"a","type":"text","text":"b"}`:                                 `{"type":"text","text":"b"}`,
		`{"type":"image","source":{"type":"url","url":"u"},"source":{"type":"f"}}`:         `{"type":"image","source":{"type":"f"}}`,
		`{"type":"tool_result","tool_use_id":"","is_error":true,"is_error":false,"x":1}`:   `{"type":"tool_result","tool_use_id":"","x":1}`,
		`{"type":"tool_result","tool_use_id":"a","content":"x","content":[],"is_error":0}`: `{"type":"tool_result","tool_use_id":"a","content":"x","content":[],"is_error":0}`,
	} {
		b, err := transcript.UnmarshalBlock([]byte(in))
		require.NoError(t, err)
		if got := string(transcript.MarshalBlock(b)); got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", in, got, want)
		}
	}
}

func TestExtraType(t *testing.T) {
	b := transcript.TextBlock{Text: "a", Extra: extra{"type": raw(`"tool_use"`), "x": raw(`{"a":`)}}
	require.Equal(t, `{"type":"text","text":"a","x":"{\"a\":"}`, string(transcript.MarshalBlock(b)))
}

func TestDeeplyNestedBlocks(t *testing.T) {
	const n = 4000
	text := strings.Repeat(`{"type":"tool_result","tool_use_id":"t","content":[`, n) + strings.Repeat(`]}`, n)
	b, err := transcript.UnmarshalBlock([]byte(text))
	require.NoError(t, err)
	if got := string(transcript.MarshalBlock(b)); got != text {
		t.Errorf("%d bytes became %d", len(text), len(got))
	}
}

func TestMessageJSON(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"role":"user","content":"hi"}`, ""},
		{`{"role":"user","content":""}`, ""},
		{`{"role":"user","content":[{"type":"text","text":"hi"}]}`, ""},
		{`{"role":"assistant","content":[]}`, ""},
		{`{"content":null,"role":"assistant","id":"m1"}`, `{"role":"assistant","content":[]}`},
		{`{"role":"user","content":[` + blocks[8].json + `,` + blocks[3].json + `]}`, ""},
	} {
		if tt.want == "" {
			tt.want = tt.in
		}
		var m transcript.Message
		if err := m.UnmarshalJSON([]byte(tt.in)); err != nil {
			t.Errorf("%s: %v", tt.in, err)
			continue
		}
		if got, err := m.MarshalJSON(); err != nil || string(got) != tt.want {
			t.Errorf("%s\nbecame %s, %v", tt.in, got, err)
		}
		if plain := strings.Contains(tt.in, `"content":"`); m.Plain() != plain {
			t.Errorf("%s: Plain = %v, want %v", tt.in, m.Plain(), plain)
		}
	}
	for _, in := range []string{`[]`, `{"role":5}`, `{"role":"user","content":5}`, `{"role":"user","content":["a"]}`, `{"role":"user","content":[{"text":"a"}]}`, `{`} {
		if err := new(transcript.Message).UnmarshalJSON([]byte(in)); err == nil {
			t.Errorf("%s: no error", in)
		}
	}
}

func TestUsageJSON(t *testing.T) {
	for _, tt := range []struct {
		in, out string
		want    transcript.Usage
	}{
		{`{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4}`, "", transcript.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4}},
		{`{"input_tokens":1.0,"output_tokens":2e0}`, `{"input_tokens":1,"output_tokens":2}`, transcript.Usage{Input: 1, Output: 2}},
		{
			`{"input_tokens":1,"output_tokens":0,"cache_read_input_tokens":null,"service_tier":"standard"}`, "",
			transcript.Usage{Input: 1, Extra: extra{"service_tier": raw(`"standard"`), "cache_read_input_tokens": raw(`null`)}},
		},
		{`{"input_tokens":1e300,"output_tokens":1}`, `{"output_tokens":1,"input_tokens":1e300}`, transcript.Usage{Output: 1, Extra: extra{"input_tokens": raw(`1e300`)}}},
		{`{"input_tokens":"a","input_tokens":5,"output_tokens":1.5,"output_tokens":1}`, `{"input_tokens":5,"output_tokens":1}`, transcript.Usage{Input: 5, Output: 1, Extra: extra{}}},
		{`{}`, `{"input_tokens":0,"output_tokens":0}`, transcript.Usage{}},
	} {
		if tt.out == "" {
			tt.out = tt.in
		}
		var u transcript.Usage
		if err := u.UnmarshalJSON([]byte(tt.in)); err != nil || !reflect.DeepEqual(u, tt.want) {
			t.Errorf("%s: %+v, %v, want %+v", tt.in, u, err, tt.want)
		}
		got, err := u.MarshalJSON()
		if err != nil || string(got) != tt.out {
			t.Errorf("%s\nbecame %s, %v\nwant   %s", tt.in, got, err, tt.out)
		}
	}
	u := transcript.Usage{Input: 1, CacheRead: 10, CacheWrite: 100, Output: 1000}
	if u.Prompt() != 111 || u.IsZero() || !(transcript.Usage{}).IsZero() {
		t.Errorf("Prompt = %d, IsZero = %v", u.Prompt(), u.IsZero())
	}
}

func TestText(t *testing.T) {
	m := transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
		transcript.TextBlock{Text: "a"}, transcript.ToolCallBlock{ID: "1"}, transcript.TextBlock{}, transcript.TextBlock{Text: "b"}, transcript.ToolCallBlock{ID: "2"},
	}}
	require.Equal(t, "ab", m.Text())
	m.Origins = []transcript.Origin{{Entry: "1", Batch: 1}, {}, {}, {Entry: "2", Batch: 1}, {}}
	require.Equal(t, "ab", m.Text())
	m.Origins[3].Batch = 2
	require.Equal(t, "a\n\nb", m.Text())
	m.Origins[0].Answer = &transcript.Answer{}
	if m.Origins[3].Answer = m.Origins[0].Answer; m.Text() != "ab" {
		t.Errorf("Text of an answer in two appends = %q", m.Text())
	}
	user := transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.TextBlock{Text: "delete a.txt"}, transcript.TextBlock{Text: "not b.txt"}}}
	require.Equal(t, "delete a.txt\n\nnot b.txt", user.Text())
	calls := m.ToolCalls()
	require.Len(t, calls, 2)
	require.Equal(t, "1", calls[0].ID)
	require.Equal(t, "2", calls[1].ID)
	r := transcript.ToolResultBlock{}.WithContent(transcript.TextBlock{Text: "a"}, transcript.TextBlock{Text: "b"})
	require.Equal(t, "a\nb", r.Text())
}
