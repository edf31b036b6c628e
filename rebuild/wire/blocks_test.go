package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
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
	require.Len(t, found, 1, "%v", found) // members that are new to the referee
	_, found = wiretest.Anthropic{}.Decode([]byte(strings.Replace(strings.Replace(string(sent), `,"new_member":[1, 2]`, "", 1), `"ok","toolset_name":"browser"`, `"ok"`, 1)))
	require.Equal(t, "toolset", found[0].Rule)

	// Another model gets none of it.
	req.Messages[1].Origins = make([]transcript.Origin, 4)
	sent, report, err = anthropic.Format{}.Request(req)
	require.NoError(t, err)
	require.Len(t, report, 4)
	require.NotContains(t, string(sent), "compaction")
	require.NotContains(t, string(sent), "toolset")
}

// A block of a type that is not known goes back to its maker as it came, whole or
// streamed; a call of such a type, and the result of one, with its other half.
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

	// Items of Responses that want something of the client's do not go back.
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

// A compaction that comes over a stream is what it would have been otherwise.
func TestAnthropicCompactionStream(t *testing.T) {
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

// The calls of tools that the Responses API defines and the client runs are calls;
// their results go back in the form that each wants. Another model sees functions.
func TestOpenAIResponsesClientCalls(t *testing.T) {
	const screen = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`
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
			`[` + screen + `]`, `{"type":"computer_call_output","call_id":"call_1","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,AAAA"}}`,
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

	// A picture that never came: the call goes as that of a function.
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

// The phase of an answer is said again, with or without the rest of its item.
func TestOpenAIResponsesPhase(t *testing.T) {
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

// Reasoning goes back in the way that each imitator wants it.
func TestChatDialects(t *testing.T) {
	const calls = `,"tool_calls":[{"id":"abcdefghi","type":"function","function":{"name":"f","arguments":"{}"}}]`
	tests := []struct {
		dialect              openaichat.Dialect
		message, want, other string
	}{
		{openaichat.DeepSeek, `"content":null,"reasoning_content":"hm"`, `"reasoning_content":"hm","content":null`, `"reasoning_content":"","content":null`},
		{openaichat.Kimi, `"content":null,"reasoning_content":"hm"`, `"reasoning_content":"hm","content":null`, `"reasoning_content":"","content":null`},
		{openaichat.GLM, `"content":null,"reasoning_content":"hm"`, `"reasoning_content":"hm","content":null`, `"reasoning_content":"","content":null`},
		{openaichat.Mistral, `"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"So."}]`, `"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"So."}]`, `"content":"So."`},
		{openaichat.OpenRouter, `"content":null,"reasoning":"hm","reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]`, `"reasoning":"hm","reasoning_details":[{"type":"reasoning.encrypted","data":"x"}],"content":null`, `"content":null`},
	}
	for _, tt := range tests {
		c := openaichat.Format{Dialect: tt.dialect}
		resp, err := c.Response([]byte(`{"model":"m","choices":[{"message":{"role":"assistant",` + tt.message + calls + `},"finish_reason":"tool_calls"}]}`))
		require.NoError(t, err)
		s := c.NewStream()
		_, err = s.Add([]byte(`{"model":"m","choices":[{"delta":{"role":"assistant",` + tt.message + calls + `},"finish_reason":"tool_calls"}]}`))
		require.NoError(t, err)
		require.Equal(t, resp, s.Response())
		require.Equal(t, "hm", resp.Message.Content[0].(transcript.ThinkingBlock).Thinking)
		own := transcript.Origin{API: "openai-chat", Model: "m", Entry: "a"}
		resp.Message.Origins = []transcript.Origin{own, own, own}
		req := transcript.Request{Model: "m", Messages: []transcript.Message{
			transcript.UserText("go"), resp.Message, transcript.ToolResult("abcdefghi", "r"), transcript.AssistantText("Done."), transcript.UserText("more"),
		}}
		referee := wiretest.OpenAIChat{Reasoning: true, ShortIDs: tt.dialect == openaichat.Mistral}
		body, _, err := c.Request(req)
		require.NoError(t, err)
		require.Contains(t, string(body), `{"role":"assistant",`+tt.want+calls+`}`)
		require.Empty(t, wiretest.Check(referee, body))
		require.Equal(t, tt.dialect == openaichat.GLM, strings.Contains(string(body), `"clear_thinking":false`))

		req.Model = "other"
		body, _, err = c.Request(req)
		require.NoError(t, err)
		require.Contains(t, string(body), `{"role":"assistant",`+tt.other+calls+`}`)
	}
}

// Audio that the model spoke goes back to it by ID and to other models as text;
// audio from the user is sent unchanged.
func TestChatAudio(t *testing.T) {
	const want = `{"type":"text","text":"Good day.","ext":{"audio":{"id":"audio_1","expires_at":9,"data":"AAAAAAAA"}}}`
	resp, err := openaichat.Format{}.Response([]byte(`{"model":"gpt-audio","choices":[{"message":{"role":"assistant","content":null,` +
		`"audio":{"id":"audio_1","expires_at":9,"data":"AAAAAAAA","transcript":"Good day."}},"finish_reason":"stop"}]}`))
	require.NoError(t, err)
	require.JSONEq(t, want, string(transcript.MarshalBlock(resp.Message.Content[0])))
	s := openaichat.Format{}.NewStream()
	var text strings.Builder
	for _, delta := range []string{
		`{"role":"assistant","audio":{"id":"audio_1","transcript":"Good "}}`, `{"audio":{"data":"AAAA"}}`, `{"audio":{"transcript":"day.","data":"AAAA"}}`, `{"audio":{"expires_at":9}}`,
	} {
		d, err := s.Add([]byte(`{"model":"gpt-audio","choices":[{"index":0,"delta":` + delta + `}]}`))
		require.NoError(t, err)
		text.WriteString(d.Text)
	}
	require.Equal(t, "Good day.", text.String())
	require.JSONEq(t, want, string(transcript.MarshalBlock(s.Response().Message.Content[0])))

	heard := transcript.RawBlock{JSON: []byte(`{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`)}
	resp.Message.Origins = []transcript.Origin{{API: "openai-chat", Model: "gpt-audio"}}
	req := transcript.Request{Model: "gpt-audio", Messages: []transcript.Message{
		{Role: transcript.RoleUser, Content: []transcript.Block{heard}}, resp.Message, transcript.UserText("And?"),
	}}
	body, report, err := openaichat.Format{}.Request(req)
	require.NoError(t, err)
	require.Empty(t, report)
	require.Contains(t, string(body), `{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]},{"role":"assistant","content":null,"audio":{"id":"audio_1"}}`)
	require.Empty(t, wiretest.Check(wiretest.OpenAIChat{}, body))
	req.Model = "gpt-x"
	body, _, err = openaichat.Format{}.Request(req)
	require.NoError(t, err)
	require.Contains(t, string(body), `{"role":"assistant","content":"Good day."}`)
}

// Citations and the provider's own tools go back to the model of Converse that made
// them, whole and streamed.
func TestBedrockOwnBlocks(t *testing.T) {
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
	require.Len(t, report, 2)
	require.Contains(t, string(body), `"content":[{"text":"So."}]`)
	require.Empty(t, wiretest.Check(wiretest.Bedrock{}, body))
}

// The user's messages around an answer that nothing is left of are one.
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
