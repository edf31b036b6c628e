package wiretest

import (
	"bytes"
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
// those that imitators of it have besides.
func (c OpenAIChat) Decode(body []byte) (Request, []Violation) {
	if c.asSent {
		c.Reasoning = bytes.Contains(body, []byte(`"reasoning_content":`)) || bytes.Contains(body, []byte(`"reasoning":"`))
	}
	r := chatReferee{format: c, ids: map[string]bool{}}
	m := r.body(body)
	if m == nil {
		return r.req, r.found
	}
	for i, v := range r.list(m, "messages") {
		r.message(i, v)
	}
	r.close()
	if r.format.ShortIDs && r.before == "assistant" {
		r.flag("prefill", r.at, -1, "Expected last role to be one of: [tool, user] but got assistant")
	}
	r.tools(m["tools"], func(tool map[string]any) (string, any) {
		if kind := text(tool["type"]); kind != "function" && kind != "" {
			return "", nil
		}
		return ".function.", tool["function"]
	})
	r.envelope(m, chatRequestMembers, "Unrecognized request argument supplied: %s", "max_tokens", "max_completion_tokens")
	if m["max_tokens"] != nil && m["max_completion_tokens"] != nil {
		r.flag("max-tokens", -1, -1, "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	}
	if m["stream_options"] != nil && !r.req.Stream {
		r.flag("member", -1, -1, "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	}
	return r.req, r.found
}

// Validate returns what is wrong with the body of a request.
func (c OpenAIChat) Validate(body []byte) []Violation { return validate(c, body) }

const chatRequestMembers = `audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages metadata
	modalities thinking model n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention reasoning_effort response_format
	safety_identifier seed service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity web_search_options`

type chatReferee struct {
	openAIReferee
	format OpenAIChat
	ids    map[string]bool // of every call so far
	before string          // role of the last message
	at     int             // index of the last answer
	open   []string        // its calls without a result
	closed []string        // its calls with one
}

// chatMembers are the members that a message of a role may have.
var chatMembers = map[string][]string{
	"system":    {"content", "name"},
	"developer": {"content", "name"},
	"user":      {"content", "name"},
	"tool":      {"content", "tool_call_id"},
	"assistant": {"content", "name", "refusal", "tool_calls", "audio", "function_call"},
}

var chatParts = map[string][]string{
	"system":    {"text"},
	"developer": {"text"},
	"user":      {"text", "image_url", "input_audio", "file"},
	"tool":      {"text"},
	"assistant": {"text", "refusal"},
}

func (r *chatReferee) message(i int, v any) {
	m := object(v)
	if m == nil {
		r.flag("type", i, -1, "Invalid type for 'messages[%d]': expected an object, but got %s instead.", i, jsonType(v))
		return
	}
	role := text(m["role"]) // an empty one is refused
	known := chatMembers[role]
	if known == nil {
		r.flag("role", i, -1, "Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.", role)
		return
	}
	for _, name := range unknown(m, append(known, "role")...) {
		if role != "assistant" || !r.format.Reasoning || !strings.HasPrefix(name, "reasoning") {
			r.flag("member", i, -1, "Additional properties are not allowed ('%s' was unexpected) - 'messages.%d'", name, i)
		}
	}
	if role == "tool" {
		r.result(i, m)
	} else {
		r.close()
	}
	if r.format.ShortIDs && role == "user" && r.before == "tool" {
		r.flag("user-after-tool", i, -1, "Unexpected role 'user' after role 'tool'")
	}
	r.before = role
	param := fmt.Sprintf("messages[%d].content", i)
	switch role {
	case "assistant":
		r.answer(i, param, m)
	case "tool":
		content := r.given(i, param, role, m["content"])
		r.say(transcript.RoleUser, transcript.ToolResultBlock{CallID: text(m["tool_call_id"])}.WithContent(content...))
	case "user":
		r.say(transcript.RoleUser, r.given(i, param, role, m["content"])...)
	default:
		r.req.System += transcript.Message{Content: r.given(i, param, role, m["content"])}.Text()
	}
}

// given checks the content of a message, which must have some.
func (r *chatReferee) given(i int, param, role string, content any) []transcript.Block {
	if content == nil {
		r.flag("content", i, -1, "Invalid value for 'content': expected a string, got null.")
		return nil
	}
	kinds := chatParts[role]
	if role == "assistant" && r.format.Reasoning {
		kinds = append(slices.Clone(kinds), "thinking")
	}
	return r.content(i, param, content, kinds, role == "tool")
}

// answer checks an answer: its content may be missing if it calls tools or is a
// refusal.
func (r *chatReferee) answer(i int, param string, m map[string]any) {
	calls, n := r.calls(i, m["tool_calls"])
	if n > 0 && r.format.Reasoning && !r.format.ShortIDs && m["reasoning_content"] == nil && m["reasoning"] == nil {
		r.flag("reasoning", i, -1, "Missing `reasoning_content` field in the assistant message at message index %d", i)
	}
	var blocks []transcript.Block
	if thought := text(m["reasoning_content"]); thought != "" {
		blocks = append(blocks, transcript.ThinkingBlock{Thinking: thought})
	}
	refusal := text(m["refusal"])
	if m["content"] != nil || n == 0 && refusal == "" && m["audio"] == nil {
		blocks = append(blocks, r.given(i, param, "assistant", m["content"])...)
	}
	if refusal != "" {
		blocks = append(blocks, transcript.TextBlock{Text: refusal})
	}
	r.say(transcript.RoleAssistant, append(blocks, calls...)...)
}

// calls checks the calls of an answer, and returns them and how many there are.
func (r *chatReferee) calls(i int, v any) (blocks []transcript.Block, n int) {
	r.at = i
	if v == nil {
		return nil, 0
	}
	param := fmt.Sprintf("messages[%d].tool_calls", i)
	calls, ok := v.([]any)
	switch {
	case !ok || slices.ContainsFunc(calls, func(c any) bool { return object(c) == nil }):
		r.flag("type", i, -1, "Invalid type for '%s': expected an array of objects, but got %s instead.", param, jsonType(v))
		return nil, 1
	case len(calls) == 0:
		r.flag("calls", i, -1, "%s", emptyArray(param))
	case len(calls) > maxOpenAITools:
		r.flag("calls", i, -1, "Invalid '%s': array too long. Expected an array with maximum length %d, but got an array with length %d instead.", param, maxOpenAITools, len(calls))
	}
	for j, v := range calls {
		c, at := object(v), fmt.Sprintf("%s[%d]", param, j)
		f := object(c["function"])
		id, name := text(c["id"]), text(f["name"])
		if c["type"] != "function" {
			r.flag("calls", i, j, "Invalid value: '%s'. Supported values are: 'function' and 'custom'.", text(c["type"]))
		}
		r.id(at+".id", id, i, j)
		if r.ids[id] {
			r.flag("id-unique", i, j, "Duplicate value for 'tool_call_id' of '%s' in message[%d]", id, i)
		}
		r.ids[id] = true
		r.open = append(r.open, id)
		r.name("name", at+".function.name", name, maxOpenAIName, i, j)
		blocks = append(blocks, transcript.ToolCallBlock{ID: id, Name: name, Input: r.arguments(at+".function.arguments", f["arguments"], i, j)})
	}
	return blocks, len(calls)
}

func (r *chatReferee) id(param, id string, i, j int) {
	const nine = 9
	if r.format.ShortIDs && (len(id) != nine || strings.ContainsAny(id, "_-")) {
		r.flag("id-length", i, j, "Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.", id)
	}
	r.name("id", param, id, 40, i, j)
}

// result checks that a tool message answers a call.
func (r *chatReferee) result(i int, m map[string]any) {
	id, ok := m["tool_call_id"].(string)
	if !ok {
		r.flag("missing", i, -1, "Missing required parameter: 'messages[%d].tool_call_id'.", i)
		return
	}
	if at := slices.Index(r.open, id); at >= 0 {
		r.open = slices.Delete(r.open, at, at+1)
		r.closed = append(r.closed, id)
		return
	}
	if slices.Contains(r.closed, id) {
		r.flag("doubled-result", i, -1, "Duplicate value for 'tool_call_id' of '%s' in message[%d]", id, i)
		return
	}
	r.flag("orphan-result", i, -1, "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.") //nolint:misspell // as the provider spells it
}

// close ends the results of the last answer.
func (r *chatReferee) close() {
	if len(r.open) > 0 {
		r.flag("missing-result", r.at, -1, "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(r.open, ", "))
	}
	r.open, r.closed = nil, nil
}

// Fit refuses a request that the model has no room for.
func (c OpenAIChat) Fit(l Limits, req Request, tokens int) *Refusal {
	switch {
	case l.Window > 0 && tokens > l.Window:
		return c.tooLong("messages", "This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages.", l.Window, tokens)
	case l.reserves(req, tokens):
		return c.tooLong("messages", "This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the messages, %d in the completion). Please reduce the length of the messages or completion.",
			l.Window, tokens+req.MaxOutput, tokens, req.MaxOutput)
	}
	return c.tooMuch(l, req, "max_completion_tokens")
}

// chatText is what a message of this API can hold of an answer.
type chatText struct {
	reasoning, text, refusal string
	calls                    []transcript.ToolCallBlock
}

func chatSaid(a Message) (s chatText) {
	for _, b := range a.Content {
		switch b := b.(type) {
		case transcript.TextBlock:
			if a.Stop == transcript.StopRefusal {
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

// Whole returns an answer that is not streamed.
func (c OpenAIChat) Whole(a Message) []byte {
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
		"choices": []any{map[string]any{"index": 0, "message": m, "logprobs": nil, "finish_reason": s.finish(a.Stop)}},
		"usage":   c.counts(a),
	}))
}

func (c OpenAIChat) counts(a Message) map[string]any {
	return c.usage(a.Usage, "prompt_tokens", "completion_tokens", "prompt_tokens_details")
}

func (OpenAIChat) object(a Message, kind string, members map[string]any) map[string]any {
	members["id"], members["object"], members["created"], members["model"] = openAIID("chatcmpl", a.ID, 0), kind, 1_700_000_000, a.Model
	return members
}

// Events returns an answer as a stream.
func (c OpenAIChat) Events(a Message) (events []Event) {
	s := chatSaid(a)
	chunk := func(delta map[string]any, finish any) {
		events = append(events, Event{"", encode(c.object(a, "chat.completion.chunk", map[string]any{
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
	chunk(map[string]any{}, s.finish(a.Stop))
	return append(events,
		Event{"", encode(c.object(a, "chat.completion.chunk", map[string]any{"choices": []any{}, "usage": c.counts(a)}))},
		Event{"", []byte("[DONE]")})
}

// IsInput reports whether an event adds to the input of a call.
func (OpenAIChat) IsInput(e Event) bool {
	return bytes.Contains(e.Data, []byte(`"arguments":`)) && !bytes.Contains(e.Data, []byte(`"name":`))
}

// Fail returns the event that ends a stream with an error.
func (c OpenAIChat) Fail(no *Refusal, _ Message, requestID string) Event {
	return Event{"", c.Refuse(no, requestID)}
}
