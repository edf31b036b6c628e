package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/wiretest"
	"github.com/convolog/convolog/transcript"
)

// Blocks that only the Messages API understands go back to it as they came; the
// result of a call says its toolset again.
func TestAnthropicOwnBlocks(t *testing.T) {
	const compaction = `{"type":"compaction", "content":"What was done.","signature":"c2ln","new_member":[1, 2]}`
	const fallback = `{"type":"fallback","to":"claude-sonnet-5-5","trigger":{"type":"overloaded"}}`
	const upload = `{"type":"container_upload","file_id":"file_1"}`
	const body = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[` + compaction + `,` + fallback + `,` + upload +
		`,{"type":"tool_use","id":"toolu_1","name":"click","input":{},"toolset_name":"browser"}],"stop_reason":"tool_use","container":{"id":"container_1"},"usage":{"input_tokens":1,"output_tokens":2}}`
	resp, err := wire.Anthropic{}.Response([]byte(body))
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"container_1"}`, string(resp.Usage.Extra["container"]))
	req := transcript.Request{Model: "claude-x", Messages: []transcript.Message{transcript.UserText("go"), resp.Message, transcript.ToolResult("toolu_1", "ok")}}
	sent, report, err := wire.Anthropic{}.Request(req)
	require.NoError(t, err)
	require.Empty(t, report)
	require.Contains(t, string(sent), `"content":[`+compaction+`,`+fallback+`,`+upload+`,`)
	require.Contains(t, string(sent), `{"type":"tool_result","tool_use_id":"toolu_1","content":"ok","toolset_name":"browser"}`)
	_, found := wiretest.Anthropic{}.Decode(sent)
	require.Len(t, found, 1, "%v", found) // members that are new to the referee
	_, found = wiretest.Anthropic{}.Decode([]byte(strings.Replace(strings.Replace(string(sent), `,"new_member":[1, 2]`, "", 1), `"ok","toolset_name":"browser"`, `"ok"`, 1)))
	require.Equal(t, "toolset", found[0].Rule)

	// Another model gets none of it.
	req.Messages[1].Origins = make([]transcript.Origin, 4)
	sent, report, err = wire.Anthropic{}.Request(req)
	require.NoError(t, err)
	require.Len(t, report, 4)
	require.NotContains(t, string(sent), "compaction")
	require.NotContains(t, string(sent), "toolset")
}

// A compaction that comes over a stream is what it would have been otherwise.
func TestAnthropicCompactionStream(t *testing.T) {
	for content, want := range map[string]string{`"What was done."`: `"What was done."`, "null": "null"} {
		s := wire.Anthropic{}.NewStream()
		for _, event := range []string{
			`{"type":"message_start","message":{"role":"assistant","content":[],"container":{"id":"c1"}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"compaction","content":null}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"compaction_delta","content":` + content + `}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"compaction"}}`,
			`{"type":"message_stop"}`,
		} {
			_, err := s.Add([]byte(event))
			require.NoError(t, err)
		}
		resp := s.Response()
		require.Equal(t, `{"type":"compaction","content":`+want+`}`, string(transcript.MarshalBlock(resp.Message.Content[0])))
		require.Equal(t, `{"id":"c1"}`, string(resp.Usage.Extra["container"]))
		require.Equal(t, transcript.StopReason("compaction"), resp.StopReason)
	}
}
