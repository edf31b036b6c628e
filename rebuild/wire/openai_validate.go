package wire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/rebuild"
)

// An openAIReferee checks a body by the rules of one of OpenAI's APIs. It reads
// with encoding/json and has nothing in common with what renders.
type openAIReferee struct {
	found []rebuild.Violation
}

func (r *openAIReferee) flag(rule string, message, block int, format string, args ...any) {
	r.found = append(r.found, rebuild.Violation{Rule: rule, Message: message, Block: block, Text: fmt.Sprintf(format, args...)})
}

// body decodes the members of a request.
func (r *openAIReferee) body(body []byte) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members == nil {
		r.flag("json", -1, -1, "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)")
		return nil
	}
	var model string
	if json.Unmarshal(members["model"], &model) != nil || model == "" {
		r.flag("model", -1, -1, "you must provide a model parameter")
	}
	return members
}

// list decodes a member that must be a list that is not empty.
func (r *openAIReferee) list(members map[string]json.RawMessage, name string) (list []json.RawMessage) {
	raw, ok := members[name]
	switch {
	case !ok:
		r.flag("missing", -1, -1, "Missing required parameter: '%s'.", name)
	case json.Unmarshal(raw, &list) != nil || list == nil:
		r.flag("type", -1, -1, "Invalid type for '%s': expected an array of objects, but got %s instead.", name, jsonType(raw))
	case len(list) == 0:
		r.flag("messages", -1, -1, "%s", emptyArray(name))
	}
	return list
}

func emptyArray(param string) string {
	return fmt.Sprintf("Invalid '%s': empty array. Expected an array with minimum length 1, but got an empty array instead.", param)
}

// jsonType names the type of a JSON value as the provider does.
func jsonType(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return "nothing"
	}
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	case bool:
		return "a boolean"
	}
	return "an integer"
}

const (
	maxOpenAITools = 128
	maxOpenAIName  = 64
)

var openAIName = lazy.New(`^[a-zA-Z0-9_-]+$`)

// name checks the name of a tool or, with its own limit, the ID of a call.
func (r *openAIReferee) name(rule, param, name string, most, message, block int) {
	switch {
	case name == "":
		r.flag(rule, message, block, "Invalid '%s': empty string. Expected a string with minimum length 1, but got an empty string instead.", param)
	case len(name) > most:
		r.flag(rule+"-length", message, block, "Invalid '%s': string too long. Expected a string with maximum length %d, but got a string with length %d instead.", param, most, len(name))
	case !openAIName.Get().MatchString(name):
		r.flag(rule+"-pattern", message, block, "Invalid '%s': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", param)
	}
}

// arguments checks the input of a call: a JSON object in a string.
func (r *openAIReferee) arguments(param string, raw json.RawMessage, message, block int) {
	var text string
	var object map[string]json.RawMessage
	switch {
	case len(raw) == 0:
		r.flag("input", message, block, "Missing required parameter: '%s'.", param)
	case json.Unmarshal(raw, &text) != nil || jsonType(raw) == "null":
		r.flag("input", message, block, "Invalid type for '%s': expected a string, but got %s instead.", param, jsonType(raw))
	case json.Unmarshal([]byte(text), &object) != nil || object == nil:
		r.flag("input", message, block, "Invalid '%s': the arguments are not a JSON object.", param)
	}
}

// tools checks the definitions; function returns the one that is to have a
// name, or nil.
func (r *openAIReferee) tools(raw json.RawMessage, function func(json.RawMessage) (param string, def json.RawMessage)) {
	if raw == nil {
		return
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		r.flag("tools", -1, -1, "Invalid type for 'tools': expected an array of objects, but got %s instead.", jsonType(raw))
		return
	}
	if len(list) > maxOpenAITools {
		r.flag("tools", -1, -1, "Invalid 'tools': array too long. Expected an array with maximum length %d, but got an array with length %d instead.", maxOpenAITools, len(list))
	}
	for i, v := range list {
		param, def := function(v)
		if param == "" {
			continue // run by the provider
		}
		var f struct {
			Name       string                     `json:"name"`
			Parameters map[string]json.RawMessage `json:"parameters"`
		}
		if json.Unmarshal(def, &f) != nil {
			r.flag("tools", -1, -1, "Invalid type for 'tools[%d]%s': expected an object.", i, strings.TrimSuffix(param, "."))
			continue
		}
		r.name("tools", fmt.Sprintf("tools[%d]%sname", i, param), f.Name, maxOpenAIName, -1, -1)
		if string(f.Parameters["type"]) != `"object"` {
			r.flag("tools", -1, -1, "Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"', got 'type: %s'.", f.Name, f.Parameters["type"])
		}
	}
}

// imageURL checks where the bytes of an image are.
func (r *openAIReferee) imageURL(param, url string, message, block int) {
	if !strings.HasPrefix(strings.ToLower(url), "https://") && !isDataURL(url, "image/png", "image/jpeg", "image/gif", "image/webp") {
		r.flag("source", message, block, "Invalid '%s'. Expected a valid URL, but got a value with an invalid format.", param)
	}
}

// isDataURL reports whether url holds base64 of one of these media types.
func isDataURL(url string, types ...string) bool {
	kind, data, _ := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	_, err := base64.StdEncoding.DecodeString(data)
	return strings.HasPrefix(url, "data:") && slices.Contains(types, kind) && data != "" && err == nil && !strings.ContainsAny(data, "\r\n")
}
