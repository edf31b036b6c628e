package transcript_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
)

// The original line of an imported entry is kept byte for byte, and no model
// sees it.
func TestSource(t *testing.T) {
	call := transcript.ToolCallBlock{ID: "c", Name: "f", Input: json.RawMessage(`{}`), Extra: transcript.Extra{"src": json.RawMessage(`"the block's own"`)}}
	result := transcript.ToolResultBlock{CallID: "c", Extra: transcript.Extra{"src": json.RawMessage(`1`)}}
	for _, body := range []transcript.Body{
		transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser}.WithContent(transcript.TextBlock{Text: "hi"}),
		transcript.MessageLine{Kind: transcript.TypeToolUse, Role: transcript.RoleAssistant, Content: []transcript.Block{call}},
		transcript.MessageLine{Kind: transcript.TypeToolResult, Role: transcript.RoleUser, Content: []transcript.Block{result}},
		transcript.Header{Version: 1, Key: "main:cli:user"},
		transcript.Custom{Name: "x"},
	} {
		for _, source := range []string{`{"type": "user",  "ts":1, "ts":2}`, "", "\u2028 \u00e9 \\ \" \x00"} {
			e := transcript.Entry{ID: "e", Body: body}
			if _, ok := e.Source(); ok {
				t.Errorf("%s: a source before there is one", transcript.Entry{Body: body}.Type())
			}
			read, err := transcript.ParseEntry(e.WithSource([]byte(source)).Line())
			require.NoError(t, err)
			if got, ok := read.Source(); !ok || string(got) != source {
				t.Errorf("%s: source %q, want %q", transcript.Entry{Body: body}.Type(), got, source)
			}
			plain, err := transcript.ParseEntry(e.Line())
			require.NoError(t, err)
			bare := transcript.Entry{ID: "e", Body: read.Body}
			if string(bare.Line()) != string(plain.Line()) {
				t.Errorf("body of %s is %s", read.Line(), bare.Line())
			}
		}
	}
}
