package bedrock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/transcript"
)

func TestPath(t *testing.T) {
	require.Equal(t, "/model/arn:aws:x%2Fy/converse-stream", (bedrock.Format{Stream: true}).Path("arn:aws:x/y"))
}

// Citations and the provider's own tools go back to the model of Converse that made
// them, whole and streamed.
func TestOwnBlocks(t *testing.T) {
	const call = `{"toolUse":{"toolUseId":"t1","name":"nova_grounding","type":"server_tool_use","input":{"q":"x"}}}`
	const result = `{"toolResult":{"toolUseId":"t1","type":"nova_grounding_result","status":"success","content":[{"json":{"a":1}}]}}`
	const cited = `{"citationsContent":{"content":[{"text":"So."}],"citations":[{"location":{"web":{"url":"https://x.example"}}}]}}`
	b := bedrock.Format{Model: "amazon.nova"}
	resp, err := b.Response([]byte(`{"output":{"message":{"role":"assistant","content":[` + call + `,` + result + `,` + cited + `]}},"stopReason":"end_turn"}`))
	require.NoError(t, err)
	s := b.NewStream()
	for _, e := range [][2]string{
		{"messageStart", `{"role":"assistant"}`},
		{"contentBlockStart", `{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"t1","name":"nova_grounding","type":"server_tool_use"}}}`},
		{"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{\"q\":"}}}`},
		{"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"toolUse":{"input":"\"x\"}"}}}`},
		{"contentBlockStop", `{"contentBlockIndex":0}`},
		{"contentBlockStart", `{"contentBlockIndex":1,"start":{"toolResult":{"toolUseId":"t1","type":"nova_grounding_result","status":"success"}}}`},
		{"contentBlockDelta", `{"contentBlockIndex":1,"delta":{"toolResult":[{"json":{"a":1}}]}}`},
		{"contentBlockStop", `{"contentBlockIndex":1}`},
		{"contentBlockDelta", `{"contentBlockIndex":2,"delta":{"text":"So."}}`},
		{"contentBlockDelta", `{"contentBlockIndex":2,"delta":{"citation":{"location":{"web":{"url":"https://x.example"}}}}}`},
		{"contentBlockStop", `{"contentBlockIndex":2}`},
		{"messageStop", `{"stopReason":"end_turn"}`},
	} {
		_, err := s.Add(bedrock.Event(e[0], []byte(e[1])))
		require.NoError(t, err)
	}
	require.Equal(t, resp.Message, s.Response().Message)

	own := transcript.Origin{API: "bedrock", Model: "amazon.nova", Entry: "a"}
	resp.Message.Origins = []transcript.Origin{own, own, own}
	req := transcript.Request{Model: "amazon.nova", Messages: []transcript.Message{transcript.UserText("go"), resp.Message, transcript.UserText("on")}}
	body, report, err := b.Request(req)
	require.NoError(t, err)
	require.Empty(t, report)
	require.Contains(t, string(body), `"content":[`+call+`,`+result+`,`+cited+`]`)
	require.Empty(t, wiretest.Check(wiretest.Bedrock{}, body))
	req.Model = "anthropic.claude"
	body, report, err = b.Request(req)
	require.NoError(t, err)
	require.Len(t, report, 2) // no call is lost
	require.Contains(t, string(body), `"content":[{"text":"[toolUse]\nname: nova_grounding\nq: x"},{"text":"[toolResult]\na: 1"},{"text":"So."}]`)
	require.Empty(t, wiretest.Check(wiretest.Bedrock{}, body))
}

// An empty start begins a text, and so does a missing one.
func TestStreamEmptyStart(t *testing.T) {
	s := bedrock.Format{}.NewStream()
	for _, e := range [][2]string{
		{"contentBlockStart", `{"contentBlockIndex":0,"start":{}}`},
		{"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{}"}}}`},
		{"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"Hello"}}`},
		{"contentBlockStop", `{"contentBlockIndex":0}`},
		{"messageStop", `{"stopReason":"end_turn"}`},
	} {
		_, err := s.Add(bedrock.Event(e[0], []byte(e[1])))
		require.NoError(t, err)
	}
	if content := s.Response().Message.Content; len(content) != 1 || s.Response().Message.Text() != "Hello" {
		t.Errorf("content = %v", content)
	}
}
