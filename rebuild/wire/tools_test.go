package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

// sent renders messages and checks the body.
func sent(t *testing.T, api wiretest.API, request func(transcript.Request) ([]byte, rebuild.Report, error), req transcript.Request) string {
	t.Helper()
	body, _, err := request(req)
	require.NoError(t, err)
	require.Empty(t, wiretest.Check(api, body), "%s", body)
	return string(body)
}

// Provider code that calls the client's tools goes back unchanged, with its container,
// while the client's messages are only results. Otherwise it becomes a text, with plain
// calls.
func TestWaitingCode(t *testing.T) {
	const code = `{"type":"server_tool_use","id":"srvtoolu_1","name":"code_execution","input":{"code":"f()"}}`
	const caller = `"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_1"}`
	call := func(id string) string {
		return `{"type":"tool_use","id":"` + id + `","name":"f","input":{},` + caller + `}`
	}
	answer := func(container, blocks string) transcript.Message {
		resp, err := anthropic.Format{}.Response([]byte(`{"role":"assistant","model":"claude-opus-4-8","content":[` + blocks + `],"container":` + container + `}`))
		require.NoError(t, err)
		for i := range resp.Message.Content {
			o := transcript.Origin{API: "anthropic", Model: "claude-opus-4-8", Entry: "a", Block: i, Batch: 1}
			resp.Message.Origins = append(resp.Message.Origins, o)
		}
		return resp.Message
	}
	send := func(model string, messages ...transcript.Message) string {
		return sent(t, wiretest.Anthropic{}, anthropic.Format{}.Request, transcript.Request{Model: model, Messages: append([]transcript.Message{transcript.UserText("go")}, messages...)})
	}
	first, second := answer(`{"id":"c1"}`, code+","+call("t1")), answer(`{"id":"c2"}`, call("t2"))
	last := answer("null", `{"type":"code_execution_tool_result","tool_use_id":"srvtoolu_1","content":{"type":"code_execution_result","stdout":"x"}},{"type":"text","text":"x"}`)
	one, two, more := transcript.ToolResult("t1", "1"), transcript.ToolResult("t2", "2"), transcript.UserText("more")
	whole := `[` + code + `,` + call("t1") + `]`

	for _, model := range []string{"claude-opus-4-8", "claude-sonnet-5"} {
		body := send(model, first, one)
		require.Contains(t, body, whole)
		require.Contains(t, body, `"container":"c1"`)
		next := send(model, first, one, second, two)
		require.Contains(t, next, `"container":"c2"`)
		end := send(model, first, one, second, two, last, more)
		require.NotContains(t, end, `"container":`)
		for _, before := range []string{body, next} {
			require.Contains(t, end, strings.TrimSuffix(string(messagesOf([]byte(before))), "]}"))
		}
	}
	for name, body := range map[string]string{
		"another API's model": send("deepseek-v4", first, one),
		"a text of the user":  send("claude-opus-4-8", first, transcript.Message{Role: transcript.RoleUser, Content: append(one.Content, more.Content...)}),
		"an answer without":   send("claude-opus-4-8", first, one, transcript.AssistantText("done"), more),
		"no container":        send("claude-opus-4-8", answer("null", code+","+call("t1")), one),
	} {
		require.Contains(t, body, `[server_tool_use]\nname: code_execution\ncode: f()`, name)
		require.NotContains(t, body, `"caller"`, name)
		require.NotContains(t, body, `"container":`, name)
	}
	// A refusal of the container does the same.
	refused, _ := rebuild.For([]transcript.Message{transcript.UserText("go"), first, one}, transcript.Calibration{Unread: "a"})
	body := sent(t, wiretest.Anthropic{}, anthropic.Format{}.Request, transcript.Request{Model: "claude-opus-4-8", Messages: refused})
	require.NotContains(t, body, "c1")
	require.NotContains(t, body, `"caller"`)
	require.Contains(t, body, `{"type":"tool_use","id":"t1","name":"f","input":{}}`)

	// The referee wants the same.
	for rule, broken := range map[string]string{
		"container":   strings.Replace(send("claude-opus-4-8", first, one), `"container":"c1",`, "", 1),
		"server-tool": strings.Replace(send("claude-opus-4-8", first, one), `"content":"1"}]`, `"content":"1"},{"type":"text","text":"x"}]`, 1),
	} {
		found := wiretest.Check(wiretest.Anthropic{}, []byte(broken))
		require.NotEmpty(t, found, rule)
		require.Equal(t, rule, found[0].Rule)
	}
}

// The phase of a text goes to the next GPT, and items of tools that the provider ran if
// no reasoning led to them; other models get texts.
func TestNextModelOfResponses(t *testing.T) {
	const ran = `{"type":"code_interpreter_call","id":"ci_1","status":"completed","container_id":"c","code":"1+1","outputs":[{"type":"logs","logs":"2"}]}`
	const text = `[code_interpreter_call]\ncode: 1+1\nlogs: 2`
	for _, tt := range []struct {
		model, before string
		item          bool
	}{
		{"gpt-6.3", "", true},
		{"gpt-6.3", `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"e"},`, false},
		{"grok-4", "", false},
	} {
		resp, err := openairesponses.Format{}.Response([]byte(`{"model":"gpt-6.2","output":[` + tt.before + ran +
			`,{"type":"message","id":"msg_1","phase":"commentary","role":"assistant","content":[{"type":"output_text","text":"so"}]}]}`))
		require.NoError(t, err)
		for i := range resp.Message.Content {
			resp.Message.Origins = append(resp.Message.Origins, transcript.Origin{API: resp.API, Model: resp.Model, Entry: "a", Block: i, Batch: 1})
		}
		req := transcript.Request{Model: tt.model, Messages: []transcript.Message{transcript.UserText("go"), resp.Message, transcript.UserText("more")}}
		body := sent(t, wiretest.OpenAIResponses{}, openairesponses.Format{}.Request, req)
		require.Equal(t, tt.item, strings.Contains(body, ran), body)
		require.Equal(t, !tt.item, strings.Contains(body, text), body)
		require.Equal(t, tt.model != "grok-4", strings.Contains(body, `"phase":"commentary"`), body)
		require.Contains(t, sent(t, wiretest.OpenAIChat{}, openaichat.Format{}.Request, req), text)
		require.Contains(t, sent(t, wiretest.Anthropic{}, anthropic.Format{}.Request, req), text)
		require.Contains(t, sent(t, wiretest.Gemini{}, gemini.Format{}.Request, req), text)
		require.Contains(t, sent(t, wiretest.Bedrock{}, bedrock.Format{}.Request, req), text)
	}
}

// A text of the user follows an answer at the end, unless the caller wants to continue it.
func TestPrefill(t *testing.T) {
	req := transcript.Request{Model: "claude-opus-5-5", Messages: []transcript.Message{transcript.UserText("go"), transcript.AssistantText("It is \n")}}
	for _, tt := range []struct {
		api           wiretest.API
		plain, asked  func(transcript.Request) ([]byte, rebuild.Report, error)
		end, askedEnd string
	}{
		{wiretest.Anthropic{}, anthropic.Format{}.Request, anthropic.Format{Prefill: true}.Request, `{"role":"user","content":[{"type":"text","text":"Continue."}]}]}`, `"content":"It is"}]}`},
		{wiretest.Bedrock{}, bedrock.Format{}.Request, bedrock.Format{Prefill: true}.Request, `{"role":"user","content":[{"text":"Continue."}]}]}`, `[{"text":"It is"}]}]}`},
		{wiretest.Gemini{}, gemini.Format{}.Request, gemini.Format{Prefill: true}.Request, `{"role":"user","parts":[{"text":"Continue."}]}]}`, `[{"text":"It is \n"}]}]}`},
		{wiretest.OpenAIChat{}, openaichat.Format{}.Request, openaichat.Format{Prefill: true, Dialect: openaichat.Kimi}.Request, `{"role":"user","content":"Continue."}]}`, `"partial":true,"content":"It is \n"}]}`},
		{wiretest.OpenAIChat{ShortIDs: true}, openaichat.Format{ShortIDs: true}.Request, openaichat.Format{Prefill: true, Dialect: openaichat.Mistral}.Request, `{"role":"user","content":"Continue."}]}`, `"prefix":true,"content":"It is \n"}]}`},
		{wiretest.OpenAIResponses{}, openairesponses.Format{}.Request, openairesponses.Format{Prefill: true}.Request, `"role":"user","content":"Continue."}]}`, `"content":"It is \n"}]}`},
	} {
		require.True(t, strings.HasSuffix(sent(t, tt.api, tt.plain, req), tt.end))
		body, report, err := tt.asked(req)
		require.NoError(t, err)
		require.Empty(t, report)
		require.True(t, strings.HasSuffix(string(body), tt.askedEnd), "%s", body)
	}
}

// Each API gets the members of a tool that it knows, and a hash of the prompt covers all
// except the cache mark, which deferred tools lack. On Vertex the model is in the path.
func TestToolMembers(t *testing.T) {
	req := transcript.Request{Model: "claude-x", Messages: []transcript.Message{transcript.UserText("go")}, Tools: memberTools}
	a := anthropic.Format{Cache: wire.Cache5m, Params: map[string]json.RawMessage{"anthropic_version": json.RawMessage(`"vertex-2023-10-16"`)}}
	body := sent(t, wiretest.At("/v1/projects/p/locations/l/publishers/anthropic/models/claude-x:rawPredict"), a.Request, req)
	require.NotContains(t, body, `"model"`)
	require.Contains(t, body, `"strict":true,"allowed_callers":["direct","code_execution_20260120"],"cache_control":{"type":"ephemeral"}},`)
	require.Contains(t, body, `"defer_loading":true,"input_examples":[{}]}]`)
	require.Contains(t, sent(t, wiretest.OpenAIResponses{}, openairesponses.Format{}.Request, req), `"defer_loading":true,"strict":false}]`)
	require.Contains(t, sent(t, wiretest.OpenAIChat{}, openaichat.Format{}.Request, req), `"strict":true}}`)
	require.Contains(t, sent(t, wiretest.Bedrock{}, bedrock.Format{}.Request, req), `"strict":true}}`)
	require.NotContains(t, sent(t, wiretest.Gemini{}, gemini.Format{}.Request, req), "strict")

	hash := func(change func(*transcript.Tool)) string {
		tool := memberTools[0]
		change(&tool)
		return rebuild.PromptHash("", []transcript.Tool{tool})
	}
	same := hash(func(*transcript.Tool) {})
	require.Equal(t, same, hash(func(tool *transcript.Tool) { tool.CacheControl = json.RawMessage("{}") }))
	for _, change := range []func(*transcript.Tool){
		func(tool *transcript.Tool) { tool.Strict = false },
		func(tool *transcript.Tool) { tool.DeferLoading = true },
		func(tool *transcript.Tool) { tool.AllowedCallers = nil },
		func(tool *transcript.Tool) { tool.InputExamples = json.RawMessage("[]") },
	} {
		require.NotEqual(t, same, hash(change))
	}
}

// A result keeps a reference to a tool if the request defines the tool; an upload becomes a text.
func TestReferencesInResults(t *testing.T) {
	call := transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: "a", Name: "n", Input: json.RawMessage("{}")}}}
	result := message(t, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"tool_reference","tool_name":"m"},{"type":"tool_reference","tool_name":"gone"},{"type":"container_upload","file_id":"f"}]}]}`, transcript.Origin{})
	body := sent(t, wiretest.Anthropic{}, anthropic.Format{}.Request, transcript.Request{Model: "claude-x", Messages: []transcript.Message{transcript.UserText("go"), call, result}, Tools: memberTools})
	require.Contains(t, body, `"content":[{"type":"tool_reference","tool_name":"m"},{"type":"text","text":"[tool_reference]\ntool_name: gone"},{"type":"text","text":"[container_upload left out]"}]`)
}

// Audio and video are documents of their types. Chat Completions takes audio, Gemini both.
func TestSounds(t *testing.T) {
	content := func(kind string) transcript.Request {
		return transcript.Request{Model: "m", Messages: []transcript.Message{message(t, `{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"`+kind+`","data":"AAAA"}}]}`, transcript.Origin{})}}
	}
	require.Contains(t, sent(t, wiretest.OpenAIChat{}, openaichat.Format{}.Request, content("audio/mpeg")), `{"type":"input_audio","input_audio":{"data":"AAAA","format":"mp3"}}`)
	for _, kind := range []string{"audio/mpeg", "video/mp4"} {
		require.Contains(t, sent(t, wiretest.Gemini{}, gemini.Format{}.Request, content(kind)), `{"inlineData":{"mimeType":"`+kind+`","data":"AAAA"}}`)
		require.Contains(t, sent(t, wiretest.Anthropic{}, anthropic.Format{}.Request, content(kind)), "[document left out: unsupported media type]")
	}
	// Half a character in a call's input text is mended in its arguments.
	half := transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: "a", Name: "n", Input: json.RawMessage(`"{\"a\":\"\\ud83d\"}"`)}}}
	require.Contains(t, sent(t, wiretest.OpenAIChat{}, openaichat.Format{}.Request, transcript.Request{Model: "m", Messages: []transcript.Message{transcript.UserText("go"), half, transcript.ToolResult("a", "r")}}), `"arguments":"{\"a\":\"\\ufffd\"}"`)
}
