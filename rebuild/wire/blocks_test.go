package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

// A block of a type that is not known goes back to its maker as it came, whole or
// streamed; a call of such a type, or its result, goes with its other half.
func TestUnknownBlocks(t *testing.T) {
	const thing = `{"type":"vision_board", "note":"a","z":[1, 2]}`
	const call, result = `{"type":"swarm_use","id":"sw_1","input":{}}`, `{"type":"swarm_tool_result","tool_use_id":"sw_1","content":null}`
	answer := func(blocks string) transcript.Message {
		resp, err := anthropic.Format{}.Response([]byte(`{"role":"assistant","model":"claude-x","content":[` + blocks + `]}`))
		require.NoError(t, err)
		return resp.Message
	}
	sent := func(m transcript.Message) string {
		body, _, err := anthropic.Format{}.Request(transcript.Request{Model: "claude-x", Messages: []transcript.Message{transcript.UserText("go"), m, transcript.UserText("more")}})
		require.NoError(t, err)
		require.Empty(t, wiretest.Check(wiretest.Anthropic{}, body))
		return string(body)
	}
	const text = `{"type":"text","text":"x"}`
	require.Contains(t, sent(answer(thing+","+call+","+result+","+text)), `"content":[`+thing+`,`+call+`,`+result+`,`+text+`]`)
	require.Contains(t, sent(answer(call+","+text)), `"content":[`+text+`]`)
	require.Contains(t, sent(answer(result+","+text)), `"content":[`+text+`]`)
	require.Contains(t, sent(answer(`{"type":"vision_board","a":1,"a":2},`+text)), `"content":[`+text+`]`)
	other := answer(thing + "," + text)
	other.Origins = []transcript.Origin{{API: "anthropic", Model: "claude-y"}, {API: "anthropic", Model: "claude-y"}}
	require.Contains(t, sent(other), `"content":[`+text+`]`)

	s := anthropic.Format{}.NewStream()
	for _, event := range []string{
		`{"type":"message_start","message":{"role":"assistant","model":"claude-x","content":[]}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"vision_board","note":"","z":1}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"note_delta","note":"wri"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"note_delta","note":"tten"}}`,
	} {
		_, err := s.Add([]byte(event))
		require.NoError(t, err)
	}
	require.Empty(t, s.Response().Message.Content, "half of it says nothing")
	_, err := s.Add([]byte(`{"type":"content_block_stop","index":0}`))
	require.NoError(t, err)
	require.Equal(t, `{"type":"vision_board","note":"written","z":1}`, string(transcript.MarshalBlock(s.Response().Message.Content[0])))

	// Items of Responses that want something from the client do not go back.
	for items, kept := range map[string]bool{
		`{"type":"new_item","id":"n_1", "x":[1, 2]}`: true,
		`{"type":"tool_search_call","id":"ts_1","call_id":"c_1","status":"completed"},{"type":"tool_search_output","id":"ts_2","call_id":"c_1","tools":[]}`: true,
		`{"type":"tool_search_call","id":"ts_1","call_id":"c_1","status":"completed"}`:                                                                      false,
		`{"type":"new_item","id":"n_1","status":"in_progress"}`:                                                                                             false,
		`{"type":"new_item"}`:                           false,
		`{"type":"mcp_approval_request","id":"mcpr_1"}`: false,
	} {
		resp, err := openairesponses.Format{}.Response([]byte(`{"model":"gpt-x","output":[` + items + `,{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]}]}`))
		require.NoError(t, err)
		body, _, err := openairesponses.Format{}.Request(transcript.Request{Model: "gpt-x", Messages: []transcript.Message{transcript.UserText("go"), resp.Message, transcript.UserText("more")}})
		require.NoError(t, err)
		require.Equal(t, kept, strings.Contains(string(body), items), items)
		require.Empty(t, wiretest.Check(wiretest.OpenAIResponses{}, body))
	}
}

// The calls of tools that the Responses API defines and the client runs become calls; their results
// go back in the form that each wants. Another model sees functions.
func TestOpenAIResponsesClientCalls(t *testing.T) {
	const screen = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}`
	tests := []struct{ item, result, want string }{
		{
			`{"type":"shell_call","id":"sh_1","call_id":"call_1","status":"completed","action":{"commands":["ls"],"timeout_ms":1.0}}`,
			`"a.go"`, `{"type":"shell_call_output","call_id":"call_1","output":[{"stdout":"a.go","stderr":"","outcome":{"type":"exit","exit_code":0}}]}`,
		},
		{
			`{"type":"shell_call","id":"sh_1","call_id":"call_1","status":"completed","action":{"commands":["ls"]}}`,
			`"[{\"stdout\":\"x\",\"stderr\":\"\",\"outcome\":{\"type\":\"timeout\"}}]"`,
			`{"type":"shell_call_output","call_id":"call_1","output":[{"stdout":"x","stderr":"","outcome":{"type":"timeout"}}]}`,
		},
		{`{"type":"local_shell_call","id":"ls_1","call_id":"call_1","status":"completed","action":{"type":"exec","command":["ls"]}}`, `"a.go"`, `{"type":"local_shell_call_output","id":"call_1","output":"a.go"}`},
		{`{"type":"apply_patch_call","id":"ap_1","call_id":"call_1","status":"completed","operation":{"type":"delete_file","path":"a"}}`, `"done"`, `{"type":"apply_patch_call_output","call_id":"call_1","status":"completed","output":"done"}`},
		{
			`{"type":"computer_call","id":"cu_1","call_id":"call_1","status":"completed","pending_safety_checks":[],"action":{"type":"screenshot"}}`,
			`[` + screen + `]`, `{"type":"computer_call_output","call_id":"call_1","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,iVBORw0KGgo="}}`,
		},
	}
	for _, tt := range tests {
		body := `{"id":"r","model":"gpt-x","status":"completed","output":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"e"},` + tt.item + `]}`
		resp, err := openairesponses.Format{}.Response([]byte(body))
		require.NoError(t, err)
		require.Equal(t, transcript.StopToolUse, resp.StopReason)
		calls := resp.Message.ToolCalls()
		require.Len(t, calls, 1)
		require.NotEmpty(t, calls[0].Name)
		events := openairesponses.Format{}.NewStream()
		for _, e := range []string{`{"type":"response.output_item.added","output_index":0,"item":` + tt.item + `}`, `{"type":"response.output_item.done","output_index":0,"item":` + tt.item + `}`} {
			d, err := events.Add([]byte(e))
			require.NoError(t, err)
			require.Equal(t, strings.Contains(e, "added"), d.ToolName == calls[0].Name)
		}
		require.Equal(t, calls[0], events.Response().Message.Content[0])

		result := message(t, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":`+tt.result+`}]}`, transcript.Origin{})
		req := transcript.Request{Model: "gpt-x", Messages: []transcript.Message{transcript.UserText("go"), resp.Message, result}}
		own := transcript.Origin{API: "openai-responses", Model: "gpt-x", Entry: "a", Batch: 1}
		req.Messages[1].Origins = []transcript.Origin{own, own}
		sent, report, err := openairesponses.Format{}.Request(req)
		require.NoError(t, err)
		require.Empty(t, report)
		require.Contains(t, string(sent), tt.want)
		require.Contains(t, string(sent), `"id":"rs_1"`)
		require.Empty(t, wiretest.Check(wiretest.OpenAIResponses{}, sent))
		require.NotEmpty(t, wiretest.Check(wiretest.OpenAIResponses{}, []byte(strings.Replace(string(sent), "_call_output", "_call_outputs", 1))))

		req.Model = "gpt-y"
		sent, _, err = openairesponses.Format{}.Request(req)
		require.NoError(t, err)
		require.Contains(t, string(sent), `{"type":"function_call","call_id":"call_1","name":"`+calls[0].Name+`"`)
		require.Empty(t, wiretest.Check(wiretest.OpenAIResponses{}, sent))
	}

	// The picture never came: the call is sent like a function's.
	resp, err := openairesponses.Format{}.Response([]byte(`{"model":"gpt-x","output":[` + tests[4].item + `]}`))
	require.NoError(t, err)
	resp.Message.Origins = []transcript.Origin{{API: "openai-responses", Model: "gpt-x", Entry: "a"}}
	sent, _, err := openairesponses.Format{}.Request(transcript.Request{Model: "gpt-x", Messages: []transcript.Message{
		transcript.UserText("go"), resp.Message, transcript.ToolResult("call_1", "interrupted"),
	}})
	require.NoError(t, err)
	require.Contains(t, string(sent), `"type":"function_call"`)
	require.Empty(t, wiretest.Check(wiretest.OpenAIResponses{}, sent))
}

// The user's messages around an emptied answer are joined.
func TestOpenAIResponsesJoins(t *testing.T) {
	gone := transcript.Message{
		Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ThinkingBlock{Thinking: "hm", Signature: "c2ln"}},
		Origins: []transcript.Origin{{API: "anthropic", Model: "claude-x"}},
	}
	body, report, err := openairesponses.Format{}.Request(transcript.Request{Model: "gpt-x", Messages: []transcript.Message{
		transcript.UserText("a"), gone, transcript.UserText("b"), gone, transcript.UserText("c"),
	}})
	require.NoError(t, err)
	require.Contains(t, string(body), `"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"},{"type":"input_text","text":"c"}]}]`)
	require.Equal(t, "dropped-thinking empty-message merged-messages dropped-thinking empty-message merged-messages", rules(report))
}
