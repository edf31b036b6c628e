package guardtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/transcript"
)

// openAIResponses is the Responses API. It stores nothing.
type openAIResponses struct{ openAI }

const responsesRequestMembers = `background context_management conversation include input instructions max_output_tokens max_tool_calls metadata model
	parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_retention reasoning safety_identifier service_tier store stream
	stream_options temperature text tool_choice tools top_logprobs top_p truncation user`

func (o openAIResponses) decode(m *Model, _ http.Header, body []byte, _ bool) (req transcript.Request, stream bool, no *refusal) {
	members, no := o.judge(body, wire.OpenAIResponses{}.Validate, responsesRequestMembers, "Unknown parameter: '%s'.")
	if no != nil {
		return req, false, no
	}
	var previous string
	for _, no := range []*refusal{
		openAIMember(members, "model", "a string", &req.Model),
		openAIMember(members, "instructions", "a string", &req.System),
		openAIMember(members, "stream", "a boolean", &stream),
		openAIMember(members, "previous_response_id", "a string", &previous),
		o.limit(members, "max_output_tokens", &req.MaxOutput),
	} {
		if no != nil {
			return req, stream, no
		}
	}
	if previous != "" {
		return req, stream, invalid("Previous response with id '%s' not found.", previous)
	}
	if no := o.items(&req, members["input"]); no != nil {
		return req, stream, no
	}
	return req, stream, o.readTools(m, &req, members["tools"])
}

// items reads valid items. The ID of an item that reasoning led up to names the
// reasoning, which must be there.
func (openAIResponses) items(req *transcript.Request, input json.RawMessage) *refusal {
	var turns openAITurns
	var list []json.RawMessage
	if json.Unmarshal(input, &list) != nil {
		req.Messages = []transcript.Message{{Role: transcript.RoleUser, Content: openAIBlocks(input)}}
		return nil
	}
	given := map[string]bool{}
	for _, raw := range list {
		var it struct {
			ID        string          `json:"id"`
			Type      string          `json:"type"`
			Role      string          `json:"role"`
			Content   json.RawMessage `json:"content"`
			CallID    string          `json:"call_id"`
			Name      string          `json:"name"`
			Arguments string          `json:"arguments"`
			Input     string          `json:"input"`
			Output    json.RawMessage `json:"output"`
		}
		_ = json.Unmarshal(raw, &it) // valid
		given[it.ID] = true
		if _, reasoning, ok := strings.Cut(it.ID, afterReasoning); ok && !given[reasoning] {
			return invalid("Item '%s' of type '%s' was provided without its required 'reasoning' item: '%s'.", it.ID, it.Type, reasoning)
		}
		switch it.Type {
		case "message", "":
			switch it.Role {
			case "assistant":
				turns.add(transcript.RoleAssistant, openAIBlocks(it.Content)...)
			case "user":
				turns.add(transcript.RoleUser, openAIBlocks(it.Content)...)
			default:
				req.System += transcript.Message{Content: openAIBlocks(it.Content)}.Text()
			}
		case "function_call":
			turns.add(transcript.RoleAssistant, transcript.ToolCallBlock{ID: it.CallID, Name: it.Name, Input: json.RawMessage(it.Arguments)})
		case "custom_tool_call":
			turns.add(transcript.RoleAssistant, transcript.ToolCallBlock{ID: it.CallID, Name: it.Name, Input: encode(map[string]string{"input": it.Input})})
		case "function_call_output", "custom_tool_call_output":
			turns.add(transcript.RoleUser, openAIResult(it.CallID, it.Output))
		default:
			if b, err := transcript.UnmarshalBlock(raw); err == nil {
				turns.add(transcript.RoleAssistant, b)
			}
		}
	}
	req.Messages = turns
	return nil
}

func (o openAIResponses) judgeSize(m *Model, req Request) *refusal {
	if m.Window > 0 && (req.Tokens > m.Window || m.ReserveOutput && req.MaxOutput > m.Window-req.Tokens) {
		return o.tooLong("input", "Your input exceeds the context window of this model. Please adjust your input and try again.")
	}
	return o.tooMuch(m, req, "max_output_tokens")
}

// afterReasoning stands in the ID of an item before that of the reasoning that
// led up to it.
const afterReasoning = "-after-"

// output returns the items of an answer.
func (openAIResponses) output(a message) (items []map[string]any) {
	reasoning := ""
	for i, b := range a.content {
		id := func(prefix string) string {
			if reasoning == "" {
				return openAIID(prefix, a.id, i)
			}
			return openAIID(prefix, a.id, i) + afterReasoning + reasoning
		}
		var item map[string]any
		switch b := b.(type) {
		case transcript.ThinkingBlock:
			reasoning = openAIID("rs", a.id, i)
			items = append(items, reasoningItem(reasoning, b.Thinking, b.Signature))
			continue
		case transcript.RedactedThinkingBlock:
			reasoning = openAIID("rs", a.id, i)
			items = append(items, reasoningItem(reasoning, "", b.Data))
			continue
		case transcript.TextBlock:
			part := map[string]any{"type": "output_text", "text": b.Text, "annotations": []any{}}
			if a.stop == transcript.StopRefusal {
				part = map[string]any{"type": "refusal", "refusal": b.Text}
			}
			item = map[string]any{"id": id("msg"), "type": "message", "status": "completed", "role": "assistant", "content": []any{part}}
		case transcript.ToolCallBlock:
			item = map[string]any{"id": id("fc"), "type": "function_call", "status": "completed", "call_id": b.ID, "name": b.Name, "arguments": string(b.Input)}
		default:
			_ = json.Unmarshal(transcript.MarshalBlock(b), &item) // an object
		}
		reasoning = ""
		items = append(items, item)
	}
	return items
}

func reasoningItem(id, text, encrypted string) map[string]any {
	summary := []any{}
	if text != "" {
		summary = append(summary, map[string]any{"type": "summary_text", "text": text})
	}
	if encrypted == "" {
		encrypted = "ZW5jcnlwdGVk"
	}
	return map[string]any{"id": id, "type": "reasoning", "summary": summary, "encrypted_content": encrypted}
}

// response returns the object of an answer.
func (o openAIResponses) response(a message, output []map[string]any) map[string]any {
	status, details := "completed", any(nil)
	switch a.stop {
	case transcript.StopMaxTokens, transcript.StopContextWindow:
		status, details = "incomplete", map[string]any{"reason": "max_output_tokens"}
	case transcript.StopRefusal:
		if len(output) == 0 {
			status, details = "incomplete", map[string]any{"reason": "content_filter"}
		}
	default:
	}
	if output == nil {
		output = []map[string]any{}
	}
	return map[string]any{
		"id": openAIID("resp", a.id, 0), "object": "response", "created_at": 1_700_000_000, "model": a.model, "status": status, "error": nil,
		"incomplete_details": details, "output": output, "usage": o.usage(a.usage, "input_tokens", "output_tokens", "input_tokens_details"),
	}
}

func (o openAIResponses) whole(a message) []byte { return encode(o.response(a, o.output(a))) }

func (o openAIResponses) events(a message) (events []event) {
	add := func(name string, members map[string]any) {
		members["type"], members["sequence_number"] = name, len(events)
		events = append(events, event{name, encode(members)})
	}
	begun := o.response(a, nil)
	begun["status"], begun["usage"], begun["incomplete_details"] = "in_progress", nil, nil
	add("response.created", map[string]any{"response": begun})
	output := o.output(a)
	for i, item := range output {
		start, kind, index, text := streamedItem(item)
		add("response.output_item.added", map[string]any{"output_index": i, "item": start})
		for _, piece := range split(text) {
			add(kind, map[string]any{"item_id": item["id"], "output_index": i, index: 0, "delta": piece})
		}
		add("response.output_item.done", map[string]any{"output_index": i, "item": item})
	}
	end := o.response(a, output)
	add(fmt.Sprint("response.", end["status"]), map[string]any{"response": end})
	return events
}

// streamedItem takes an item apart: into one to start with, and the text that is
// added to it by events of a kind.
func streamedItem(item map[string]any) (start map[string]any, kind, index, text string) {
	start = maps.Clone(item)
	first := func(name, member string) string {
		start[name] = []any{}
		list, _ := item[name].([]any)
		for _, p := range list {
			part, _ := p.(map[string]any)
			s, _ := part[member].(string)
			return s
		}
		return ""
	}
	index = "content_index"
	switch item["type"] {
	case "message":
		start["status"] = "in_progress"
		if text = first("content", "text"); text != "" {
			return start, "response.output_text.delta", index, text
		}
		return start, "response.refusal.delta", index, first("content", "refusal")
	case "reasoning":
		return start, "response.reasoning_summary_text.delta", "summary_index", first("summary", "text")
	case "function_call":
		text, _ = item["arguments"].(string)
		start["arguments"], start["status"] = "", "in_progress"
		return start, inputDelta, index, text
	}
	return start, "", index, ""
}

const inputDelta = "response.function_call_arguments.delta"

func (openAIResponses) isInput(e event) bool { return e.name == inputDelta }

func (o openAIResponses) fail(no *refusal, a message, _ string) event {
	failed := o.response(a, nil)
	failed["status"], failed["usage"], failed["error"] = "failed", nil, map[string]any{"code": no.codeOrKind(), "message": no.text}
	return event{"response.failed", encode(map[string]any{"type": "response.failed", "response": failed})}
}

func (no *refusal) codeOrKind() string {
	if no.code != "" {
		return no.code
	}
	return no.kind
}
