package guardtest

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/transcript"
)

// openAIChat is the Chat Completions API.
type openAIChat struct{ openAI }

const chatRequestMembers = `audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages metadata
	modalities model n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention reasoning_effort response_format
	safety_identifier seed service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity web_search_options`

func (c openAIChat) decode(m *Model, _ http.Header, body []byte, _ bool) (req transcript.Request, stream bool, no *refusal) {
	// A client that gives reasoning back must do so for every answer with calls.
	reasoning := bytes.Contains(body, []byte(`"reasoning_content":`)) || bytes.Contains(body, []byte(`"reasoning":"`))
	members, no := c.judge(body, wire.OpenAIChat{Reasoning: reasoning}.Validate, chatRequestMembers, "Unrecognized request argument supplied: %s")
	if no != nil {
		return req, false, no
	}
	var list []json.RawMessage
	for _, no := range []*refusal{
		openAIMember(members, "model", "a string", &req.Model),
		openAIMember(members, "messages", "an array", &list),
		openAIMember(members, "stream", "a boolean", &stream),
		c.limit(members, "max_tokens", &req.MaxOutput),
		c.limit(members, "max_completion_tokens", &req.MaxOutput),
	} {
		if no != nil {
			return req, stream, no
		}
	}
	if members["max_tokens"] != nil && members["max_completion_tokens"] != nil {
		return req, stream, invalid("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	}
	if members["stream_options"] != nil && !stream {
		return req, stream, invalid("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	}
	c.messages(&req, list)
	return req, stream, c.readTools(m, &req, members["tools"])
}

// messages reads valid messages.
func (openAIChat) messages(req *transcript.Request, list []json.RawMessage) {
	var turns openAITurns
	for _, raw := range list {
		var m struct {
			Role       string          `json:"role"`
			Content    json.RawMessage `json:"content"`
			Refusal    string          `json:"refusal"`
			Reasoning  string          `json:"reasoning_content"`
			ToolCallID string          `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		}
		_ = json.Unmarshal(raw, &m) // valid
		switch m.Role {
		case "system", "developer":
			req.System += transcript.Message{Content: openAIBlocks(m.Content)}.Text()
		case "user":
			turns.add(transcript.RoleUser, openAIBlocks(m.Content)...)
		case "tool":
			turns.add(transcript.RoleUser, openAIResult(m.ToolCallID, m.Content))
		case "assistant":
			var blocks []transcript.Block
			if m.Reasoning != "" {
				blocks = append(blocks, transcript.ThinkingBlock{Thinking: m.Reasoning})
			}
			blocks = append(blocks, openAIBlocks(m.Content)...)
			if m.Refusal != "" {
				blocks = append(blocks, transcript.TextBlock{Text: m.Refusal})
			}
			for _, c := range m.ToolCalls {
				blocks = append(blocks, transcript.ToolCallBlock{ID: c.ID, Name: c.Function.Name, Input: json.RawMessage(c.Function.Arguments)})
			}
			turns.add(transcript.RoleAssistant, blocks...)
		}
	}
	req.Messages = turns
}

func (c openAIChat) judgeSize(m *Model, req Request) *refusal {
	switch {
	case m.Window > 0 && req.Tokens > m.Window:
		return c.tooLong("messages", "This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages.", m.Window, req.Tokens)
	case m.Window > 0 && m.ReserveOutput && req.MaxOutput > m.Window-req.Tokens:
		return c.tooLong("messages", "This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the messages, %d in the completion). Please reduce the length of the messages or completion.",
			m.Window, req.Tokens+req.MaxOutput, req.Tokens, req.MaxOutput)
	}
	return c.tooMuch(m, req, "max_completion_tokens")
}

// chatText is what a message of this API can hold of an answer.
type chatText struct {
	reasoning, text, refusal string
	calls                    []transcript.ToolCallBlock
}

func chatSaid(a message) (s chatText) {
	for _, b := range a.content {
		switch b := b.(type) {
		case transcript.TextBlock:
			if a.stop == transcript.StopRefusal {
				s.refusal += b.Text
			} else {
				s.text += b.Text
			}
		case transcript.ThinkingBlock:
			s.reasoning += b.Thinking
		case transcript.ToolCallBlock:
			s.calls = append(s.calls, b)
		}
	}
	return s
}

func (s chatText) finish(stop transcript.StopReason) string {
	switch stop {
	case transcript.StopEndTurn, transcript.StopSequence:
		return "stop"
	case transcript.StopMaxTokens, transcript.StopContextWindow:
		return "length"
	case transcript.StopToolUse:
		return "tool_calls"
	case transcript.StopRefusal:
		if s.refusal == "" {
			return "content_filter"
		}
		return "stop"
	default:
		return string(stop)
	}
}

func (c openAIChat) whole(a message) []byte {
	s := chatSaid(a)
	m := map[string]any{"role": "assistant", "content": nil, "refusal": nil, "annotations": []any{}}
	if s.text != "" || s.refusal == "" && len(s.calls) == 0 {
		m["content"] = s.text
	}
	if s.refusal != "" {
		m["refusal"] = s.refusal
	}
	if s.reasoning != "" {
		m["reasoning_content"] = s.reasoning
	}
	var calls []any
	for _, call := range s.calls {
		calls = append(calls, map[string]any{
			"id": call.ID, "type": "function", "function": map[string]any{"name": call.Name, "arguments": string(call.Input)},
		})
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	return encode(c.object(a, "chat.completion", map[string]any{
		"choices": []any{map[string]any{"index": 0, "message": m, "logprobs": nil, "finish_reason": s.finish(a.stop)}},
		"usage":   c.counts(a),
	}))
}

func (c openAIChat) counts(a message) map[string]any {
	return c.usage(a.usage, "prompt_tokens", "completion_tokens", "prompt_tokens_details")
}

func (openAIChat) object(a message, kind string, members map[string]any) map[string]any {
	members["id"], members["object"], members["created"], members["model"] = openAIID("chatcmpl", a.id, 0), kind, 1_700_000_000, a.model
	return members
}

func (c openAIChat) events(a message) (events []event) {
	s := chatSaid(a)
	chunk := func(delta map[string]any, finish any) {
		events = append(events, event{"", encode(c.object(a, "chat.completion.chunk", map[string]any{
			"choices": []any{map[string]any{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}, "usage": nil,
		}))})
	}
	chunk(map[string]any{"role": "assistant", "content": "", "refusal": nil}, nil)
	for _, p := range []struct{ name, text string }{{"reasoning_content", s.reasoning}, {"content", s.text}, {"refusal", s.refusal}} {
		for _, piece := range split(p.text) {
			chunk(map[string]any{p.name: piece}, nil)
		}
	}
	for i, call := range s.calls {
		chunk(map[string]any{"tool_calls": []any{map[string]any{
			"index": i, "id": call.ID, "type": "function", "function": map[string]any{"name": call.Name, "arguments": ""},
		}}}, nil)
		for _, piece := range split(string(call.Input)) {
			chunk(map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": piece}}}}, nil)
		}
	}
	chunk(map[string]any{}, s.finish(a.stop))
	return append(events,
		event{"", encode(c.object(a, "chat.completion.chunk", map[string]any{"choices": []any{}, "usage": c.counts(a)}))},
		event{"", []byte("[DONE]")})
}

func (openAIChat) isInput(e event) bool {
	return bytes.Contains(e.data, []byte(`"arguments":`)) && !bytes.Contains(e.data, []byte(`"name":`))
}

func (c openAIChat) fail(no *refusal, _ message, requestID string) event {
	return event{"", c.refuse(no, requestID)}
}
