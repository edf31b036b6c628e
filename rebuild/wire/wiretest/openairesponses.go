package wiretest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// OpenAIResponses is the Responses API. It stores nothing.
type OpenAIResponses struct{ openAI }

const responsesRequestMembers = `background context_management conversation include input instructions max_output_tokens max_tool_calls metadata model
	parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_retention reasoning safety_identifier service_tier store stream
	stream_options temperature text tool_choice tools top_logprobs top_p truncation user`

// Decode reads the body of a request and judges it.
func (o OpenAIResponses) Decode(body []byte) (Request, []Violation) {
	r := responsesReferee{calls: map[string]string{}, done: map[string]bool{}, items: map[string]bool{}}
	m := r.body(body)
	if m == nil {
		return r.req, r.found
	}
	store, given := m["store"].(bool)
	r.stored = store || !given
	if input, ok := m["input"].(string); ok {
		r.say(transcript.RoleUser, transcript.TextBlock{Text: input})
	} else {
		for i, v := range r.list(m, "input") {
			r.item(i, v)
		}
	}
	r.ends()
	r.tools(m["tools"], func(tool map[string]any) (string, any) {
		if tool["type"] != "function" {
			return "", nil
		}
		return ".", tool
	})
	r.envelope(m, responsesRequestMembers, "Unknown parameter: '%s'.", "max_output_tokens")
	r.typed(m, "instructions", "a string")
	r.req.System = text(m["instructions"]) + r.req.System
	if r.typed(m, "previous_response_id", "a string") {
		r.flag("missing", -1, -1, "Previous response with id '%s' not found.", m["previous_response_id"])
	}
	return r.req, r.found
}

// Validate returns what is wrong with the body of a request.
func (o OpenAIResponses) Validate(body []byte) []Violation { return validate(o, body) }

type responsesReferee struct {
	openAIReferee
	stored  bool
	calls   map[string]string // type of output that a call wants, by its ID
	order   []openCall
	done    map[string]bool // calls that have an output
	items   map[string]bool // IDs of items so far
	pending string          // reasoning that no item follows yet
	at      int             // its index
}

type openCall struct {
	id    string
	index int
}

// responsesMembers are the members that an item of a type may have.
var responsesMembers = map[string][]string{
	"message":                 {"id", "status", "role", "content", "phase"},
	"function_call":           {"id", "status", "call_id", "name", "arguments", "namespace"},
	"custom_tool_call":        {"id", "status", "call_id", "name", "input", "namespace"},
	"function_call_output":    {"id", "status", "call_id", "output"},
	"custom_tool_call_output": {"id", "status", "call_id", "output"},
	// Run by the client as the API defines them.
	"shell_call":              {"id", "status", "call_id", "action", "environment", "created_by"},
	"local_shell_call":        {"id", "status", "call_id", "action"},
	"apply_patch_call":        {"id", "status", "call_id", "operation", "created_by"},
	"computer_call":           {"id", "status", "call_id", "action", "actions", "pending_safety_checks"},
	"shell_call_output":       {"id", "status", "call_id", "output", "max_output_length"},
	"local_shell_call_output": {"id", "status", "output"},
	"apply_patch_call_output": {"id", "status", "call_id", "output"},
	"computer_call_output":    {"id", "status", "call_id", "output", "acknowledged_safety_checks"},
	"reasoning":               {"id", "status", "summary", "content", "encrypted_content"},
	// Made by the provider, with whatever members.
	"web_search_call": nil, "file_search_call": nil, "code_interpreter_call": nil, "image_generation_call": nil,
	"mcp_list_tools": nil, "mcp_call": nil, "compaction": nil,
}

func (r *responsesReferee) item(i int, v any) {
	m := object(v)
	if m == nil {
		r.flag("type", i, -1, "Invalid type for 'input[%d]': expected an input item, but got %s instead.", i, jsonType(v))
		return
	}
	kind, id, role, encrypted := text(m["type"]), text(m["id"]), text(m["role"]), text(m["encrypted_content"])
	if _, given := m["type"]; !given && role != "" {
		kind = "message"
	}
	known, ok := responsesMembers[kind]
	if !ok && (id == "" || kind == "") { // else an item that is newer than this
		r.flag("item", i, -1, "Invalid value: '%s'. Supported values are: '%s'.", kind, strings.Join(slices.Sorted(maps.Keys(responsesMembers)), "', '"))
		return
	}
	if known != nil && id == "" {
		for _, name := range unknown(m, append(known, "type")...) {
			r.flag("member", i, -1, "Unknown parameter: 'input[%d].%s'.", i, name)
		}
	}
	if known == nil && id == "" && encrypted == "" {
		r.flag("missing", i, -1, "Missing required parameter: 'input[%d].id'.", i)
	}
	if id != "" && kind != "local_shell_call_output" {
		if r.items[id] {
			r.flag("id-unique", i, -1, "Duplicate item found with id %s. Remove duplicate items from your input and try again.", id)
		}
		r.items[id] = true
	}
	if _, reasoning, ok := strings.Cut(id, afterReasoning); ok && !r.items[reasoning] {
		r.flag("reasoning", i, -1, "Item '%s' of type '%s' was provided without its required 'reasoning' item: '%s'.", id, kind, reasoning)
	}
	ofModel := kind != "message" && !strings.HasSuffix(kind, "_output") || role == "assistant"
	if kind == "reasoning" || !ofModel {
		r.alone(kind == "reasoning")
	} else {
		r.pending = ""
	}
	switch kind {
	default:
		r.say(transcript.RoleAssistant, transcript.RawBlock{JSON: encode(m)})
	case "message":
		r.message(i, role, m["content"])
	case "function_call", "custom_tool_call", "shell_call", "local_shell_call", "apply_patch_call", "computer_call":
		r.call(i, kind, m)
	case "local_shell_call_output":
		r.output(i, kind, id, m["output"])
	case "function_call_output", "custom_tool_call_output", "shell_call_output", "apply_patch_call_output", "computer_call_output":
		r.output(i, kind, text(m["call_id"]), m["output"])
	case "reasoning":
		r.pending, r.at = id, i
		if jsonType(m["summary"]) != "an array" {
			r.flag("missing", i, -1, "Missing required parameter: 'input[%d].summary'.", i)
		}
		r.say(transcript.RoleAssistant, transcript.RawBlock{JSON: encode(m)})
		if !r.stored && encrypted == "" {
			r.flag("reasoning", i, -1, "Item with id '%s' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.", id)
		}
	}
}

// alone flags reasoning that nothing of its answer follows; more reasoning may.
func (r *responsesReferee) alone(more bool) {
	if r.pending != "" && !more {
		r.flag("reasoning", r.at, -1, "Item '%s' of type 'reasoning' was provided without its required following item.", r.pending)
		r.pending = ""
	}
}

func (r *responsesReferee) message(i int, role string, content any) {
	param := fmt.Sprintf("input[%d].content", i)
	switch role {
	case "user":
		r.say(transcript.RoleUser, r.content(i, param, content, responsesGiven, false)...)
	case "system", "developer":
		r.req.System += transcript.Message{Content: r.content(i, param, content, responsesGiven, false)}.Text()
	case "assistant":
		r.say(transcript.RoleAssistant, r.content(i, param, content, []string{"output_text", "refusal"}, false)...)
	default:
		r.flag("role", i, -1, "Invalid value: '%s'. Supported values are: 'assistant', 'system', 'developer', and 'user'.", role)
	}
}

// responsesGiven are the types of parts that are not the model's.
var responsesGiven = []string{"input_text", "input_image", "input_file"}

// clientCalls are the calls that the client runs as the API defines them, with the
// members that say what is to be done.
var clientCalls = map[string][]string{
	"shell_call": {"action"}, "local_shell_call": {"action"}, "apply_patch_call": {"operation"}, "computer_call": {"action", "actions"},
}

func (r *responsesReferee) call(i int, kind string, m map[string]any) {
	param, id, name := fmt.Sprintf("input[%d]", i), text(m["call_id"]), text(m["name"])
	r.name("id", param+".call_id", id, 64, i, -1)
	var input json.RawMessage
	switch asked := clientCalls[kind]; {
	case asked != nil:
		name = strings.TrimSuffix(kind, "_call")
		maps.DeleteFunc(m, func(name string, _ any) bool { return !slices.Contains(asked, name) })
		if input = encode(m); len(m) != 1 {
			r.flag("input", i, -1, "Missing required parameter: '%s.%s'.", param, asked[0])
		}
	case kind == "function_call":
		input = r.arguments(param+".arguments", m["arguments"], i, -1)
	default:
		input = encode(map[string]string{"input": text(m["input"])})
	}
	r.name("name", param+".name", name, maxOpenAIName, i, -1)
	r.say(transcript.RoleAssistant, transcript.ToolCallBlock{ID: id, Name: name, Input: input})
	if _, twice := r.calls[id]; twice {
		r.flag("id-unique", i, -1, "Duplicate function call with call_id %s.", id)
		return
	}
	r.calls[id] = kind + "_output"
	r.order = append(r.order, openCall{id, i})
}

func (r *responsesReferee) output(i int, kind, id string, output any) {
	switch want, ok := r.calls[id]; {
	case !ok || want != kind:
		r.flag("orphan-result", i, -1, "No tool call found for function call output with call_id %s.", id)
	case r.done[id]:
		r.flag("doubled-result", i, -1, "Duplicate function call output with call_id %s.", id)
	}
	r.done[id] = true
	param := fmt.Sprintf("input[%d].output", i)
	var content []transcript.Block
	switch kind {
	case "shell_call_output", "apply_patch_call_output":
		if output != nil && jsonType(output) != map[string]string{"shell_call_output": "an array", "apply_patch_call_output": "a string"}[kind] {
			r.flag("type", i, -1, "Invalid type for '%s'.", param)
		}
		content = []transcript.Block{transcript.TextBlock{Text: cmp.Or(text(output), string(encode(output)))}}
	case "computer_call_output":
		p := object(output)
		url, file := imageURL(p), text(p["file_id"])
		if p["type"] != "computer_screenshot" || url+file == "" {
			r.flag("source", i, -1, "Invalid '%s'. Expected a screenshot.", param)
		}
		content = []transcript.Block{transcript.ImageBlock{Source: openAISource(url, file)}}
	default:
		content = r.content(i, param, output, responsesGiven, true)
	}
	r.say(transcript.RoleUser, transcript.ToolResultBlock{CallID: id}.WithContent(content...))
}

// ends checks what only the end of the list shows.
func (r *responsesReferee) ends() {
	r.alone(false)
	for _, c := range r.order {
		if !r.done[c.id] {
			r.flag("missing-result", c.index, -1, "No tool output found for function call %s.", c.id)
		}
	}
}

// Fit refuses a request that the model has no room for.
func (o OpenAIResponses) Fit(l Limits, req Request, tokens int) *Refusal {
	if l.Window > 0 && tokens > l.Window || l.reserves(req, tokens) {
		return o.tooLong("input", "Your input exceeds the context window of this model. Please adjust your input and try again.")
	}
	return o.tooMuch(l, req, "max_output_tokens")
}

// afterReasoning stands in the ID of an item before that of the reasoning that
// led up to it.
const afterReasoning = "-after-"

// output returns the items of an answer.
func (OpenAIResponses) output(a Message) (items []map[string]any) {
	reasoning := ""
	for i, b := range a.Content {
		id := func(prefix string) string {
			if reasoning == "" {
				return openAIID(prefix, a.ID, i)
			}
			return openAIID(prefix, a.ID, i) + afterReasoning + reasoning
		}
		var item map[string]any
		switch b := b.(type) {
		case transcript.ThinkingBlock:
			reasoning = openAIID("rs", a.ID, i)
			items = append(items, reasoningItem(reasoning, b.Thinking, b.Signature))
			continue
		case transcript.RedactedThinkingBlock:
			reasoning = openAIID("rs", a.ID, i)
			items = append(items, reasoningItem(reasoning, "", b.Data))
			continue
		case transcript.TextBlock:
			part := map[string]any{"type": "output_text", "text": b.Text, "annotations": []any{}}
			if a.Stop == transcript.StopRefusal {
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
func (o OpenAIResponses) response(a Message, output []map[string]any) map[string]any {
	status, details := "completed", any(nil)
	switch a.Stop {
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
		"id": openAIID("resp", a.ID, 0), "object": "response", "created_at": 1_700_000_000, "model": a.Model, "status": status, "error": nil,
		"incomplete_details": details, "output": output, "usage": o.usage(a.Usage, "input_tokens", "output_tokens", "input_tokens_details"),
	}
}

// Whole returns an answer that is not streamed.
func (o OpenAIResponses) Whole(a Message) []byte { return encode(o.response(a, o.output(a))) }

// Events returns an answer as a stream.
func (o OpenAIResponses) Events(a Message) (events []Event) {
	add := func(name string, members map[string]any) {
		members["type"], members["sequence_number"] = name, len(events)
		events = append(events, Event{name, encode(members)})
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

// IsInput reports whether an event adds to the input of a call.
func (OpenAIResponses) IsInput(e Event) bool { return e.Name == inputDelta }

// Fail returns the event that ends a stream with an error.
func (o OpenAIResponses) Fail(no *Refusal, a Message, _ string) Event {
	failed := o.response(a, nil)
	failed["status"], failed["usage"], failed["error"] = "failed", nil, map[string]any{"code": no.codeOrKind(), "message": no.Text}
	return Event{"response.failed", encode(map[string]any{"type": "response.failed", "response": failed})}
}

func (no *Refusal) codeOrKind() string {
	if no.Code != "" {
		return no.Code
	}
	return no.Kind
}
