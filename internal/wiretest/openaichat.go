package wiretest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// OpenAIChat is the Chat Completions API.
type OpenAIChat struct {
	openAI
	// Reasoning is for imitators that take reasoning and then want it with every
	// answer that calls tools.
	Reasoning bool
	// ShortIDs is for Mistral.
	ShortIDs bool

	asSent bool // Reasoning if a request has some
}

// Decode reads a body and judges it by the rules of the Chat Completions API, and by
// those that imitators add.
func (c OpenAIChat) Decode(body []byte) (Request, []Violation) {
	if c.asSent {
		c.Reasoning = bytes.Contains(body, []byte(`"reasoning_content":`)) || bytes.Contains(body, []byte(`"reasoning":"`))
	}
	r := chatReferee{format: c}
	m := r.body(body)
	if m == nil {
		return r.req, r.found
	}
	for i, v := range r.list(m, "messages") {
		r.message(i, v)
	}
	r.close()
	r.want(!c.ShortIDs || r.before != "assistant" || r.prefix, "prefill", r.at, -1, "Expected last role to be one of: [tool, user] but got assistant")
	r.tools(m["tools"], true)
	r.envelope(m, chatRequestMembers, "Unrecognized request argument supplied: %s", "max_tokens", "max_completion_tokens")
	r.want(m["max_tokens"] == nil || m["max_completion_tokens"] == nil, "max-tokens", -1, -1, "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	r.want(m["stream_options"] == nil || r.req.Stream, "member", -1, -1, "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	return r.req, r.found
}

const chatRequestMembers = `audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages metadata
	modalities thinking model n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention reasoning_effort response_format
	safety_identifier seed service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity web_search_options`

type chatReferee struct {
	openAIReferee
	format OpenAIChat
	before string // role of the last message
	at     int    // index of the last answer
	prefix bool   // the answer is to be continued: Mistral, DeepSeek and Kimi
}

// chatRoles are the members that a message of a role may have, and the parts of its
// content.
var chatRoles = map[string]struct{ members, parts string }{
	"system":    {"content name", "text"},
	"developer": {"content name", "text"},
	"user":      {"content name", "text image_url input_audio file"},
	"tool":      {"content tool_call_id", "text"},
	"assistant": {"content name refusal tool_calls audio function_call", "text refusal"},
}

func (r *chatReferee) message(i int, v any) {
	m := object(v)
	if !r.want(m != nil, "type", i, -1, "Invalid type for 'messages[%d]': expected an object, but got %s instead.", i, jsonType(v)) {
		return
	}
	role := text(m["role"]) // an empty one is refused
	known, ok := chatRoles[role]
	if !r.want(ok, "role", i, -1, "Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.", role) {
		return
	}
	reasons := role == "assistant" && r.format.Reasoning
	r.prefix = m["prefix"] == true || m["partial"] == true
	for _, name := range unknown(m, strings.Fields("role "+known.members)...) {
		r.want(reasons && strings.HasPrefix(name, "reasoning") || r.prefix && role == "assistant", "member", i, -1, "Additional properties are not allowed ('%s' was unexpected) - 'messages.%d'", name, i)
	}
	if role != "tool" {
		r.close()
	}
	r.want(!r.format.ShortIDs || role != "user" || r.before != "tool", "user-after-tool", i, -1, "Unexpected role 'user' after role 'tool'")
	r.before = role
	if reasons {
		known.parts += " thinking"
	}
	given := func() []transcript.Block {
		if !r.want(m["content"] != nil, "content", i, -1, "Invalid value for 'content': expected a string, got null.") {
			return nil
		}
		return r.content(i, fmt.Sprintf("messages[%d].content", i), m["content"], strings.Fields(known.parts), role == "tool")
	}
	switch role {
	case "assistant":
		r.answer(i, m, given)
	case "tool":
		r.say(transcript.RoleUser, transcript.ToolResultBlock{CallID: r.result(i, m)}.WithContent(given()...))
	case "user":
		r.say(transcript.RoleUser, given()...)
	default:
		r.req.System += transcript.Message{Content: given()}.Text()
	}
}

// answer checks an answer: its content may be missing if it calls tools or is a
// refusal.
func (r *chatReferee) answer(i int, m map[string]any, given func() []transcript.Block) {
	calls, called := r.toolCalls(i, m["tool_calls"])
	r.want(!called || !r.format.Reasoning || r.format.ShortIDs || m["reasoning_content"] != nil || m["reasoning"] != nil, "reasoning", i, -1,
		"Missing `reasoning_content` field in the assistant message at message index %d", i)
	var blocks []transcript.Block
	if thought := text(m["reasoning_content"]); thought != "" {
		blocks = append(blocks, transcript.ThinkingBlock{Thinking: thought})
	}
	refusal := text(m["refusal"])
	if m["content"] != nil || !called && refusal == "" && m["audio"] == nil {
		blocks = append(blocks, given()...)
	}
	if refusal != "" {
		blocks = append(blocks, transcript.TextBlock{Text: refusal})
	}
	r.say(transcript.RoleAssistant, append(blocks, calls...)...)
}

// toolCalls checks the calls of an answer, and returns them and whether there are any.
func (r *chatReferee) toolCalls(i int, v any) (blocks []transcript.Block, called bool) {
	r.at = i
	if v == nil {
		return nil, false
	}
	param := fmt.Sprintf("messages[%d].tool_calls", i)
	calls, ok := v.([]any)
	objects := ok && !slices.ContainsFunc(calls, func(c any) bool { return object(c) == nil })
	if !r.want(objects, "type", i, -1, notObjects, param, jsonType(v)) {
		return nil, true
	}
	r.want(len(calls) > 0, "calls", i, -1, emptyArray, param)
	r.want(len(calls) <= maxOpenAITools, "calls", i, -1, longArray, param, maxOpenAITools, len(calls))
	for j, v := range calls {
		c, at := object(v), fmt.Sprintf("%s[%d]", param, j)
		f := object(c["function"])
		id, name := text(c["id"]), text(f["name"])
		r.want(c["type"] == "function", "calls", i, j, "Invalid value: '%s'. Supported values are: 'function' and 'custom'.", text(c["type"]))
		r.want(!r.format.ShortIDs || len(id) == 9 && !strings.ContainsAny(id, "_-"), "id-length", i, j, "Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.", id)
		r.name("id", at+".id", id, 40, i, j)
		r.want(r.fresh("call", id), "id-unique", i, j, "Duplicate value for 'tool_call_id' of '%s' in message[%d]", id, i)
		r.calls = append(r.calls, openCall{id: id, index: i})
		r.name("name", at+".function.name", name, maxName, i, j)
		blocks = append(blocks, transcript.ToolCallBlock{ID: id, Name: name, Input: r.arguments(at+".function.arguments", f["arguments"], i, j)})
	}
	return blocks, len(calls) > 0
}

// result checks that a tool message answers a call, and returns its ID.
func (r *chatReferee) result(i int, m map[string]any) string {
	id, ok := m["tool_call_id"].(string)
	if !r.want(ok, "missing", i, -1, "Missing required parameter: 'messages[%d].tool_call_id'.", i) {
		return ""
	}
	const orphan = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'." //nolint:misspell // as the provider spells it
	r.settle(i, id, "", orphan, fmt.Sprintf("Duplicate value for 'tool_call_id' of '%s' in message[%d]", id, i))
	return id
}

// close ends the results of the last answer.
func (r *chatReferee) close() {
	var missing []string
	for _, c := range r.open() {
		missing = append(missing, c.id)
	}
	r.want(missing == nil, "missing-result", r.at, -1, "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(missing, ", "))
}

// Form returns the common form of all answers.
func (OpenAIChat) Form() Form {
	const most = "This model's maximum context length is {window} tokens. However, you"
	return openAIForm(
		most+"r messages resulted in {prompt} tokens. Please reduce the length of the messages.",
		most+" requested {sum} tokens ({prompt} in the messages, {output} in the completion). Please reduce the length of the messages or completion.",
		"messages", "max_completion_tokens")
}

// chatSaid returns the part of an answer that this API's messages can hold: texts by
// the names of their members, and calls.
func chatSaid(a Message) (texts map[string]string, calls []transcript.ToolCallBlock) {
	said := "content"
	if a.Stop == transcript.StopRefusal {
		said = "refusal"
	}
	texts = map[string]string{}
	for _, b := range a.Content {
		switch b := b.(type) {
		case transcript.TextBlock:
			texts[said] += b.Text
		case transcript.ThinkingBlock:
			texts["reasoning_content"] += b.Thinking
		}
	}
	return texts, transcript.Message{Content: a.Content}.ToolCalls()
}

var chatStops = map[transcript.StopReason]string{
	transcript.StopEndTurn: "stop", transcript.StopSequence: "stop", transcript.StopRefusal: "stop",
	transcript.StopMaxTokens: "length", transcript.StopContextWindow: "length", transcript.StopToolUse: "tool_calls",
}

func chatFinish(a Message, refusal string) string {
	if a.Stop == transcript.StopRefusal && refusal == "" {
		return "content_filter"
	}
	return cmp.Or(chatStops[a.Stop], string(a.Stop))
}

func chatCall(call transcript.ToolCallBlock, arguments string) map[string]any {
	return map[string]any{"id": call.ID, "type": "function", "function": map[string]any{"name": call.Name, "arguments": arguments}}
}

// Whole returns an answer that is not streamed.
func (OpenAIChat) Whole(a Message) []byte {
	texts, called := chatSaid(a)
	m := map[string]any{"role": "assistant", "content": nil, "refusal": nil, "annotations": []any{}}
	for name, text := range texts {
		if text != "" {
			m[name] = text
		}
	}
	if m["content"] == nil && m["refusal"] == nil && called == nil {
		m["content"] = ""
	}
	var calls []any
	for _, call := range called {
		calls = append(calls, chatCall(call, string(call.Input)))
		m["tool_calls"] = calls
	}
	choice := map[string]any{"index": 0, "message": m, "logprobs": nil, "finish_reason": chatFinish(a, texts["refusal"])}
	return chatObject(a, "chat.completion", []any{choice}, chatUsage(a))
}

func chatUsage(a Message) map[string]any {
	return openAIUsage(a.Usage, "prompt_tokens", "completion_tokens")
}

func chatObject(a Message, kind string, choices []any, usage map[string]any) []byte {
	return encode(map[string]any{
		"id": openAIID("chatcmpl", a.ID, 0), "object": kind, "created": 1_700_000_000, "model": a.Model, "choices": choices, "usage": usage,
	})
}

// Events returns an answer as a stream.
func (OpenAIChat) Events(a Message) (events []Event) {
	const kind = "chat.completion.chunk"
	chunk := func(input bool, delta map[string]any, finish any) {
		choice := map[string]any{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}
		events = append(events, Event{sse("", chatObject(a, kind, []any{choice}, nil)), input})
	}
	texts, calls := chatSaid(a)
	chunk(false, map[string]any{"role": "assistant", "content": "", "refusal": nil}, nil)
	for _, name := range []string{"reasoning_content", "content", "refusal"} {
		for _, piece := range split(texts[name]) {
			chunk(false, map[string]any{name: piece}, nil)
		}
	}
	for i, call := range calls {
		begun := chatCall(call, "")
		begun["index"] = i
		chunk(false, map[string]any{"tool_calls": []any{begun}}, nil)
		for _, piece := range split(string(call.Input)) {
			chunk(true, map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": piece}}}}, nil)
		}
	}
	chunk(false, map[string]any{}, chatFinish(a, texts["refusal"]))
	return append(events, Event{Data: sse("", chatObject(a, kind, []any{}, chatUsage(a)))}, Event{Data: sse("", []byte("[DONE]"))})
}

// Fail returns the event that ends a stream with an error.
func (c OpenAIChat) Fail(no *Refusal, _ Message, requestID string) Event {
	return Event{Data: sse("", c.Refuse(no, requestID))}
}
