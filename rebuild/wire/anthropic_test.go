package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

// Blocks that only the Messages API understands go back to it as they came; the
// result of a call repeats its toolset.
func TestOwnBlocks(t *testing.T) {
	const compaction = `{"type":"compaction", "content":"What was done.","signature":"c2ln","new_member":[1, 2]}`
	const fallback = `{"type":"fallback","to":"claude-sonnet-5-5","trigger":{"type":"overloaded"}}`
	const upload = `{"type":"container_upload","file_id":"file_1"}`
	const body = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[` + compaction + `,` + fallback + `,` + upload +
		`,{"type":"tool_use","id":"toolu_1","name":"click","input":{},"toolset_name":"browser"}],"stop_reason":"tool_use","container":{"id":"container_1"},"usage":{"input_tokens":1,"output_tokens":2}}`
	resp, err := anthropic.Format{}.Response([]byte(body))
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"container_1"}`, string(resp.Usage.Extra["container"]))
	req := transcript.Request{Model: "claude-x", Messages: []transcript.Message{transcript.UserText("go"), resp.Message, transcript.ToolResult("toolu_1", "ok")}}
	sent, report, err := anthropic.Format{}.Request(req)
	require.NoError(t, err)
	require.Empty(t, report)
	require.Contains(t, string(sent), `"content":[`+compaction+`,`+fallback+`,`+upload+`,`)
	require.Contains(t, string(sent), `{"type":"tool_result","tool_use_id":"toolu_1","content":"ok","toolset_name":"browser"}`)
	_, found := wiretest.Anthropic{}.Decode(sent)
	require.Len(t, found, 1, "%v", found) // for the referee's unknown members
	_, found = wiretest.Anthropic{}.Decode([]byte(strings.Replace(strings.Replace(string(sent), `,"new_member":[1, 2]`, "", 1), `"ok","toolset_name":"browser"`, `"ok"`, 1)))
	require.Equal(t, "toolset", found[0].Rule)

	// Another model gets none of them.
	req.Messages[1].Origins = make([]transcript.Origin, 4)
	sent, report, err = anthropic.Format{}.Request(req)
	require.NoError(t, err)
	require.Len(t, report, 4)
	require.NotContains(t, string(sent), "compaction")
	require.NotContains(t, string(sent), "toolset")
}

// A compaction that comes over a stream equals one in a whole answer.
func TestCompactionStream(t *testing.T) {
	for content, want := range map[string]string{`"What was done."`: `"What was done."`, "null": "null"} {
		s := anthropic.Format{}.NewStream()
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

func TestStreamErrors(t *testing.T) {
	const start = `{"type":"message_start","message":{"role":"assistant"}}`
	const text = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	const stop = `{"type":"content_block_stop","index":0}`
	tests := []struct {
		name   string
		events []string
		want   string
	}{
		{"not JSON", []string{`{"type":`}, `wire: stream: event is not a JSON object: "{\"type\":"`},
		{"not an object", []string{`"DONE"`}, `wire: stream: event is not a JSON object: "\"DONE\""`},
		{"two starts", []string{start, start}, `wire: stream: unexpected message_start: `},
		{"user", []string{strings.Replace(start, "assistant", "user", 1)}, `wire: the answer has role "user"`},
		{"block twice", []string{start, text, text}, `wire: stream: unexpected content_block_start: `},
		{"no block", []string{start, stop}, `wire: stream: event about a block that is not open: `},
		{"closed block", []string{start, text, stop, stop}, `wire: stream: event about a block that is not open: `},
		{"after the end", []string{start, `{"type":"message_stop"}`, text}, `wire: stream: "content_block_start" after the end of the answer`},
		{"usage", []string{start, `{"type":"message_delta","usage":7}`}, `wire: the answer's usage is not an object`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := anthropic.Format{}.NewStream()
			var err error
			for i, e := range tt.events {
				if _, err = s.Add([]byte(e)); err != nil && i < len(tt.events)-1 {
					t.Fatal(err)
				}
			}
			require.Error(t, err)
			require.True(t, strings.HasPrefix(err.Error(), tt.want), err.Error())
		})
	}
}

// A signature belongs only to the whole text.
func TestStreamCutThinking(t *testing.T) {
	s := anthropic.Format{}.NewStream()
	for _, e := range []string{
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"a","signature":"s"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"b"}}`,
	} {
		_, err := s.Add([]byte(e))
		require.NoError(t, err)
	}
	b := s.Response().Message.Content[0].(transcript.ThinkingBlock)
	require.Equal(t, "ab", b.Thinking)
	require.Empty(t, b.Signature)
}

// Even a stream that never began gives an answer.
func TestStreamZero(t *testing.T) {
	resp := anthropic.Format{}.NewStream().Response()
	require.Equal(t, transcript.StopAborted, resp.StopReason)
	require.Equal(t, transcript.RoleAssistant, resp.Message.Role)
	require.Empty(t, resp.Message.Content)
}

// The budget for thinking is below the output limit, even a lowered one.
func TestThinkingBudget(t *testing.T) {
	for _, tt := range []struct {
		budget, limit int
		want, report  string
	}{
		{4000, 8000, `"thinking":{"type":"enabled","budget_tokens":4000,"display":"omitted"}`, ""},
		{8000, 8000, `"thinking":{"type":"enabled","budget_tokens":6000,"display":"omitted"}`, "thinking-less"},
		{9000, 0, `"thinking":{"type":"enabled","budget_tokens":6144,"display":"omitted"}`, "thinking-less"},
		{6000, 1366, `"thinking":{"type":"enabled","budget_tokens":1024,"display":"omitted"}`, "thinking-less"},
		{6000, 1300, "", "thinking-off"},
	} {
		a := anthropic.Format{Thinking: fmt.Appendf(nil, `{"type":"enabled","budget_tokens":%d,"display":"omitted"}`, tt.budget)}
		body, report, err := a.Request(transcript.Request{MaxOutput: tt.limit, Messages: []transcript.Message{transcript.UserText("hi")}})
		require.NoError(t, err)
		var got strings.Builder
		for _, r := range report {
			got.WriteString(string(r.Rule))
		}
		if got.String() != tt.report || !strings.Contains(string(body), tt.want) || tt.want == "" && strings.Contains(string(body), "thinking") {
			t.Errorf("budget %d, limit %d: %s, report %v", tt.budget, tt.limit, body, report)
		}
	}
}
