package wiretest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/transcript"
)

// openAI is what both APIs of OpenAI have in common.
type openAI struct{ sse }

// An openAIReferee reads and checks a body by the rules of one of OpenAI's APIs.
type openAIReferee struct{ judge }

// body decodes the members of a request.
func (r *openAIReferee) body(body []byte) map[string]any {
	at, _ := halfSurrogate(body)
	m := tree(body)
	if m == nil || at >= 0 {
		r.flag("json", -1, -1, "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)")
		return nil
	}
	if r.req.Model = text(m["model"]); r.req.Model == "" {
		r.flag("model", -1, -1, "you must provide a model parameter")
	}
	return m
}

// envelope checks the other members of a request: those that are known, and the
// types of stream and of the output limits.
func (r *openAIReferee) envelope(m map[string]any, known, unknownText string, limits ...string) {
	for _, name := range unknown(m, strings.Fields(known)...) {
		r.flag("member", -1, -1, unknownText, name)
	}
	r.req.Stream, _ = m["stream"].(bool)
	r.typed(m, "stream", "a boolean")
	for _, name := range limits {
		if !r.typed(m, name, "an integer") {
			continue
		}
		if r.req.MaxOutput, _ = integer(m[name]); r.req.MaxOutput < 1 {
			r.flag("max-tokens", -1, -1, "Invalid '%s': integer below minimum value. Expected a value >= 1, but got %d instead.", name, r.req.MaxOutput)
		}
	}
}

// typed reports whether there is a member of a type; another type is flagged.
func (r *openAIReferee) typed(m map[string]any, name, kind string) bool {
	value := m[name]
	if value != nil && jsonType(value) != kind {
		r.flag("type", -1, -1, "Invalid type for '%s': expected %s.", name, kind)
		return false
	}
	return value != nil
}

// list returns a member that must be a list that is not empty.
func (r *openAIReferee) list(m map[string]any, name string) []any {
	value, ok := m[name]
	switch {
	case !ok:
		r.flag("missing", -1, -1, "Missing required parameter: '%s'.", name)
	case jsonType(value) != "an array":
		r.flag("type", -1, -1, "Invalid type for '%s': expected an array of objects, but got %s instead.", name, jsonType(value))
	case len(list(value)) == 0:
		r.flag("messages", -1, -1, "%s", emptyArray(name))
	}
	return list(value)
}

func emptyArray(param string) string {
	return fmt.Sprintf("Invalid '%s': empty array. Expected an array with minimum length 1, but got an empty array instead.", param)
}

// jsonType names the type of a JSON value as the provider does.
func jsonType(v any) string {
	switch v := v.(type) {
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
	default:
		if _, ok := integer(v); !ok {
			return "a number"
		}
		return "an integer"
	}
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

// arguments checks the input of a call, a JSON object in a string, and returns it.
func (r *openAIReferee) arguments(param string, v any, message, block int) json.RawMessage {
	input, ok := v.(string)
	switch {
	case v == nil:
		r.flag("input", message, block, "Missing required parameter: '%s'.", param)
	case !ok:
		r.flag("input", message, block, "Invalid type for '%s': expected a string, but got %s instead.", param, jsonType(v))
	case tree([]byte(input)) == nil:
		r.flag("input", message, block, "Invalid '%s': the arguments are not a JSON object.", param)
	}
	return json.RawMessage(input)
}

// tools checks the definitions; function returns the one that is to have a
// name, or no param.
func (r *openAIReferee) tools(v any, function func(map[string]any) (param string, def any)) {
	if v != nil && jsonType(v) != "an array" {
		r.flag("tools", -1, -1, "Invalid type for 'tools': expected an array of objects, but got %s instead.", jsonType(v))
	}
	tools := list(v)
	r.req.HasTools = len(tools) > 0
	if len(tools) > maxOpenAITools {
		r.flag("tools", -1, -1, "Invalid 'tools': array too long. Expected an array with maximum length %d, but got an array with length %d instead.", maxOpenAITools, len(tools))
	}
	for i, tool := range tools {
		param, def := function(object(tool))
		f := object(def)
		switch {
		case param == "":
			continue // run by the provider
		case f == nil:
			r.flag("tools", -1, -1, "Invalid type for 'tools[%d]%s': expected an object.", i, strings.TrimSuffix(param, "."))
			continue
		}
		name, schema := text(f["name"]), object(f["parameters"])
		r.name("tools", fmt.Sprintf("tools[%d]%sname", i, param), name, maxOpenAIName, -1, -1)
		if schema["type"] != "object" {
			r.flag("tools", -1, -1, "Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"', got 'type: %s'.", name, encode(schema["type"]))
		}
		r.req.Tools = append(r.req.Tools, transcript.Tool{Name: name, Description: text(f["description"]), InputSchema: encode(f["parameters"])})
	}
}

// content checks a text or a list of parts of some types, and returns its blocks.
func (r *openAIReferee) content(i int, param string, v any, kinds []string, mayBeEmpty bool) (blocks []transcript.Block) {
	switch v := v.(type) {
	case string:
		if v != "" {
			blocks = append(blocks, transcript.TextBlock{Text: v})
		} else if !mayBeEmpty {
			r.flag("text", i, -1, "Invalid '%s': empty string. Expected a string with minimum length 1, but got an empty string instead.", param)
		}
	case []any:
		if len(v) == 0 && !mayBeEmpty {
			r.flag("content", i, -1, "%s", emptyArray(param))
		}
		for j, p := range v {
			if b := r.part(i, j, fmt.Sprintf("%s[%d]", param, j), p, kinds); b != nil {
				blocks = append(blocks, b)
			}
		}
	default:
		r.flag("content", i, -1, "Invalid type for '%s': expected one of a string or array of objects, but got %s instead.", param, jsonType(v))
	}
	return blocks
}

// part checks a part and returns its block, nil if it is not of a type that it may
// have.
func (r *openAIReferee) part(i, j int, param string, v any, kinds []string) transcript.Block {
	p := object(v)
	if p == nil {
		r.flag("part", i, j, "Invalid type for '%s': expected an object, but got %s instead.", param, jsonType(v))
		return nil
	}
	kind := text(p["type"])
	if !slices.Contains(kinds, kind) {
		if kind == "image_url" {
			r.flag("part", i, j, "Invalid 'messages[%d]'. Image URLs are only allowed for messages with role 'user', but this message with role 'tool' contains an image URL.", i)
			return nil
		}
		r.flag("part", i, j, "Invalid value: '%s'. Supported values are: '%s'.", kind, strings.Join(kinds, "', '"))
		return nil
	}
	switch kind {
	case "image_url", "input_image":
		return r.image(i, j, param, kind, p)
	case "input_audio":
		audio := object(p["input_audio"])
		if !isBytes(text(audio["data"])) || text(audio["format"]) == "" {
			r.flag("source", i, j, "Invalid '%s.input_audio'. Expected base64 data and a format.", param)
		}
		return transcript.TextBlock{}
	case "file":
		file := object(p["file"])
		if !isFile(file) {
			r.flag("source", i, j, "Invalid '%s.file'. Expected a file ID, or a filename and base64 data with a MIME type.", param)
		}
		return transcript.DocumentBlock{Title: text(file["filename"]), Source: openAISource(text(file["file_data"]), text(file["file_id"]))}
	case "input_file":
		url := text(p["file_url"])
		if !isFile(p) && !isHTTPS(url) {
			r.flag("source", i, j, "Invalid '%s'. Expected a file ID, a URL, or a filename and base64 data with a MIME type.", param)
		}
		return transcript.DocumentBlock{Title: text(p["filename"]), Source: openAISource(text(p["file_data"])+url, text(p["file_id"]))}
	case "thinking":
		var said strings.Builder
		for _, chunk := range list(p["thinking"]) {
			said.WriteString(text(object(chunk)["text"]))
		}
		return transcript.ThinkingBlock{Thinking: said.String()}
	}
	said := text(p["text"]) + text(p["refusal"])
	if said == "" {
		r.flag("text", i, j, "Invalid '%s.%s': empty string. Expected a string with minimum length 1, but got an empty string instead.", param, kind)
	}
	return transcript.TextBlock{Text: said}
}

func (r *openAIReferee) image(i, j int, param, kind string, p map[string]any) transcript.Block {
	member := "image_url"
	if kind == "image_url" {
		param, member = param+".image_url", "url"
	}
	url, id := imageURL(p), text(p["file_id"])
	if id == "" && !isHTTPS(url) && !isDataURL(url, "image/png", "image/jpeg", "image/gif", "image/webp") {
		r.flag("source", i, j, "Invalid '%s.%s'. Expected a valid URL, but got a value with an invalid format.", param, member)
	}
	return transcript.ImageBlock{Source: openAISource(url, id)}
}

// imageURL returns where an image is.
func imageURL(p map[string]any) string {
	return text(p["image_url"]) + text(object(p["image_url"])["url"])
}

// isFile reports whether a part says where a file is: by an ID or by its bytes.
func isFile(p map[string]any) bool {
	if text(p["file_id"]) != "" {
		return text(p["file_data"]) == ""
	}
	return text(p["filename"]) != "" && isDataURL(text(p["file_data"]), "application/pdf")
}

func isHTTPS(url string) bool { return strings.HasPrefix(strings.ToLower(url), "https://") }

// isDataURL reports whether url holds base64 of one of these media types.
func isDataURL(url string, types ...string) bool {
	kind, data, _ := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	_, err := base64.StdEncoding.DecodeString(data)
	return strings.HasPrefix(url, "data:") && slices.Contains(types, kind) && data != "" && err == nil && !strings.ContainsAny(data, "\r\n")
}

func openAISource(url, fileID string) transcript.Source {
	if data, ok := strings.CutPrefix(url, "data:"); ok {
		media, data, _ := strings.Cut(data, ";base64,")
		return transcript.Source{Type: "base64", MediaType: media, Data: data}
	}
	if fileID != "" {
		return transcript.Source{Type: "file", FileID: fileID}
	}
	return transcript.Source{Type: "url", URL: url}
}

// Word returns an error in the words of the provider.
func (openAI) Word(no Refusal, _ int64) Refusal {
	if !no.Usual {
		return no
	}
	say := func(status int, kind, code, text string) {
		no.Status, no.Kind, no.Code, no.Text = status, kind, code, text
	}
	switch no.Kind {
	case KindOverloaded:
		say(http.StatusServiceUnavailable, "server_error", "", "The engine is currently overloaded, please try again later")
	case KindRate:
		say(http.StatusTooManyRequests, "requests", "rate_limit_exceeded",
			"Rate limit reached on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again later.")
	case KindAPI:
		say(http.StatusInternalServerError, "server_error", "", "The server had an error while processing your request. Sorry about that!")
	case KindUnauthorized:
		say(http.StatusUnauthorized, KindInvalid, "invalid_api_key",
			"Incorrect API key provided: key. You can find your API key at https://platform.openai.com/account/api-keys.")
	}
	return no
}

// Head sets the headers of an answer.
func (openAI) Head(h http.Header, _ *Refusal, requestID string) { h.Set("X-Request-Id", requestID) }

// Refuse returns the body of an error.
func (openAI) Refuse(no *Refusal, _ string) []byte {
	return encode(map[string]any{"error": openAIError(no)})
}

func openAIError(no *Refusal) map[string]any {
	orNull := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	return map[string]any{"message": no.Text, "type": no.Kind, "param": orNull(no.Param), "code": orNull(no.Code)}
}

// tooLong refuses a prompt that is longer than the window.
func (openAI) tooLong(param, format string, args ...any) *Refusal {
	no := overflow(format, args...)
	no.Param, no.Code = param, "context_length_exceeded"
	return no
}

// tooMuch refuses a request for more output than the model gives.
func (openAI) tooMuch(l Limits, req Request, param string) *Refusal {
	if l.MaxOutput == 0 || req.MaxOutput <= l.MaxOutput {
		return nil
	}
	no := Invalid("max_tokens is too large: %d. This model supports at most %d completion tokens, whereas you provided %d.", req.MaxOutput, l.MaxOutput, req.MaxOutput)
	no.Param, no.Code = param, "invalid_value"
	return no
}

// usage returns the counts of an answer under the names of the API.
func (openAI) usage(u transcript.Usage, prompt, completion, details string) map[string]any {
	out := map[string]any{
		prompt: u.Prompt(), completion: u.Output, "total_tokens": u.Prompt() + u.Output,
		details: map[string]any{"cached_tokens": u.CacheRead},
	}
	for name, value := range u.Extra {
		out[name] = value
	}
	return out
}

// openAIID returns the ID of an item of an answer.
func openAIID(prefix string, answer, item int) string {
	return fmt.Sprintf("%s_%06d_%d", prefix, answer, item)
}
