package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// halves returns the JSON in which a half of a surrogate pair is escaped: doc
// itself, or a string in it that holds JSON.
func halves(doc []byte) string {
	if jsontext.HalfSurrogate(doc) >= 0 {
		return string(doc)
	}
	for _, v := range jsontext.Members(doc) {
		if found := halves(v); found != "" {
			return found
		}
	}
	for v := range jsontext.Elements(doc) {
		if found := halves(v); found != "" {
			return found
		}
	}
	if text, ok := jsontext.String(doc); ok && (jsontext.IsObject([]byte(text)) || jsontext.IsArray([]byte(text))) {
		return halves([]byte(text))
	}
	return ""
}

// No format sends half a character, wherever a call has it: in a value, in a
// name, deep in a list, in input that is not an object.
func TestHalfCharacters(t *testing.T) {
	require.NotEmpty(t, halves([]byte(`{"a":["{\"b\":\"\\ud99c\"}"]}`)))
	for _, input := range []string{
		`{"question":"\ud99c now?","options":["a","x\udc00\ud800"],"k\ud83d":1}`,
		`{"a":[{"b":[["\udfff\ud83d\ude00\ud83d"]]}]}`,
		`"\ud83d"`, `["\ud83d"]`,
	} {
		for _, target := range targets {
			body, _, err := target.request(transcript.Request{Model: target.model, Messages: []transcript.Message{
				transcript.UserText("go"),
				{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: "a", Name: "n", Input: json.RawMessage(input)}}},
				transcript.ToolResult("a", "half \ufffd"),
			}})
			require.NoError(t, err)
			require.Empty(t, halves(body), "%s: %s", target.name, input)
		}
	}
}
