package wiretest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// openAI is the common part of both APIs of OpenAI.
type openAI struct{}

// An openAIReferee reads and checks a body by the rules of one of OpenAI's APIs.
type openAIReferee struct {
	judge
	calls []openCall // calls whose results may still come
}

// An openCall is a call that needs a result.
type openCall struct {
	id, output string // the item type of its result, empty with Chat Completions
	index      int    // of its message or item
	done       bool
}

// settle finds the open call of result i, or flags the result as orphan or doubled.
func (r *openAIReferee) settle(i int, id, output, orphan, doubled string) {
	rule, said := "orphan-result", orphan
	for k := range r.calls {
		c := &r.calls[k]
		switch {
		case c.id != id:
		case c.output != output:
			c.done = true
		case c.done:
			rule, said = "doubled-result", doubled
		default:
			c.done = true
			return
		}
	}
	r.flag(rule, i, -1, "%s", said)
}

// open returns the calls without a result, and forgets all calls.
func (r *openAIReferee) open() []openCall {
	open := slices.DeleteFunc(r.calls, func(c openCall) bool { return c.done })
	r.calls = nil
	return open
}

func (r *openAIReferee) body(body []byte) map[string]any {
	at, _ := halfSurrogate(body)
	m := tree(body)
	if !r.want(m != nil && at < 0, "json", -1, -1, "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)") {
		return nil
	}
	r.req.Model = text(m["model"])
	r.want(r.req.Model != "", "model", -1, -1, "you must provide a model parameter")
	return m
}

// envelope checks the other members of a request: their names, and the types of
// stream and of the output limits.
func (r *openAIReferee) envelope(m map[string]any, known, unknownText string, limits ...string) {
	for _, name := range unknown(m, strings.Fields(known)...) {
		r.flag("member", -1, -1, unknownText, name)
	}
	r.count(1500, "Too many images: %d, but at most %d images are allowed.")
	r.req.Stream, _ = m["stream"].(bool)
	r.typed(m, "stream", "a boolean")
	for _, name := range limits {
		if !r.typed(m, name, "an integer") {
			continue
		}
		r.req.MaxOutput, _ = integer(m[name])
		r.want(r.req.MaxOutput >= 1, "max-tokens", -1, -1, "Invalid '%s': integer below minimum value. Expected a value >= 1, but got %d instead.", name, r.req.MaxOutput)
	}
}

// typed reports whether a member of a type exists; it flags another type.
func (r *openAIReferee) typed(m map[string]any, name, kind string) bool {
	return m[name] != nil && r.want(jsonType(m[name]) == kind, "type", -1, -1, "Invalid type for '%s': expected %s.", name, kind)
}

// list returns a member, which must be a list and not empty.
func (r *openAIReferee) list(m map[string]any, name string) []any {
	value, ok := m[name]
	_ = r.want(ok, "missing", -1, -1, "Missing required parameter: '%s'.", name) &&
		r.want(jsonType(value) == "an array", "type", -1, -1, notObjects, name, jsonType(value)) &&
		r.want(len(list(value)) > 0, "messages", -1, -1, emptyArray, name)
	return list(value)
}

// The words for errors that many members may have.
const (
	emptyArray  = "Invalid '%s': empty array. Expected an array with minimum length 1, but got an empty array instead."
	longArray   = "Invalid '%s': array too long. Expected an array with maximum length %d, but got an array with length %d instead."
	emptyString = "Invalid '%s': empty string. Expected a string with minimum length 1, but got an empty string instead."
	notObjects  = "Invalid type for '%s': expected an array of objects, but got %s instead."
)

// jsonType names the type of a JSON value as the provider does.
func jsonType(v any) string {
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
	if _, ok := integer(v); ok {
		return "an integer"
	}
	return "a number"
}

const maxOpenAITools = 128

func (r *openAIReferee) name(rule, param, name string, most, message, block int) {
	_ = r.want(name != "", rule, message, block, emptyString, param) &&
		r.want(len(name) <= most, rule+"-length", message, block, "Invalid '%s': string too long. Expected a string with maximum length %d, but got a string with length %d instead.", param, most, len(name)) &&
		r.want(isWord(name), rule+"-pattern", message, block, "Invalid '%s': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", param)
}

// arguments checks the input of a call, a JSON object in a string, and returns it.
func (r *openAIReferee) arguments(param string, v any, message, block int) json.RawMessage {
	input, ok := v.(string)
	_ = r.want(v != nil, "input", message, block, "Missing required parameter: '%s'.", param) &&
		r.want(ok, "input", message, block, "Invalid type for '%s': expected a string, but got %s instead.", param, jsonType(v)) &&
		r.want(tree([]byte(input)) != nil, "input", message, block, "Invalid '%s': the arguments are not a JSON object.", param)
	at, half := halfSurrogate([]byte(input))
	r.want(at < 0, "input", message, block, "Invalid '%s': %s", param, half)
	return json.RawMessage(input)
}

// tools checks the definitions. Nested ones are in a member "function", and may
// leave out their type.
func (r *openAIReferee) tools(v any, nested bool) {
	tools := list(v)
	r.want(v == nil || jsonType(v) == "an array", "tools", -1, -1, notObjects, "tools", jsonType(v))
	r.want(len(tools) <= maxOpenAITools, "tools", -1, -1, longArray, "tools", maxOpenAITools, len(tools))
	for i, tool := range tools {
		f, param := object(tool), fmt.Sprintf("tools[%d]", i)
		if kind := text(f["type"]); kind != "function" && (kind != "" || !nested) {
			continue // run by the provider
		}
		if nested {
			f, param = object(f["function"]), param+".function"
		}
		if !r.want(f != nil, "tools", -1, -1, "Invalid type for '%s': expected an object.", param) {
			continue
		}
		name, schema := text(f["name"]), object(f["parameters"])
		strict, isBool := f["strict"].(bool)
		r.want(isBool || f["strict"] == nil, "tools", -1, -1, "Invalid type for '%s.strict': expected a boolean.", param)
		// platform.openai.com/docs/guides/function-calling, tools-tool-search.
		for _, name := range unknown(f, strings.Fields("type name description parameters strict"+map[bool]string{false: " defer_loading"}[nested])...) {
			r.flag("tools", -1, -1, "Unknown parameter: '%s.%s'.", param, name)
		}
		r.name("tools", param+".name", name, maxName, -1, -1)
		r.want(schema["type"] == "object", "tools", -1, -1, "Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"', got 'type: %s'.", name, encode(schema["type"]))
		r.req.Tools = append(r.req.Tools, transcript.Tool{Name: name, Description: text(f["description"]), InputSchema: encode(f["parameters"]), Strict: strict})
	}
}

func (r *openAIReferee) content(i int, param string, v any, kinds []string, mayBeEmpty bool) (blocks []transcript.Block) {
	switch v := v.(type) {
	case string:
		if r.want(v != "" || mayBeEmpty, "text", i, -1, emptyString, param) && v != "" {
			blocks = append(blocks, transcript.TextBlock{Text: v})
		}
	case []any:
		r.want(len(v) > 0 || mayBeEmpty, "content", i, -1, emptyArray, param)
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

// part checks a part and returns its block, nil if its type is not allowed.
func (r *openAIReferee) part(i, j int, param string, v any, kinds []string) transcript.Block {
	p := object(v)
	kind := text(p["type"])
	known := slices.Contains(kinds, kind)
	if !r.want(p != nil, "part", i, j, "Invalid type for '%s': expected an object, but got %s instead.", param, jsonType(v)) ||
		!r.want(known || kind != "image_url", "part", i, j, "Invalid 'messages[%d]'. Image URLs are only allowed for messages with role 'user', but this message with role 'tool' contains an image URL.", i) ||
		!r.want(known, "part", i, j, "Invalid value: '%s'. Supported values are: '%s'.", kind, strings.Join(kinds, "', '")) {
		return nil
	}
	switch kind {
	case "image_url", "input_image":
		member := param + ".image_url"
		if kind == "image_url" {
			member += ".url"
		}
		url, id := imageURL(p), text(p["file_id"])
		r.want(id != "" || isHTTPS(url) || isDataURL(url, "image/png", "image/jpeg", "image/gif", "image/webp"), "source", i, j,
			"Invalid '%s'. Expected a valid URL, but got a value with an invalid format.", member)
		return transcript.ImageBlock{Source: openAISource(url, id)}
	case "input_audio":
		audio := object(p["input_audio"])
		known := slices.Contains([]string{"wav", "mp3"}, text(audio["format"])) // platform.openai.com/docs/guides/audio
		r.want(isBytes(text(audio["data"])) && known, "source", i, j, "Invalid '%s.input_audio'. Expected base64 data and a format, 'wav' or 'mp3'.", param)
		return transcript.TextBlock{}
	case "file":
		file := object(p["file"])
		r.want(isFile(file), "source", i, j, "Invalid '%s.file'. Expected a file ID, or a filename and base64 data with a MIME type.", param)
		return openAIFile(file)
	case "input_file":
		r.want(isFile(p) || isHTTPS(text(p["file_url"])), "source", i, j, "Invalid '%s'. Expected a file ID, a URL, or a filename and base64 data with a MIME type.", param)
		return openAIFile(p)
	case "thinking":
		return transcript.ThinkingBlock{Thinking: texts(p["thinking"])}
	}
	said := text(p["text"]) + text(p["refusal"])
	r.want(said != "", "text", i, j, emptyString, param+"."+kind)
	return transcript.TextBlock{Text: said}
}

func imageURL(p map[string]any) string {
	return text(p["image_url"]) + text(object(p["image_url"])["url"])
}

// isFile reports whether a part locates a file: by an ID or by its bytes.
func isFile(p map[string]any) bool {
	if text(p["file_id"]) != "" {
		return text(p["file_data"]) == ""
	}
	return text(p["filename"]) != "" && isDataURL(text(p["file_data"]), "application/pdf")
}

func openAIFile(p map[string]any) transcript.Block {
	return transcript.DocumentBlock{Title: text(p["filename"]), Source: openAISource(text(p["file_data"])+text(p["file_url"]), text(p["file_id"]))}
}

func isHTTPS(url string) bool { return strings.HasPrefix(strings.ToLower(url), "https://") }

// isDataURL reports whether url holds base64 of one of these media types.
func isDataURL(url string, types ...string) bool {
	kind, data, _ := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	return strings.HasPrefix(url, "data:") && slices.Contains(types, kind) && isPadded(data) && begins(kind, data)
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

// openAIForm returns the common form of answers: prompt and both are the texts about
// requests longer than the window, messages and output the names of members.
func openAIForm(prompt, both, messages, output string) Form {
	return Form{
		MaxBody: 32 << 20, Whole: typeJSON, Stream: typeEvents, requestID: "X-Request-Id",
		usual: map[string]Refusal{
			KindOverloaded: {Status: http.StatusServiceUnavailable, Kind: "server_error", Text: "The engine is currently overloaded, please try again later"},
			KindRate: {
				Status: http.StatusTooManyRequests, Kind: "requests", Code: "rate_limit_exceeded",
				Text: "Rate limit reached on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again later.",
			},
			KindAPI: {Status: http.StatusInternalServerError, Kind: "server_error", Text: "The server had an error while processing your request. Sorry about that!"},
			KindUnauthorized: {
				Status: http.StatusUnauthorized, Kind: KindInvalid, Code: "invalid_api_key",
				Text: "Incorrect API key provided: key. You can find your API key at https://platform.openai.com/account/api-keys.",
			},
		},
		tooMuch: Refusal{Param: output, Code: "invalid_value", Text: "max_tokens is too large: {output}. This model supports at most {max} completion tokens, whereas you provided {output}."},
		tooLong: Refusal{Param: messages, Code: "context_length_exceeded", Text: prompt},
		noRoom:  Refusal{Param: messages, Code: "context_length_exceeded", Text: both},
	}
}

// Refuse returns the body of an error.
func (openAI) Refuse(no *Refusal, _ string) []byte {
	orNull := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	return encode(map[string]any{"error": map[string]any{"message": no.Text, "type": no.Kind, "param": orNull(no.Param), "code": orNull(no.Code)}})
}

func openAIUsage(u transcript.Usage, prompt, completion string) map[string]any {
	out := map[string]any{
		prompt: u.Prompt(), completion: u.Output, "total_tokens": u.Prompt() + u.Output,
		prompt + "_details": map[string]any{"cached_tokens": u.CacheRead},
	}
	for name, value := range u.Extra {
		out[name] = value
	}
	return out
}

func openAIID(prefix string, answer, item int) string {
	return fmt.Sprintf("%s_%06d_%d", prefix, answer, item)
}
