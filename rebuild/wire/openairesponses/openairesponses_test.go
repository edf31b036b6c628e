package openairesponses_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

// The phase of an answer goes back, with or without the rest of its item.
func TestPhase(t *testing.T) {
	resp, err := openairesponses.Format{}.Response([]byte(`{"model":"gpt-x","output":[{"type":"reasoning","id":"rs_1","summary":[]},` +
		`{"type":"message","id":"msg_1","role":"assistant","status":"completed","phase":"commentary","content":[{"type":"output_text","text":"a","annotations":[]}]}]}`))
	require.NoError(t, err)
	own := transcript.Origin{API: "openai-responses", Model: "gpt-x", Entry: "a", Batch: 1}
	resp.Message.Origins = []transcript.Origin{own, own}
	sent, _, err := openairesponses.Format{}.Request(transcript.Request{Model: "gpt-x", Messages: []transcript.Message{
		transcript.UserText("go"), resp.Message, transcript.UserText("on"),
	}})
	require.NoError(t, err)
	require.Contains(t, string(sent), `{"type":"message","phase":"commentary","role":"assistant","content":"a"}`)
	require.Empty(t, wiretest.Check(wiretest.OpenAIResponses{}, sent))
}
