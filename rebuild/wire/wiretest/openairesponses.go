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

// Decode reads a body and judges it by the rules of the Responses API. Message of a
// violation is the index of the item.
//
//	json, model, missing, type, messages   the body is an object with a model and
//	                 a list of items that is not empty
//	item             an item is of a type that can be given
//	role             roles are user, assistant, system and developer
//	member           an item has no members besides those of its type, unless
//	                 it has an ID and so is the provider's
//	content          a message has content
//	part             a part is of a type that its role may have
//	text             no text is empty, that of an output excepted
//	source           an image or a file says where its bytes are
//	missing-result   every call has an output behind it
//	doubled-result   and only one
//	orphan-result    an output has a call of its kind before it
//	id-unique        IDs of calls, and those of items, are unique in the body
//	id, id-length, id-pattern   those of calls are 1 to 64 letters, digits, _ and -
//	name, name-length, name-pattern   names of tools are, too
//	input            the arguments of a call are a JSON object in a string
//	reasoning        reasoning is followed by an item of the same answer, and is
//	                 encrypted unless the provider stores it
//	tools            there are at most 128 definitions, with names and schemas
func (o OpenAIResponses) Decode(body []byte) (Request, []Violation) {
	r := responsesReferee{calls: map[string]string{}, done: map[string]bool{}, items: map[string]bool{}}
	m := r.body(body)
	if m == nil {
		return r.req, r.found
	}
	if json.Unmarshal(m["store"], &r.stored) != nil {
		r.stored = true // what the API takes for it
	}
	if jsonType(m["input"]) == "a string" {
		r.say(transcript.RoleUser, transcript.TextBlock{Text: jsonText(m["input"])})
	} else {
		for i, raw := range r.list(m, "input") {
			r.item(i, raw)
		}
	}
	r.ends()
	r.tools(m["tools"], func(tool json.RawMessage) (string, json.RawMessage) {
		if t, _ := members(tool); jsonText(t["type"]) != "function" {
			return "", nil
		}
		return ".", tool
	})
	var previous, instructions string
	r.envelope(m, responsesRequestMembers, "Unknown parameter: '%s'.", "max_output_tokens")
	r.member(m, "instructions", "a string", &instructions)
	r.req.System = instructions + r.req.System
	if r.member(m, "previous_response_id", "a string", &previous) {
		r.flag("missing", -1, -1, "Previous response with id '%s' not found.", previous)
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

type checkedItem struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Encrypted string          `json:"encrypted_content"`
	Input     string          `json:"input"`
	Arguments json.RawMessage `json:"arguments"`
	Content   json.RawMessage `json:"content"`
	Output    json.RawMessage `json:"output"`
	Summary   json.RawMessage `json:"summary"`
}

func (r *responsesReferee) item(i int, raw json.RawMessage) {
	m, ok := members(raw)
	if !ok {
		r.flag("type", i, -1, "Invalid type for 'input[%d]': expected an input item, but got %s instead.", i, jsonType(raw))
		return
	}
	var it checkedItem
	_ = json.Unmarshal(raw, &it) // members of other types are as empty
	if _, given := m["type"]; !given && it.Role != "" {
		it.Type = "message"
	}
	known, ok := responsesMembers[it.Type]
	if !ok && (it.ID == "" || it.Type == "") { // else an item that is newer than this
		r.flag("item", i, -1, "Invalid value: '%s'. Supported values are: '%s'.", it.Type, strings.Join(slices.Sorted(maps.Keys(responsesMembers)), "', '"))
		return
	}
	if known != nil && it.ID == "" {
		for _, name := range unknown(m, append(known, "type")...) {
			r.flag("member", i, -1, "Unknown parameter: 'input[%d].%s'.", i, name)
		}
	}
	if known == nil && it.ID == "" && it.Encrypted == "" {
		r.flag("missing", i, -1, "Missing required parameter: 'input[%d].id'.", i)
	}
	if it.ID != "" && it.Type != "local_shell_call_output" {
		if r.items[it.ID] {
			r.flag("id-unique", i, -1, "Duplicate item found with id %s. Remove duplicate items from your input and try again.", it.ID)
		}
		r.items[it.ID] = true
	}
	if _, reasoning, ok := strings.Cut(it.ID, afterReasoning); ok && !r.items[reasoning] {
		r.flag("reasoning", i, -1, "Item '%s' of type '%s' was provided without its required 'reasoning' item: '%s'.", it.ID, it.Type, reasoning)
	}
	ofModel := it.Type != "message" && !strings.HasSuffix(it.Type, "_output") || it.Role == "assistant"
	if it.Type == "reasoning" || !ofModel {
		r.alone(it.Type == "reasoning")
	} else {
		r.pending = ""
	}
	switch it.Type {
	default:
		if b, err := transcript.UnmarshalBlock(raw); err == nil {
			r.say(transcript.RoleAssistant, b)
		}
	case "message":
		r.message(i, it)
	case "function_call", "custom_tool_call", "shell_call", "local_shell_call", "apply_patch_call", "computer_call":
		r.call(i, it, m)
	case "local_shell_call_output":
		it.CallID = it.ID
		r.output(i, it)
	case "function_call_output", "custom_tool_call_output", "shell_call_output", "apply_patch_call_output", "computer_call_output":
		r.output(i, it)
	case "reasoning":
		r.pending, r.at = it.ID, i
		if jsonType(it.Summary) != "an array" {
			r.flag("missing", i, -1, "Missing required parameter: 'input[%d].summary'.", i)
		}
		r.say(transcript.RoleAssistant, transcript.RawBlock{JSON: raw})
		if !r.stored && it.Encrypted == "" {
			r.flag("reasoning", i, -1, "Item with id '%s' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.", it.ID)
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

func (r *responsesReferee) message(i int, it checkedItem) {
	param := fmt.Sprintf("input[%d].content", i)
	switch it.Role {
	case "user":
		r.say(transcript.RoleUser, r.content(i, param, it.Content, responsesGiven, false)...)
	case "system", "developer":
		r.req.System += transcript.Message{Content: r.content(i, param, it.Content, responsesGiven, false)}.Text()
	case "assistant":
		r.say(transcript.RoleAssistant, r.content(i, param, it.Content, []string{"output_text", "refusal"}, false)...)
	default:
		r.flag("role", i, -1, "Invalid value: '%s'. Supported values are: 'assistant', 'system', 'developer', and 'user'.", it.Role)
	}
}

// responsesGiven are the types of parts that are not the model's.
var responsesGiven = []string{"input_text", "input_image", "input_file"}

// clientCalls are the calls that the client runs as the API defines them, with the
// members that say what is to be done.
var clientCalls = map[string][]string{
	"shell_call": {"action"}, "local_shell_call": {"action"}, "apply_patch_call": {"operation"}, "computer_call": {"action", "actions"},
}

func (r *responsesReferee) call(i int, it checkedItem, m map[string]json.RawMessage) {
	param := fmt.Sprintf("input[%d]", i)
	r.name("id", param+".call_id", it.CallID, 64, i, -1)
	var input json.RawMessage
	switch asked := clientCalls[it.Type]; {
	case asked != nil:
		it.Name = strings.TrimSuffix(it.Type, "_call")
		maps.DeleteFunc(m, func(name string, _ json.RawMessage) bool { return !slices.Contains(asked, name) })
		if input = encode(m); len(m) != 1 {
			r.flag("input", i, -1, "Missing required parameter: '%s.%s'.", param, asked[0])
		}
	case it.Type == "function_call":
		r.arguments(param+".arguments", it.Arguments, i, -1)
		input = json.RawMessage(jsonText(it.Arguments))
	default:
		input = encode(map[string]string{"input": it.Input})
	}
	r.name("name", param+".name", it.Name, maxOpenAIName, i, -1)
	r.say(transcript.RoleAssistant, transcript.ToolCallBlock{ID: it.CallID, Name: it.Name, Input: input})
	if _, twice := r.calls[it.CallID]; twice {
		r.flag("id-unique", i, -1, "Duplicate function call with call_id %s.", it.CallID)
		return
	}
	r.calls[it.CallID] = it.Type + "_output"
	r.order = append(r.order, openCall{it.CallID, i})
}

func (r *responsesReferee) output(i int, it checkedItem) {
	switch want, ok := r.calls[it.CallID]; {
	case !ok || want != it.Type:
		r.flag("orphan-result", i, -1, "No tool call found for function call output with call_id %s.", it.CallID)
	case r.done[it.CallID]:
		r.flag("doubled-result", i, -1, "Duplicate function call output with call_id %s.", it.CallID)
	}
	r.done[it.CallID] = true
	param := fmt.Sprintf("input[%d].output", i)
	var content []transcript.Block
	switch it.Type {
	case "shell_call_output", "apply_patch_call_output":
		if jsonType(it.Output) != map[string]string{"shell_call_output": "an array", "apply_patch_call_output": "a string"}[it.Type] && it.Output != nil {
			r.flag("type", i, -1, "Invalid type for '%s'.", param)
		}
		content = []transcript.Block{transcript.TextBlock{Text: cmp.Or(jsonText(it.Output), string(it.Output))}}
	case "computer_call_output":
		var p openAIPart
		if _ = json.Unmarshal(it.Output, &p); p.Type != "computer_screenshot" || p.imageURL() == "" && p.FileID == "" {
			r.flag("source", i, -1, "Invalid '%s'. Expected a screenshot.", param)
		}
		content = []transcript.Block{transcript.ImageBlock{Source: openAISource(p.imageURL(), p.FileID)}}
	default:
		content = r.content(i, param, it.Output, responsesGiven, true)
	}
	r.say(transcript.RoleUser, transcript.ToolResultBlock{CallID: it.CallID}.WithContent(content...))
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
