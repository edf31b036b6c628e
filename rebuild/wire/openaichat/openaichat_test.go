package openaichat_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/transcript"
)

// Reasoning goes back in the way that each imitator wants it.
func TestDialects(t *testing.T) {
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
func TestAudio(t *testing.T) {
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

// An event may have pieces of several calls: the Delta holds the last one.
func TestDeltaOfCalls(t *testing.T) {
	s := openaichat.Format{}.NewStream()
	d, err := s.Add([]byte(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}]}}]}`))
	require.NoError(t, err)
	require.Equal(t, wire.Delta{ToolName: "g", Input: "{"}, d)
}

// A refused event changes no count.
func TestStreamRefusedUsage(t *testing.T) {
	s := openaichat.Format{}.NewStream()
	_, err := s.Add([]byte(`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1}}`))
	require.NoError(t, err)
	_, err = s.Add([]byte(`{"choices":[{"delta":{"role":"user","content":"x"}}],"usage":{"prompt_tokens":99}}`))
	require.Error(t, err)
	require.Equal(t, 1, s.Response().Usage.Input)
}
