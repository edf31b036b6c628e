package wire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/rebuild"
)

// Validate checks the body of a call of generateContent as strictly as the API
// does, and returns every violation in the order of the contents, with the
// index of the content and of the part; none means that the API will accept the
// request. The model that is asked is g.Model: Gemini 3 and later want
// signatures, and so does it if Model is empty. It shares no code with
// [Gemini.Request], so each tests the other.
//
// The rules:
//
//	json             the body is an object in UTF-8
//	member           there are no members that the API does not know
//	contents         there is at least one content
//	role             roles are user and model
//	first-user       the first is a user's
//	alternation      no two neighbours have the same role; a content of function
//	                 responses is a turn of its own, after which the user may speak
//	prefill          the last is a user's
//	parts            a content has parts
//	part             a part has exactly one kind of data
//	text             no text is empty, unless it carries a signature
//	part-role        calls and thoughts are the model's, responses the user's
//	mixed            function responses are alone in their content
//	missing-result   every call has a response in the next content
//	orphan-result    and every response a call in the previous one, of the same
//	                 name, in the same order, with the same ID if it has one
//	name             names of functions are 1 to 64 of A-Z a-z 0-9 _ . : - and
//	                 begin with a letter or _
//	args             arguments and responses are objects
//	signature        signatures are base64; the first call of an answer of the
//	                 running turn has one, or another part of that answer has
//	media            inline data is base64 of a media type the API takes
//	tools            functions have unique names
//	max-tokens       the output limit is positive
//	surrogate        strings have no halves of surrogate pairs
func (g Gemini) Validate(body []byte) []rebuild.Violation {
	c := geminiCheck{model: g.Model}
	c.body(body)
	return c.found
}

type geminiCheck struct {
	model string
	found []rebuild.Violation
	calls []map[string]any // of the content before, if that is the model's
}

func (c *geminiCheck) add(rule string, content, part int, format string, args ...any) {
	c.found = append(c.found, rebuild.Violation{Rule: rule, Message: content, Block: part, Text: fmt.Sprintf(format, args...)})
}

var (
	geminiMembers = []string{
		"contents", "systemInstruction", "tools", "toolConfig", "generationConfig",
		"safetySettings", "cachedContent", "labels", "model", "serviceTier", "store",
	}
	geminiPartData = []string{
		"text", "inlineData", "fileData", "functionCall", "functionResponse",
		"executableCode", "codeExecutionResult", "toolCall", "toolResponse",
	}
	geminiPartMore = []string{"thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution"}
	geminiName     = lazy.New(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)
	unsigned       = lazy.New(`gemini-(1|2|pro-vision)|gemma|learnlm`)
	halfEscape     = lazy.New(`(?i)\\\\|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|\\ud[89a-f][0-9a-f]{2}`)
	geminiMedia    = []string{
		"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif",
		"application/pdf", "text/plain", "text/html", "text/css", "text/markdown", "text/csv", "text/xml", "text/rtf",
		"text/javascript",
	}
)

func (c *geminiCheck) body(body []byte) {
	var req map[string]any
	if !json.Valid(body) || json.Unmarshal(body, &req) != nil || req == nil || strings.ToValidUTF8(string(body), "") != string(body) {
		c.add("json", -1, -1, "Invalid JSON payload received. Unexpected token.")
		return
	}
	for _, m := range halfEscape.Get().FindAll(body, -1) {
		if len(m) == len(`\ud800`) {
			c.add("surrogate", -1, -1, "Invalid JSON payload received. Invalid unicode escape: %s", m)
		}
	}
	c.members(req, geminiMembers, "", -1, -1)
	c.config(req["generationConfig"])
	if system, ok := req["systemInstruction"]; ok {
		c.system(system)
	}
	c.tools(req["tools"])
	contents, _ := req["contents"].([]any)
	if len(contents) == 0 {
		c.add("contents", -1, -1, "* GenerateContentRequest.contents: contents is not specified")
	}
	turn, before := c.runningTurn(contents), ""
	for i, v := range contents {
		before = c.content(i, v, before, i >= turn)
	}
	if before == "model" {
		c.add("prefill", len(contents)-1, -1, "Requests ending with a model turn are not supported.")
	}
	if len(c.calls) > 0 {
		c.missing(len(contents)-1, 0)
	}
}

// members reports the members of obj that are not known.
func (c *geminiCheck) members(obj map[string]any, known []string, at string, content, part int) {
	for _, name := range slices.Sorted(maps.Keys(obj)) {
		if !slices.Contains(known, name) {
			where := ""
			if at != "" {
				where = " at '" + at + "'"
			}
			c.add("member", content, part, "Invalid JSON payload received. Unknown name %q%s: Cannot find field.", name, where)
		}
	}
}

func (c *geminiCheck) config(v any) {
	if v == nil {
		return
	}
	config, ok := v.(map[string]any)
	if !ok {
		c.add("member", -1, -1, "Invalid value at 'generation_config' (type.googleapis.com/google.ai.generativelanguage.v1beta.GenerationConfig)")
		return
	}
	if limit, ok := config["maxOutputTokens"]; ok {
		if n, ok := limit.(float64); !ok || n < 1 || n != float64(int64(n)) {
			c.add("max-tokens", -1, -1, "max_output_tokens must be positive.")
		}
	}
}

func (c *geminiCheck) system(v any) {
	system, _ := v.(map[string]any)
	parts, _ := system["parts"].([]any)
	if len(parts) == 0 {
		c.add("text", -1, -1, "* GenerateContentRequest.system_instruction.parts: contents.parts must not be empty.")
	}
	for j, p := range parts {
		part, _ := p.(map[string]any)
		if text, _ := part["text"].(string); strings.TrimSpace(text) == "" {
			c.add("text", -1, -1, "* GenerateContentRequest.system_instruction.parts[%d].data: required oneof field 'data' must have one initialized field", j)
		}
	}
}

func (c *geminiCheck) tools(v any) {
	list, ok := v.([]any)
	if v != nil && !ok {
		c.add("tools", -1, -1, "Invalid value at 'tools' (type.googleapis.com/google.ai.generativelanguage.v1beta.Tool)")
	}
	names := map[string]bool{}
	for i, t := range list {
		tool, _ := t.(map[string]any)
		functions, _ := tool["functionDeclarations"].([]any)
		for j, f := range functions {
			function, _ := f.(map[string]any)
			name, _ := function["name"].(string)
			at := fmt.Sprintf("tools[%d].function_declarations[%d]", i, j)
			c.members(function, []string{"name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema", "behavior"}, at, -1, -1)
			if !geminiName.Get().MatchString(name) {
				c.add("name", -1, -1, "* GenerateContentRequest.%s.name: Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.", at)
			}
			if names[name] {
				c.add("tools", -1, -1, "Duplicate function declaration found: %s", name)
			}
			names[name] = true
			for _, schema := range []string{"parameters", "parametersJsonSchema"} {
				if s, ok := function[schema]; ok {
					if _, ok := s.(map[string]any); !ok {
						c.add("tools", -1, -1, "* GenerateContentRequest.%s.%s: schema must be an object", at, schema)
					}
				}
			}
		}
	}
}

// runningTurn returns the index of the last content in which the user speaks
// after an answer that calls nothing.
func (c *geminiCheck) runningTurn(contents []any) int {
	start, calls := 0, false
	for i, v := range contents {
		content, _ := v.(map[string]any)
		switch kind := geminiTurn(content); {
		case kind == "model":
			calls = holds(content, "functionCall")
		case kind == "user" && !calls:
			start = i
		}
	}
	return start
}

// geminiTurn returns whose turn a content is: that of the model, of the
// functions or of the user.
func geminiTurn(content map[string]any) string {
	if role, _ := content["role"].(string); role == "model" {
		return "model"
	}
	if holds(content, "functionResponse") {
		return "function"
	}
	return "user"
}

func holds(content map[string]any, name string) bool {
	parts, _ := content["parts"].([]any)
	return slices.ContainsFunc(parts, func(v any) bool {
		part, _ := v.(map[string]any)
		return part[name] != nil
	})
}

// content checks one content and returns whose turn it is.
func (c *geminiCheck) content(i int, v any, before string, running bool) string {
	content, ok := v.(map[string]any)
	if !ok {
		c.add("member", i, -1, "Invalid value at 'contents[%d]' (type.googleapis.com/google.ai.generativelanguage.v1beta.Content)", i)
		return before
	}
	c.members(content, []string{"role", "parts"}, fmt.Sprintf("contents[%d]", i), i, -1)
	role, _ := content["role"].(string)
	if role != "user" && role != "model" {
		c.add("role", i, -1, "Please use a valid role: user, model.")
	}
	parts, _ := content["parts"].([]any)
	if len(parts) == 0 {
		c.add("parts", i, -1, "* GenerateContentRequest.contents[%d].parts: contents.parts must not be empty.", i)
	}
	turn := geminiTurn(content)
	calls := turn == "model" && holds(content, "functionCall")
	switch {
	case i == 0 && turn == "model" && calls, turn == before && turn == "model" && calls:
		c.add("alternation", i, -1, "Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
	case i == 0 && turn == "model":
		c.add("first-user", i, -1, "Please ensure that multiturn requests alternate between user and model.")
	case turn == "function" && before != "model":
		c.add("orphan-result", i, -1, "Please ensure that function response turn comes immediately after a function call turn.")
	case turn == before:
		c.add("alternation", i, -1, "Please ensure that multiturn requests alternate between user and model.")
	}
	if len(c.calls) > 0 && turn != "function" {
		c.missing(i-1, 0)
		c.calls = nil
	}
	var made, given []map[string]any
	signed := false
	for j, p := range parts {
		part, ok := p.(map[string]any)
		if !ok {
			c.add("part", i, j, "Invalid value at 'contents[%d].parts[%d]' (type.googleapis.com/google.ai.generativelanguage.v1beta.Part)", i, j)
			continue
		}
		c.part(i, j, part, turn)
		signed = signed || part["thoughtSignature"] != nil
		if call, ok := part["functionCall"].(map[string]any); ok {
			made = append(made, call)
		}
		if response, ok := part["functionResponse"].(map[string]any); ok {
			given = append(given, response)
		}
	}
	switch turn {
	case "function":
		if len(given) != len(parts) {
			c.add("mixed", i, -1, "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
		}
		c.pair(i, given)
		c.calls = nil
	case "model":
		if len(made) > 0 && running && !signed && c.signs() {
			name, _ := made[0]["name"].(string)
			c.add("signature", i, -1, "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:%s` , position %d.", name, i+1)
		}
		c.calls = made
	}
	return turn
}

// signs reports whether the model wants signatures. Which versions do not is
// fixed; all others do.
func (c *geminiCheck) signs() bool {
	return !unsigned.Get().MatchString(c.model)
}

// pair checks the responses of content i against the calls before it.
func (c *geminiCheck) pair(i int, given []map[string]any) {
	if len(given) != len(c.calls) {
		c.missing(i, len(given))
		return
	}
	for k, response := range given {
		call := c.calls[k]
		if call["name"] != response["name"] {
			c.add("orphan-result", i, k, "function response %v answers function call %v", response["name"], call["name"])
		}
		if call["id"] != response["id"] {
			c.add("orphan-result", i, k, "function response with ID %v answers function call with ID %v", response["id"], call["id"])
		}
	}
}

func (c *geminiCheck) missing(i, given int) {
	rule := "missing-result"
	if given > len(c.calls) {
		rule = "orphan-result"
	}
	c.add(rule, i, -1, "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
}

// part checks one part.
func (c *geminiCheck) part(i, j int, part map[string]any, turn string) {
	at := fmt.Sprintf("contents[%d].parts[%d]", i, j)
	c.members(part, append(slices.Clone(geminiPartData), geminiPartMore...), at, i, j)
	data := 0
	for _, name := range geminiPartData {
		if part[name] != nil {
			data++
		}
	}
	if data != 1 {
		c.add("part", i, j, "* GenerateContentRequest.%s.data: required oneof field 'data' must have one initialized field", at)
	}
	signature, _ := part["thoughtSignature"].(string)
	if part["thoughtSignature"] != nil && !isBytes(signature) && signature != "skip_thought_signature_validator" {
		c.add("signature", i, j, "Invalid value at '%s.thought_signature' (TYPE_BYTES), Base64 decoding failed for %q", at, signature)
	}
	if text, ok := part["text"]; ok {
		if s, isString := text.(string); !isString {
			c.add("text", i, j, "Invalid value at '%s.text' (TYPE_STRING), %v", at, text)
		} else if s == "" && signature == "" {
			c.add("text", i, j, "Unable to submit request because it has an empty text parameter. Add a value to the parameter and try again.")
		}
	}
	if turn != "model" && (part["functionCall"] != nil || part["thought"] != nil || part["thoughtSignature"] != nil) {
		c.add("part-role", i, j, "Please use a valid role: model, for function calls and thoughts.")
	}
	if turn == "model" && part["functionResponse"] != nil {
		c.add("part-role", i, j, "Please use a valid role: user, for function responses.")
	}
	c.function(i, j, at+".function_call", part["functionCall"], "args", []string{"id", "name", "args"})
	c.function(i, j, at+".function_response", part["functionResponse"], "response", []string{"id", "name", "response", "parts", "willContinue", "scheduling"})
	if blob, ok := part["inlineData"]; ok {
		c.blob(i, j, at, blob)
	}
	if file, ok := part["fileData"]; ok {
		file, _ := file.(map[string]any)
		c.members(file, []string{"mimeType", "fileUri", "displayName"}, at+".file_data", i, j)
		if uri, _ := file["fileUri"].(string); uri == "" {
			c.add("media", i, j, "* GenerateContentRequest.%s.file_data.file_uri: file_uri is not specified", at)
		}
	}
}

// function checks a call or a response.
func (c *geminiCheck) function(i, j int, at string, v any, object string, known []string) {
	if v == nil {
		return
	}
	f, ok := v.(map[string]any)
	if !ok {
		c.add("args", i, j, "Invalid value at '%s'", at)
		return
	}
	c.members(f, known, at, i, j)
	if name, _ := f["name"].(string); !geminiName.Get().MatchString(name) {
		c.add("name", i, j, "* GenerateContentRequest.%s.name: Invalid function name. Must start with a letter or an underscore.", at)
	}
	if value, ok := f[object]; ok || object == "response" {
		if _, ok := value.(map[string]any); !ok {
			c.add("args", i, j, "Invalid value at '%s.%s' (type.googleapis.com/google.protobuf.Struct), %v", at, object, value)
		}
	}
}

func (c *geminiCheck) blob(i, j int, at string, v any) {
	blob, _ := v.(map[string]any)
	c.members(blob, []string{"mimeType", "data", "displayName"}, at+".inline_data", i, j)
	mime, _ := blob["mimeType"].(string)
	data, _ := blob["data"].(string)
	if !slices.Contains(geminiMedia, mime) && !strings.HasPrefix(mime, "audio/") && !strings.HasPrefix(mime, "video/") {
		c.add("media", i, j, "Unable to submit request because it has a mimeType parameter with value %s, which is not supported. Update the mimeType and try again.", mime)
	}
	if !isBytes(data) {
		c.add("media", i, j, "Invalid value at '%s.inline_data.data' (TYPE_BYTES), Base64 decoding failed", at)
	}
}

// isBytes reports whether s is base64 of at least one byte.
func isBytes(s string) bool {
	if s == "" {
		return false
	}
	if _, err := base64.StdEncoding.DecodeString(s); err == nil {
		return true
	}
	_, err := base64.RawStdEncoding.DecodeString(s)
	return err == nil
}
