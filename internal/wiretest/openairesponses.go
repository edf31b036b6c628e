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
	r := responsesReferee{}
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
	r.alone()
	for _, c := range r.open() {
		r.flag("missing-result", c.index, -1, "No tool output found for function call %s.", c.id)
	}
	r.tools(m["tools"], false)
	r.envelope(m, responsesRequestMembers, "Unknown parameter: '%s'.", "max_output_tokens")
	r.typed(m, "instructions", "a string")
	r.req.System = text(m["instructions"]) + r.req.System
	stored := r.typed(m, "previous_response_id", "a string")
	r.want(!stored, "missing", -1, -1, "Previous response with id '%s' not found.", m["previous_response_id"])
	return r.req, r.found
}

type responsesReferee struct {
	openAIReferee
	stored  bool
	pending string // reasoning before its next item
	at      int    // its index
}

// An itemKind holds the rules for a type of item.
type itemKind struct {
	members string // optional, except for type, id and status; empty: any
	output  string // the type of item that is the result of a call
	asked   string // for calls that the API defines: members, of which one describes the action
}

// itemKinds are the types of items. Items that the provider makes may have any members.
var itemKinds = map[string]itemKind{
	"message":                 {members: "role content phase"},
	"reasoning":               {members: "summary content encrypted_content"},
	"function_call":           {members: "call_id name arguments namespace", output: "function_call_output"},
	"custom_tool_call":        {members: "call_id name input namespace", output: "custom_tool_call_output"},
	"shell_call":              {members: "call_id action environment created_by", output: "shell_call_output", asked: "action"},
	"local_shell_call":        {members: "call_id action", output: "local_shell_call_output", asked: "action"},
	"apply_patch_call":        {members: "call_id operation created_by", output: "apply_patch_call_output", asked: "operation"},
	"computer_call":           {members: "call_id action actions pending_safety_checks", output: "computer_call_output", asked: "action actions"},
	"function_call_output":    {members: "call_id output"},
	"custom_tool_call_output": {members: "call_id output"},
	"shell_call_output":       {members: "call_id output max_output_length"},
	"local_shell_call_output": {members: "output"},
	"apply_patch_call_output": {members: "call_id output"},
	"computer_call_output":    {members: "call_id output acknowledged_safety_checks"},

	"web_search_call": {}, "file_search_call": {}, "code_interpreter_call": {}, "image_generation_call": {},
	"mcp_list_tools": {}, "mcp_call": {}, "compaction": {},
}

func (r *responsesReferee) item(i int, v any) {
	m := object(v)
	if !r.want(m != nil, "type", i, -1, "Invalid type for 'input[%d]': expected an input item, but got %s instead.", i, jsonType(v)) {
		return
	}
	kind, id, role, encrypted := text(m["type"]), text(m["id"]), text(m["role"]), text(m["encrypted_content"])
	if _, given := m["type"]; !given && role != "" {
		kind = "message"
	}
	k, known := itemKinds[kind]
	if !known && (id == "" || kind == "") { // otherwise an item of a new type
		r.flag("item", i, -1, "Invalid value: '%s'. Supported values are: '%s'.", kind, strings.Join(slices.Sorted(maps.Keys(itemKinds)), "', '"))
		return
	}
	if k.members != "" && id == "" {
		for _, name := range unknown(m, strings.Fields("type id status "+k.members)...) {
			r.flag("member", i, -1, "Unknown parameter: 'input[%d].%s'.", i, name)
		}
	}
	r.want(k.members != "" || id != "" || encrypted != "", "missing", i, -1, "Missing required parameter: 'input[%d].id'.", i)
	callID := text(m["call_id"])
	if kind == "local_shell_call_output" {
		callID = id
	} else if id != "" {
		r.want(r.fresh("item", id), "id-unique", i, -1, "Duplicate item found with id %s. Remove duplicate items from your input and try again.", id)
	}
	_, reasoning, after := strings.Cut(id, afterReasoning)
	r.want(!after || r.seen[[2]string{"item", reasoning}], "reasoning", i, -1, "Item '%s' of type '%s' was provided without its required 'reasoning' item: '%s'.", id, kind, reasoning)
	isOutput := strings.HasSuffix(kind, "_output")
	if role == "assistant" || kind != "message" && kind != "reasoning" && !isOutput {
		r.pending = "" // this follows it
	}
	if kind != "reasoning" {
		r.alone()
	}
	switch {
	case kind == "message":
		// openai-python: types/responses/easy_input_message_param.py.
		phased := m["phase"] == nil || role == "assistant" && slices.Contains([]string{"commentary", "final_answer"}, text(m["phase"]))
		r.want(phased, "member", i, -1, "Invalid value: '%v'. Supported values are: 'commentary' and 'final_answer'.", m["phase"])
		r.message(i, role, m["content"])
	case k.output != "":
		r.call(i, kind, callID, m)
	case known && isOutput:
		r.output(i, kind, callID, m["output"])
	default:
		r.say(transcript.RoleAssistant, transcript.RawBlock{JSON: encode(m)})
	}
	if kind == "reasoning" {
		r.pending, r.at = id, i
		r.want(jsonType(m["summary"]) == "an array", "missing", i, -1, "Missing required parameter: 'input[%d].summary'.", i)
		r.want(r.stored || encrypted != "", "reasoning", i, -1, "Item with id '%s' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.", id)
	}
}

// alone flags reasoning without a next item of its answer.
func (r *responsesReferee) alone() {
	r.want(r.pending == "", "reasoning", r.at, -1, "Item '%s' of type 'reasoning' was provided without its required following item.", r.pending)
	r.pending = ""
}

func (r *responsesReferee) message(i int, role string, content any) {
	kinds := responsesGiven
	if role == "assistant" {
		kinds = []string{"output_text", "refusal"}
	}
	if !r.want(slices.Contains([]string{"user", "system", "developer", "assistant"}, role), "role", i, -1, "Invalid value: '%s'. Supported values are: 'assistant', 'system', 'developer', and 'user'.", role) {
		return
	}
	blocks := r.content(i, fmt.Sprintf("input[%d].content", i), content, kinds, false)
	if role == "user" || role == "assistant" {
		r.say(transcript.Role(role), blocks...)
		return
	}
	r.req.System += transcript.Message{Content: blocks}.Text()
}

// responsesGiven are the types of parts that the model does not write.
var responsesGiven = []string{"input_text", "input_image", "input_file"}

func (r *responsesReferee) call(i int, kind, id string, m map[string]any) {
	param, name := fmt.Sprintf("input[%d]", i), text(m["name"])
	r.name("id", param+".call_id", id, maxName, i, -1)
	var input json.RawMessage
	switch asked := strings.Fields(itemKinds[kind].asked); {
	case len(asked) > 0:
		name = strings.TrimSuffix(kind, "_call")
		maps.DeleteFunc(m, func(name string, _ any) bool { return !slices.Contains(asked, name) })
		input = encode(m)
		r.want(len(m) == 1, "input", i, -1, "Missing required parameter: '%s.%s'.", param, asked[0])
	case kind == "function_call":
		input = r.arguments(param+".arguments", m["arguments"], i, -1)
	default:
		input = encode(map[string]string{"input": text(m["input"])})
	}
	r.name("name", param+".name", name, maxName, i, -1)
	r.say(transcript.RoleAssistant, transcript.ToolCallBlock{ID: id, Name: name, Input: input})
	if r.want(r.fresh("call", id), "id-unique", i, -1, "Duplicate function call with call_id %s.", id) {
		r.calls = append(r.calls, openCall{id, itemKinds[kind].output, i, r.seen[[2]string{"output", id}]})
	}
}

func (r *responsesReferee) output(i int, kind, id string, output any) {
	r.settle(i, id, kind, "No tool call found for function call output with call_id "+id+".", "Duplicate function call output with call_id "+id+".")
	r.fresh("output", id)
	param := fmt.Sprintf("input[%d].output", i)
	var content []transcript.Block
	switch want := map[string]string{"shell_call_output": "an array", "apply_patch_call_output": "a string"}[kind]; {
	case want != "":
		r.want(output == nil || jsonType(output) == want, "type", i, -1, "Invalid type for '%s'.", param)
		content = []transcript.Block{transcript.TextBlock{Text: cmp.Or(text(output), string(encode(output)))}}
	case kind == "computer_call_output":
		p := object(output)
		url, file := imageURL(p), text(p["file_id"])
		r.want(p["type"] == "computer_screenshot" && url+file != "", "source", i, -1, "Invalid '%s'. Expected a screenshot.", param)
		content = []transcript.Block{transcript.ImageBlock{Source: openAISource(url, file)}}
	default:
		content = r.content(i, param, output, responsesGiven, true)
	}
	r.say(transcript.RoleUser, transcript.ToolResultBlock{CallID: id}.WithContent(content...))
}

// Form returns the common form of all answers.
func (OpenAIResponses) Form() Form {
	const full = "Your input exceeds the context window of this model. Please adjust your input and try again."
	return openAIForm(full, full, "input", "max_output_tokens")
}

// afterReasoning precedes, in the ID of an item, the ID of the reasoning that
// led up to it.
const afterReasoning = "-after-"

func responsesOutput(a Message) (items []map[string]any) {
	reasoning := ""
	for i, b := range a.Content {
		id := func(prefix string) string {
			if reasoning == "" {
				return openAIID(prefix, a.ID, i)
			}
			return openAIID(prefix, a.ID, i) + afterReasoning + reasoning
		}
		var item map[string]any
		thought := ""
		switch b := b.(type) {
		case transcript.ThinkingBlock:
			thought = openAIID("rs", a.ID, i)
			item = reasoningItem(thought, b.Thinking, b.Signature)
		case transcript.RedactedThinkingBlock:
			thought = openAIID("rs", a.ID, i)
			item = reasoningItem(thought, "", b.Data)
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
		reasoning = thought
		items = append(items, item)
	}
	return items
}

func reasoningItem(id, text, encrypted string) map[string]any {
	summary := []any{}
	if text != "" {
		summary = append(summary, map[string]any{"type": "summary_text", "text": text})
	}
	return map[string]any{"id": id, "type": "reasoning", "summary": summary, "encrypted_content": cmp.Or(encrypted, "ZW5jcnlwdGVk")}
}

func response(a Message, output []map[string]any) map[string]any {
	status, details := "completed", any(nil)
	switch {
	case a.Stop == transcript.StopMaxTokens, a.Stop == transcript.StopContextWindow:
		status, details = "incomplete", map[string]any{"reason": "max_output_tokens"}
	case a.Stop == transcript.StopRefusal && len(output) == 0:
		status, details = "incomplete", map[string]any{"reason": "content_filter"}
	}
	return map[string]any{
		"id": openAIID("resp", a.ID, 0), "object": "response", "created_at": 1_700_000_000, "model": a.Model, "status": status, "error": nil,
		"incomplete_details": details, "output": append([]map[string]any{}, output...), "usage": openAIUsage(a.Usage, "input_tokens", "output_tokens"),
	}
}

// Whole returns an answer that is not streamed.
func (OpenAIResponses) Whole(a Message) []byte { return encode(response(a, responsesOutput(a))) }

// Events returns an answer as a stream.
func (OpenAIResponses) Events(a Message) (events []Event) {
	add := func(name string, members map[string]any) {
		members["type"], members["sequence_number"] = name, len(events)
		events = append(events, Event{sse(name, encode(members)), name == inputDelta})
	}
	begun := response(a, nil)
	begun["status"], begun["usage"], begun["incomplete_details"] = "in_progress", nil, nil
	add("response.created", map[string]any{"response": begun})
	output := responsesOutput(a)
	for i, item := range output {
		start, kind, index, text := streamedItem(item)
		add("response.output_item.added", map[string]any{"output_index": i, "item": start})
		for _, piece := range split(text) {
			add(kind, map[string]any{"item_id": item["id"], "output_index": i, index: 0, "delta": piece})
		}
		add("response.output_item.done", map[string]any{"output_index": i, "item": item})
	}
	end := response(a, output)
	add(fmt.Sprint("response.", end["status"]), map[string]any{"response": end})
	return events
}

const inputDelta = "response.function_call_arguments.delta"

// streamedItem splits an item into its start and a text that events of a kind
// add to it.
func streamedItem(item map[string]any) (start map[string]any, kind, index, added string) {
	start = maps.Clone(item)
	first := func(name string) map[string]any {
		start[name] = []any{}
		for _, p := range list(item[name]) {
			return object(p)
		}
		return nil
	}
	index = "content_index"
	switch item["type"] {
	case "message":
		start["status"] = "in_progress"
		part := first("content")
		if added = text(part["text"]); added != "" {
			return start, "response.output_text.delta", index, added
		}
		return start, "response.refusal.delta", index, text(part["refusal"])
	case "reasoning":
		return start, "response.reasoning_summary_text.delta", "summary_index", text(first("summary")["text"])
	case "function_call":
		start["arguments"], start["status"] = "", "in_progress"
		return start, inputDelta, index, text(item["arguments"])
	}
	return start, "", index, ""
}

// Fail returns the event that ends a stream with an error.
func (OpenAIResponses) Fail(no *Refusal, a Message, _ string) Event {
	failed := response(a, nil)
	failed["status"], failed["usage"], failed["error"] = "failed", nil, map[string]any{"code": cmp.Or(no.Code, no.Kind), "message": no.Text}
	return Event{Data: sse("response.failed", encode(map[string]any{"type": "response.failed", "response": failed}))}
}
