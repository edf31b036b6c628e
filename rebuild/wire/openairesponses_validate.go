package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/convolog/convolog/rebuild"
)

// Validate checks a body by the rules of the Responses API as strictly as the
// provider does, and returns every violation in the order of the items, in the
// provider's words where they are known; none means that the provider will
// accept the body. Message is the index of the item. It shares no code with
// [OpenAIResponses.Request].
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
func (s OpenAIResponses) Validate(body []byte) []rebuild.Violation {
	r := responsesReferee{calls: map[string]string{}, done: map[string]bool{}, items: map[string]bool{}}
	members := r.body(body)
	if members == nil {
		return r.found
	}
	if json.Unmarshal(members["store"], &r.stored) != nil {
		r.stored = true // what the API takes for it
	}
	if jsonType(members["input"]) != "a string" {
		for i, raw := range r.list(members, "input") {
			r.item(i, raw)
		}
	}
	r.ends()
	r.tools(members["tools"], func(tool json.RawMessage) (string, json.RawMessage) {
		var t struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(tool, &t) == nil && t.Type != "function" {
			return "", nil
		}
		return ".", tool
	})
	return r.found
}

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
	"reasoning":               {"id", "status", "summary", "content", "encrypted_content"},
	// Made by the provider, with whatever members.
	"web_search_call": nil, "file_search_call": nil, "code_interpreter_call": nil, "image_generation_call": nil,
	"mcp_list_tools": nil, "mcp_call": nil, "compaction": nil,
}

type checkedItem struct {
	kind, id, role, callID, name, encrypted string
	arguments, content, output, summary     json.RawMessage
}

// memberText returns a member that is a string.
func memberText(members map[string]json.RawMessage, name string) (s string) {
	_ = json.Unmarshal(members[name], &s) // none is as empty
	return s
}

func (r *responsesReferee) item(i int, raw json.RawMessage) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		r.flag("type", i, -1, "Invalid type for 'input[%d]': expected an input item, but got %s instead.", i, jsonType(raw))
		return
	}
	it := checkedItem{
		kind: memberText(members, "type"), id: memberText(members, "id"), role: memberText(members, "role"), callID: memberText(members, "call_id"),
		name: memberText(members, "name"), encrypted: memberText(members, "encrypted_content"),
		arguments: members["arguments"], content: members["content"], output: members["output"], summary: members["summary"],
	}
	if _, given := members["type"]; !given && it.role != "" {
		it.kind = "message"
	}
	known, ok := responsesMembers[it.kind]
	if !ok {
		r.flag("item", i, -1, "Invalid value: '%s'. Supported values are: '%s'.", it.kind, strings.Join(slices.Sorted(maps.Keys(responsesMembers)), "', '"))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if known != nil && it.id == "" && name != "type" && !slices.Contains(known, name) {
			r.flag("member", i, -1, "Unknown parameter: 'input[%d].%s'.", i, name)
		}
	}
	if known == nil && it.id == "" && it.encrypted == "" {
		r.flag("missing", i, -1, "Missing required parameter: 'input[%d].id'.", i)
	}
	if it.id != "" {
		if r.items[it.id] {
			r.flag("id-unique", i, -1, "Duplicate item found with id %s. Remove duplicate items from your input and try again.", it.id)
		}
		r.items[it.id] = true
	}
	ofModel := it.kind != "message" && !strings.HasSuffix(it.kind, "_output") || it.role == "assistant"
	if it.kind == "reasoning" || !ofModel {
		r.alone(it.kind == "reasoning")
	} else {
		r.pending = ""
	}
	switch it.kind {
	case "message":
		r.message(i, it)
	case "function_call", "custom_tool_call":
		r.call(i, it)
	case "function_call_output", "custom_tool_call_output":
		r.output(i, it)
	case "reasoning":
		r.pending, r.at = it.id, i
		if jsonType(it.summary) != "an array" {
			r.flag("missing", i, -1, "Missing required parameter: 'input[%d].summary'.", i)
		}
		if !r.stored && it.encrypted == "" {
			r.flag("reasoning", i, -1, "Item with id '%s' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.", it.id)
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
	switch it.role {
	case "user", "system", "developer":
		r.content(i, fmt.Sprintf("input[%d].content", i), it.content, []string{"input_text", "input_image", "input_file"}, false)
	case "assistant":
		r.content(i, fmt.Sprintf("input[%d].content", i), it.content, []string{"output_text", "refusal"}, false)
	default:
		r.flag("role", i, -1, "Invalid value: '%s'. Supported values are: 'assistant', 'system', 'developer', and 'user'.", it.role)
	}
}

// content checks a text or a list of parts.
func (r *responsesReferee) content(i int, param string, raw json.RawMessage, kinds []string, mayBeEmpty bool) {
	var parts []json.RawMessage
	switch jsonType(raw) {
	case "a string":
		if string(raw) == `""` && !mayBeEmpty {
			r.flag("text", i, -1, "Invalid '%s': empty string. Expected a string with minimum length 1, but got an empty string instead.", param)
		}
	case "an array":
		_ = json.Unmarshal(raw, &parts) // is one
		if len(parts) == 0 && !mayBeEmpty {
			r.flag("content", i, -1, "%s", emptyArray(param))
		}
		for j, p := range parts {
			r.part(i, j, fmt.Sprintf("%s[%d]", param, j), p, kinds)
		}
	default:
		r.flag("content", i, -1, "Invalid type for '%s': expected one of an array of objects or string, but got %s instead.", param, jsonType(raw))
	}
}

func (r *responsesReferee) part(i, j int, param string, raw json.RawMessage, kinds []string) {
	var p map[string]json.RawMessage
	if json.Unmarshal(raw, &p) != nil {
		r.flag("part", i, j, "Invalid type for '%s': expected an object, but got %s instead.", param, jsonType(raw))
		return
	}
	kind := memberText(p, "type")
	if !slices.Contains(kinds, kind) {
		r.flag("part", i, j, "Invalid value: '%s'. Supported values are: '%s'.", kind, strings.Join(kinds, "', '"))
		return
	}
	switch kind {
	case "input_text", "output_text", "refusal":
		if memberText(p, "text") == "" && memberText(p, "refusal") == "" {
			r.flag("text", i, j, "Invalid '%s.text': empty string. Expected a string with minimum length 1, but got an empty string instead.", param)
		}
	case "input_image":
		if memberText(p, "file_id") == "" {
			r.imageURL(param+".image_url", memberText(p, "image_url"), i, j)
		}
	case "input_file":
		switch {
		case memberText(p, "file_id") != "", strings.HasPrefix(strings.ToLower(memberText(p, "file_url")), "https://"):
		case memberText(p, "filename") != "" && isDataURL(memberText(p, "file_data"), "application/pdf"):
		default:
			r.flag("source", i, j, "Invalid '%s'. Expected a file ID, a URL, or a filename and base64 data with a MIME type.", param)
		}
	}
}

func (r *responsesReferee) call(i int, it checkedItem) {
	param := fmt.Sprintf("input[%d]", i)
	r.name("id", param+".call_id", it.callID, 64, i, -1)
	r.name("name", param+".name", it.name, maxOpenAIName, i, -1)
	if it.kind == "function_call" {
		r.arguments(param+".arguments", it.arguments, i, -1)
	}
	if _, twice := r.calls[it.callID]; twice {
		r.flag("id-unique", i, -1, "Duplicate function call with call_id %s.", it.callID)
		return
	}
	r.calls[it.callID] = it.kind + "_output"
	r.order = append(r.order, openCall{it.callID, i})
}

func (r *responsesReferee) output(i int, it checkedItem) {
	switch want, ok := r.calls[it.callID]; {
	case !ok || want != it.kind:
		r.flag("orphan-result", i, -1, "No tool call found for function call output with call_id %s.", it.callID)
	case r.done[it.callID]:
		r.flag("doubled-result", i, -1, "Duplicate function call output with call_id %s.", it.callID)
	}
	r.done[it.callID] = true
	r.content(i, fmt.Sprintf("input[%d].output", i), it.output, []string{"input_text", "input_image", "input_file"}, true)
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
