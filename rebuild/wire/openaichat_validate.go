package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/convolog/convolog/rebuild"
)

// Validate checks a body by the rules of the Chat Completions API, and by those
// that imitators of it have besides, as strictly as they do. It returns every
// violation in the order of the messages, in the provider's words where they
// are known; none means that the provider will accept the body. It shares no
// code with [OpenAIChat.Request].
//
//	json, model, missing, type, messages   the body is an object with a model and
//	                 a list of messages that is not empty
//	role             roles are system, developer, user, assistant and tool
//	member           a message has no members besides those of its role
//	content          a message has content, an answer that, or calls, or a refusal
//	part             a part is of a type that its role may have
//	text             no text is empty, that of a result excepted
//	source           an image or a file says where its bytes are
//	missing-result   every call has its result before any other message
//	doubled-result   and only one
//	orphan-result    a result answers a call of the answer before it
//	id-unique        IDs of calls are unique in the body
//	id, id-length, id-pattern   and 1 to 40 letters, digits, _ and -;
//	                 nine letters and digits with [OpenAIChat.ShortIDs]
//	name, name-length, name-pattern   names of tools are 1 to 64 of them
//	input            the arguments of a call are a JSON object in a string
//	calls            an answer has at most 128 calls
//	reasoning        and reasoning, with [OpenAIChat.Reasoning]
//	user-after-tool  a user message is not right behind results, and
//	prefill          the last is not an answer, both with [OpenAIChat.ShortIDs]
//	tools            there are at most 128 definitions, with names and schemas
func (c OpenAIChat) Validate(body []byte) []rebuild.Violation {
	r := chatReferee{format: c, ids: map[string]bool{}}
	members := r.body(body)
	if members == nil {
		return r.found
	}
	for i, raw := range r.list(members, "messages") {
		r.message(i, raw)
	}
	r.close()
	if r.format.ShortIDs && r.before == "assistant" {
		r.flag("prefill", r.at, -1, "Expected last role to be one of: [tool, user] but got assistant")
	}
	r.tools(members["tools"], func(tool json.RawMessage) (string, json.RawMessage) {
		var t struct {
			Type     string          `json:"type"`
			Function json.RawMessage `json:"function"`
		}
		if json.Unmarshal(tool, &t) == nil && t.Type != "function" && t.Type != "" {
			return "", nil
		}
		return ".function.", t.Function
	})
	return r.found
}

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

func (r *chatReferee) message(i int, raw json.RawMessage) {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m == nil {
		r.flag("type", i, -1, "Invalid type for 'messages[%d]': expected an object, but got %s instead.", i, jsonType(raw))
		return
	}
	var role string
	_ = json.Unmarshal(m["role"], &role) // an empty one is refused
	known := chatMembers[role]
	if known == nil {
		r.flag("role", i, -1, "Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.", role)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		reasoning := role == "assistant" && r.format.Reasoning && strings.HasPrefix(name, "reasoning")
		if name != "role" && !reasoning && !slices.Contains(known, name) {
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
	calls := 0
	if role == "assistant" {
		calls = r.calls(i, m["tool_calls"])
	}
	if calls > 0 && r.format.Reasoning && m["reasoning_content"] == nil && m["reasoning"] == nil {
		r.flag("reasoning", i, -1, "Missing `reasoning_content` field in the assistant message at message index %d", i)
	}
	r.content(i, role, m, calls)
}

func (r *chatReferee) content(i int, role string, m map[string]json.RawMessage, calls int) {
	raw := m["content"]
	var text string
	var parts []json.RawMessage
	switch jsonType(raw) {
	case "nothing", "null":
		var refusal string
		_ = json.Unmarshal(m["refusal"], &refusal) // none is as empty
		if role != "assistant" || calls == 0 && refusal == "" {
			r.flag("content", i, -1, "Invalid value for 'content': expected a string, got null.")
		}
	case "a string":
		_ = json.Unmarshal(raw, &text) // is one
		if text == "" && role != "tool" {
			r.flag("text", i, -1, "Invalid 'messages[%d].content': empty string. Expected a string with minimum length 1, but got an empty string instead.", i)
		}
	case "an array":
		_ = json.Unmarshal(raw, &parts) // is one
		if len(parts) == 0 {
			r.flag("content", i, -1, "%s", emptyArray(fmt.Sprintf("messages[%d].content", i)))
		}
		for j, p := range parts {
			r.part(i, j, role, p)
		}
	default:
		r.flag("content", i, -1, "Invalid type for 'messages[%d].content': expected one of a string or array of objects, but got %s instead.", i, jsonType(raw))
	}
}

func (r *chatReferee) part(i, j int, role string, raw json.RawMessage) {
	param := fmt.Sprintf("messages[%d].content[%d]", i, j)
	var p struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Refusal  string `json:"refusal"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
		File struct {
			ID   string `json:"file_id"`
			Name string `json:"filename"`
			Data string `json:"file_data"`
		} `json:"file"`
	}
	if json.Unmarshal(raw, &p) != nil {
		r.flag("part", i, j, "Invalid type for '%s': expected an object.", param)
		return
	}
	if !slices.Contains(chatParts[role], p.Type) {
		if p.Type == "image_url" {
			r.flag("part", i, j, "Invalid 'messages[%d]'. Image URLs are only allowed for messages with role 'user', but this message with role '%s' contains an image URL.", i, role)
			return
		}
		r.flag("part", i, j, "Invalid value: '%s'. Supported values are: '%s'.", p.Type, strings.Join(chatParts[role], "', '"))
		return
	}
	switch p.Type {
	case "text", "refusal":
		if p.Text == "" && p.Refusal == "" {
			r.flag("text", i, j, "Invalid '%s.%s': empty string. Expected a string with minimum length 1, but got an empty string instead.", param, p.Type)
		}
	case "image_url":
		r.imageURL(param+".image_url.url", p.ImageURL.URL, i, j)
	case "file":
		switch {
		case p.File.ID != "" && p.File.Data == "":
		case p.File.ID == "" && p.File.Name != "" && isDataURL(p.File.Data, "application/pdf"):
		default:
			r.flag("source", i, j, "Invalid '%s.file'. Expected a file ID, or a filename and base64 data with a MIME type.", param)
		}
	}
}

// calls checks the calls of an answer and returns how many there are.
func (r *chatReferee) calls(i int, raw json.RawMessage) int {
	r.at = i
	if raw == nil || jsonType(raw) == "null" {
		return 0
	}
	var calls []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	}
	param := fmt.Sprintf("messages[%d].tool_calls", i)
	if json.Unmarshal(raw, &calls) != nil {
		r.flag("type", i, -1, "Invalid type for '%s': expected an array of objects, but got %s instead.", param, jsonType(raw))
		return 1
	}
	switch {
	case len(calls) == 0:
		r.flag("calls", i, -1, "%s", emptyArray(param))
	case len(calls) > maxOpenAITools:
		r.flag("calls", i, -1, "Invalid '%s': array too long. Expected an array with maximum length %d, but got an array with length %d instead.", param, maxOpenAITools, len(calls))
	}
	for j, c := range calls {
		at := fmt.Sprintf("%s[%d]", param, j)
		if c.Type != "function" {
			r.flag("calls", i, j, "Invalid value: '%s'. Supported values are: 'function' and 'custom'.", c.Type)
		}
		r.id(at+".id", c.ID, i, j)
		if r.ids[c.ID] {
			r.flag("id-unique", i, j, "Duplicate value for 'tool_call_id' of '%s' in message[%d]", c.ID, i)
		}
		r.ids[c.ID] = true
		r.open = append(r.open, c.ID)
		r.name("name", at+".function.name", c.Function.Name, maxOpenAIName, i, j)
		r.arguments(at+".function.arguments", c.Function.Arguments, i, j)
	}
	return len(calls)
}

func (r *chatReferee) id(param, id string, i, j int) {
	const nine = 9
	if r.format.ShortIDs && (len(id) != nine || strings.ContainsAny(id, "_-")) {
		r.flag("id-length", i, j, "Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.", id)
	}
	r.name("id", param, id, 40, i, j)
}

// result checks that a tool message answers a call.
func (r *chatReferee) result(i int, m map[string]json.RawMessage) {
	var id string
	if json.Unmarshal(m["tool_call_id"], &id) != nil {
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
