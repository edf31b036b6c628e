package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/transcript"
)

// bedrockAnswers are bodies of Converse, with every kind of block it sends.
var bedrockAnswers = map[string]string{
	"text": `{"output":{"message":{"role":"assistant","content":[{"text":"Hello, 世界 \u2028 <&>"}]}},"stopReason":"end_turn","metrics":{"latencyMs":5},
		"usage":{"inputTokens":12,"outputTokens":5,"totalTokens":24,"cacheReadInputTokens":4,"cacheWriteInputTokens":3}}`,
	"calls": `{"output":{"message":{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"Let me see.","signature":"c2ln"}}},
		{"reasoningContent":{"redactedContent":"ZGF0YQ=="}},{"text":"Two calls."},
		{"toolUse":{"toolUseId":"tooluse_1","name":"read","input":{"path":"a \"b\".go","line":1.0,"é":null}}},
		{"toolUse":{"toolUseId":"tooluse_2","name":"list","input":{}}}]}},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3}}`,
	"cited": `{"output":{"message":{"role":"assistant","content":[{"citationsContent":{"content":[{"text":"It is so."}],"citations":[{"title":"a"},{"title":"b"}]}}]}},"stopReason":"end_turn"}`,
}

func TestBedrockResponse(t *testing.T) {
	resp, err := bedrock.Format{Model: bedrockModel}.Response([]byte(bedrockAnswers["text"]))
	require.NoError(t, err)
	u := resp.Usage
	require.Equal(t, "bedrock", resp.API)
	require.Equal(t, bedrockModel, resp.Model)
	require.Equal(t, transcript.StopEndTurn, resp.StopReason)
	require.Equal(t, "Hello, 世界 \u2028 <&>", resp.Message.Text())
	require.Equal(t, 12, u.Input)
	require.Equal(t, 5, u.Output)
	require.Equal(t, 4, u.CacheRead)
	require.Equal(t, 3, u.CacheWrite)
	require.Equal(t, "24", string(u.Extra["totalTokens"]))
	const odd = `{"output":{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"x","name":"n","type":"server_tool_use","input":{}}},{"hologram":{"a":1e3}}]}},"stopReason":"content_filtered"}`
	resp, err = bedrock.Format{}.Response([]byte(odd))
	if err != nil || resp.StopReason != transcript.StopRefusal || len(resp.Message.ToolCalls()) > 0 || string(resp.Message.Content[1].(transcript.RawBlock).JSON) != `{"type":"bedrock_block","block":{"hologram":{"a":1e3}}}` {
		t.Errorf("response = %+v, %v", resp, err)
	}
	for _, tt := range []struct{ body, want string }{
		{``, `wire: the answer is not a JSON object: ""`},
		{`{}`, `wire: the answer lacks a message: "{}"`},
		{`{"output":{"message":{"role":"user"}}}`, `wire: the answer has role "user"`},
		{`{"output":{"message":{"content":[1]}}}`, `wire: the answer has content that is not a block: "1"`},
		{`{"output":{"message":{}},"usage":3}`, `wire: the answer's usage is not an object: "3"`},
		{`{"message":"Input is too long for requested model."}`, `wire: Input is too long for requested model.`},
	} {
		if resp, err := (bedrock.Format{}).Response([]byte(tt.body)); resp != nil || err == nil || err.Error() != tt.want {
			t.Errorf("%s: error %v, want %s", tt.body, err, tt.want)
		}
	}
}

// An answer that is recorded and sent again goes out as it came in.
func TestBedrockRoundTrip(t *testing.T) {
	for name, answer := range bedrockAnswers {
		resp, err := bedrock.Format{Model: bedrockModel}.Response([]byte(answer))
		require.NoError(t, err)
		var results []transcript.Item
		for _, c := range resp.Message.ToolCalls() {
			results = append(results, transcript.ToolResult(c.ID, "r"))
		}
		if results == nil {
			results = append(results, transcript.UserText("thanks"))
		}
		h := recorded(t, transcript.UserText("go"), resp, results)
		body, report := render(t, bedrock.Format{}, transcript.Request{Model: bedrockModel, Messages: h.Messages, Tools: []transcript.Tool{{Name: "read"}}})
		if len(report) > 0 {
			t.Errorf("%s: report: %v", name, report)
		}
		valid(t, wiretest.Bedrock{Model: bedrockModel}, body)
		var sent struct{ Messages []struct{ Content any } }
		var came struct {
			Output struct{ Message struct{ Content any } }
		}
		require.NoError(t, json.Unmarshal([]byte(body), &sent))
		require.NoError(t, json.Unmarshal([]byte(answer), &came))
		want := fmt.Sprint(came.Output.Message.Content)
		if name == "cited" { // its texts are joined
			want = `[map[citationsContent:map[citations:[map[title:a] map[title:b]] content:[map[text:It is so.]]]]]`
		}
		if got := fmt.Sprint(sent.Messages[1].Content); got != want {
			t.Errorf("sent %s\ncame %s", got, want)
		}
		// The same model over its maker's API does not get it, nor does another.
		claude, _ := render(t, anthropic.Format{}, transcript.Request{Model: bedrockModel, Messages: h.Messages})
		if found := wiretest.Validate(decode(t, claude)); len(found) > 0 || strings.Contains(claude, "c2ln") {
			t.Errorf("violations: %v in %s", found, claude)
		}
		other, _ := render(t, bedrock.Format{}, transcript.Request{Model: "amazon.nova", Messages: h.Messages})
		valid(t, wiretest.Bedrock{Model: "amazon.nova"}, other)
		if strings.Contains(other, "c2ln") {
			t.Errorf("another model is given the reasoning: %s", other)
		}
	}
}
