package erase

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
)

// FuzzUnsigned: a line of any shape without what is signed becomes one that parses,
// of the same type, and nothing more is taken out of it.
func FuzzUnsigned(f *testing.F) {
	f.Add([]byte(`{"type":"assistant","id":"a","ext":{"x":1},"content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"yes","citations":[]},{"type":"server_tool_use","id":"s"}]}`))
	f.Add([]byte(`{"type":"tool_use","id":"b","tool_use_id":"t","name":"n","input":{},"ext":{"item":1}}`))
	f.Add([]byte(`{"type":"tool_result","id":"c","tool_use_id":"t","content":"r","tool_name":"n"}`))
	f.Add([]byte(`{"type":"user","id":"d","content":[{"type":"text","text":"q"},{"type":"new"}]}`))
	f.Add([]byte(`{"type":"new","id":"x","critical":true,"text":"words"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := transcript.ParseEntry(bytes.Clone(line))
		if err != nil {
			return
		}
		bare := unsigned(e)
		got, err := transcript.ParseEntry(bare.Line())
		require.NoError(t, err, "%s", bare.Line())
		require.Equal(t, e.Type(), got.Type())
		require.Equal(t, e.ID, got.ID)
		require.Equal(t, string(bare.Line()), string(unsigned(bare).Line()))
	})
}

// Answers lose all that a provider has signed or may refuse. A message of the user keeps its
// text as it is.
func TestUnsigned(t *testing.T) {
	t.Parallel()
	extra := transcript.Extra{"x": json.RawMessage("1")}
	raw := transcript.RawBlock{JSON: json.RawMessage(`{"type":"new"}`)}
	call := transcript.ToolCallBlock{ID: "c", Name: "n", Input: json.RawMessage(`{}`)}
	result := transcript.ToolResultBlock{CallID: "c", Content: []transcript.Block{transcript.TextBlock{Text: "r"}}}
	signedCall, signedResult := call, result
	signedCall.Extra, signedResult.Extra = extra, extra
	for _, tt := range []struct {
		block       transcript.Block
		answer, own transcript.Block // what stays of it in an answer, and in a message of the user
	}{
		{transcript.ThinkingBlock{Thinking: "hm", Signature: "s"}, nil, nil},
		{transcript.RedactedThinkingBlock{Data: "d"}, nil, nil},
		{raw, nil, raw},
		{transcript.TextBlock{Text: "t"}, transcript.TextBlock{Text: "t"}, transcript.TextBlock{Text: "t"}},
		{transcript.TextBlock{Text: "t", Extra: extra}, transcript.TextBlock{Text: "t"}, transcript.TextBlock{Text: "t", Extra: extra}},
		{call, call, call},
		{signedCall, call, call},
		{result, result, result},
		{signedResult, result, result},
	} {
		for role, want := range map[transcript.Role]transcript.Block{transcript.RoleAssistant: tt.answer, transcript.RoleUser: tt.own} {
			changed, stays := unsignedBlock(tt.block, role)
			require.Equal(t, want, stays, "%v: %#v", role, tt.block)
			require.Equal(t, !reflect.DeepEqual(tt.block, want), changed, "%v: %#v", role, tt.block)
		}
	}
}
