package wiretest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/transcript"
)

// Gemini is generateContent of the Gemini API and of Vertex.
type Gemini struct {
	// Model is the model that is asked, which the path says: Gemini 3 and later
	// want signatures, and so does it if Model is empty.
	Model string
	// Stream says that the path asks for a stream.
	Stream bool
}

// Decode reads the body of a request and judges it. Calls that have no ID get one, and
// results are those of the calls before them, in their order.
func (g Gemini) Decode(body []byte) (Request, []Violation) {
	c := geminiCheck{model: g.Model}
	c.body(body)
	c.req.Model, c.req.Stream = g.Model, g.Stream
	return c.req, c.found
}

// Validate returns what is wrong with the body of a request.
func (g Gemini) Validate(body []byte) []Violation { return validate(g, body) }

type geminiCheck struct {
	judge
	model string
	calls []geminiCall // of the content before, if that is the model's
}

// A geminiCall is a call that waits for its response.
type geminiCall struct {
	call map[string]any
	id   string // that the call has in the request
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
	geminiMedia    = []string{
		"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif",
		"application/pdf", "text/plain", "text/html", "text/css", "text/markdown", "text/csv", "text/xml", "text/rtf",
		"text/javascript",
	}
)

func (c *geminiCheck) body(body []byte) {
	req := tree(body)
	if req == nil {
		c.flag("json", -1, -1, "Invalid JSON payload received. Unexpected token.")
		return
	}
	if at, _ := halfSurrogate(body); at >= 0 {
		c.flag("surrogate", -1, -1, "Invalid JSON payload received. Invalid unicode escape: %s", body[at:at+6])
	}
	c.members(req, geminiMembers, "", -1, -1)
	c.config(req["generationConfig"])
	if system, ok := req["systemInstruction"]; ok {
		c.system(system)
	}
	c.tools(req["tools"])
	contents := list(req["contents"])
	if len(contents) == 0 {
		c.flag("contents", -1, -1, "* GenerateContentRequest.contents: contents is not specified")
	}
	turn, before := c.runningTurn(contents), ""
	for i, v := range contents {
		before = c.content(i, v, before, i >= turn)
	}
	if before == "model" {
		c.flag("prefill", len(contents)-1, -1, "Requests ending with a model turn are not supported.")
	}
	if len(c.calls) > 0 {
		c.missing(len(contents)-1, 0)
	}
}

// members reports the members of obj that are not known.
func (c *geminiCheck) members(obj map[string]any, known []string, at string, content, part int) {
	if at != "" {
		at = " at '" + at + "'"
	}
	for _, name := range unknown(obj, known...) {
		c.flag("member", content, part, "Invalid JSON payload received. Unknown name %q%s: Cannot find field.", name, at)
	}
}

func (c *geminiCheck) config(v any) {
	if v == nil {
		return
	}
	config, ok := v.(map[string]any)
	if !ok {
		c.flag("member", -1, -1, "Invalid value at 'generation_config' (type.googleapis.com/google.ai.generativelanguage.v1beta.GenerationConfig)")
		return
	}
	if limit, ok := config["maxOutputTokens"]; ok {
		if c.req.MaxOutput, ok = integer(limit); !ok || c.req.MaxOutput < 1 {
			c.flag("max-tokens", -1, -1, "max_output_tokens must be positive.")
		}
	}
}

func (c *geminiCheck) system(v any) {
	parts := list(object(v)["parts"])
	if len(parts) == 0 {
		c.flag("text", -1, -1, "* GenerateContentRequest.system_instruction.parts: contents.parts must not be empty.")
	}
	for j, p := range parts {
		said := text(object(p)["text"])
		if strings.TrimSpace(said) == "" {
			c.flag("text", -1, -1, "* GenerateContentRequest.system_instruction.parts[%d].data: required oneof field 'data' must have one initialized field", j)
		}
		c.req.System += said
	}
}

func (c *geminiCheck) tools(v any) {
	tools, ok := v.([]any)
	if v != nil && !ok {
		c.flag("tools", -1, -1, "Invalid value at 'tools' (type.googleapis.com/google.ai.generativelanguage.v1beta.Tool)")
	}
	c.req.HasTools = len(tools) > 0
	names := map[string]bool{}
	for i, t := range tools {
		for j, f := range list(object(t)["functionDeclarations"]) {
			function := object(f)
			name := text(function["name"])
			at := fmt.Sprintf("tools[%d].function_declarations[%d]", i, j)
			c.members(function, []string{"name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema", "behavior"}, at, -1, -1)
			if !geminiName.Get().MatchString(name) {
				c.flag("name", -1, -1, "* GenerateContentRequest.%s.name: Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.", at)
			}
			if names[name] {
				c.flag("tools", -1, -1, "Duplicate function declaration found: %s", name)
			}
			names[name] = true
			tool := transcript.Tool{Name: name, Description: text(function["description"])}
			for _, schema := range []string{"parameters", "parametersJsonSchema"} {
				if s, ok := function[schema]; ok {
					tool.InputSchema = encode(s)
					if object(s) == nil {
						c.flag("tools", -1, -1, "* GenerateContentRequest.%s.%s: schema must be an object", at, schema)
					}
				}
			}
			c.req.Tools = append(c.req.Tools, tool)
		}
	}
}

// runningTurn returns the index of the last content in which the user speaks
// after an answer that calls nothing.
func (c *geminiCheck) runningTurn(contents []any) int {
	start, calls := 0, false
	for i, v := range contents {
		content := object(v)
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
	if content["role"] == "model" {
		return "model"
	}
	if holds(content, "functionResponse") {
		return "function"
	}
	return "user"
}

func holds(content map[string]any, name string) bool {
	return slices.ContainsFunc(list(content["parts"]), func(v any) bool { return object(v)[name] != nil })
}

// content checks one content and returns whose turn it is.
func (c *geminiCheck) content(i int, v any, before string, running bool) string {
	content, ok := v.(map[string]any)
	if !ok {
		c.flag("member", i, -1, "Invalid value at 'contents[%d]' (type.googleapis.com/google.ai.generativelanguage.v1beta.Content)", i)
		return before
	}
	c.members(content, []string{"role", "parts"}, fmt.Sprintf("contents[%d]", i), i, -1)
	role := transcript.RoleAssistant
	if content["role"] == "user" {
		role = transcript.RoleUser
	} else if content["role"] != "model" {
		c.flag("role", i, -1, "Please use a valid role: user, model.")
	}
	parts := list(content["parts"])
	if len(parts) == 0 {
		c.flag("parts", i, -1, "* GenerateContentRequest.contents[%d].parts: contents.parts must not be empty.", i)
	}
	turn := geminiTurn(content)
	calls := turn == "model" && holds(content, "functionCall")
	switch {
	case i == 0 && turn == "model" && calls, turn == before && turn == "model" && calls:
		c.flag("alternation", i, -1, "Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
	case i == 0 && turn == "model":
		c.flag("first-user", i, -1, "Please ensure that multiturn requests alternate between user and model.")
	case turn == "function" && before != "model":
		c.flag("orphan-result", i, -1, "Please ensure that function response turn comes immediately after a function call turn.")
	case turn == before:
		c.flag("alternation", i, -1, "Please ensure that multiturn requests alternate between user and model.")
	}
	if len(c.calls) > 0 && turn != "function" {
		c.missing(i-1, 0)
		c.calls = nil
	}
	var made []geminiCall
	var given []map[string]any
	signed := false
	for j, p := range parts {
		part, ok := p.(map[string]any)
		if !ok {
			c.flag("part", i, j, "Invalid value at 'contents[%d].parts[%d]' (type.googleapis.com/google.ai.generativelanguage.v1beta.Part)", i, j)
			continue
		}
		c.part(i, j, part, turn)
		signed = signed || part["thoughtSignature"] != nil
		block := geminiBlock(part)
		if call, ok := part["functionCall"].(map[string]any); ok {
			b, _ := block.(transcript.ToolCallBlock)
			b.ID = cmp.Or(b.ID, fmt.Sprintf("call_%d_%d", i, j))
			made, block = append(made, geminiCall{call, b.ID}), b
		}
		if response, ok := part["functionResponse"].(map[string]any); ok {
			if b, _ := block.(transcript.ToolResultBlock); len(given) < len(c.calls) {
				b.CallID = c.calls[len(given)].id
				block = b
			}
			given = append(given, response)
		}
		c.say(role, block)
	}
	switch turn {
	case "function":
		if len(given) != len(parts) {
			c.flag("mixed", i, -1, "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
		}
		c.pair(i, given)
		c.calls = nil
	case "model":
		if len(made) > 0 && running && !signed && c.signs() {
			c.flag("signature", i, -1, "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:%s` , position %d.", text(made[0].call["name"]), i+1)
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
		call := c.calls[k].call
		if call["name"] != response["name"] {
			c.flag("orphan-result", i, k, "function response %v answers function call %v", response["name"], call["name"])
		}
		if call["id"] != response["id"] {
			c.flag("orphan-result", i, k, "function response with ID %v answers function call with ID %v", response["id"], call["id"])
		}
	}
}

func (c *geminiCheck) missing(i, given int) {
	rule := "missing-result"
	if given > len(c.calls) {
		rule = "orphan-result"
	}
	c.flag(rule, i, -1, "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
}

// part checks one part.
func (c *geminiCheck) part(i, j int, part map[string]any, turn string) {
	at := fmt.Sprintf("contents[%d].parts[%d]", i, j)
	newer := unknown(part, append(slices.Clone(geminiPartData), geminiPartMore...)...)
	if turn != "model" { // which may say what is newer than this
		c.members(part, append(slices.Clone(geminiPartData), geminiPartMore...), at, i, j)
	}
	data := 0
	for _, name := range geminiPartData {
		if part[name] != nil {
			data++
		}
	}
	if data != 1 && (data > 1 || len(newer) == 0) {
		c.flag("part", i, j, "* GenerateContentRequest.%s.data: required oneof field 'data' must have one initialized field", at)
	}
	signature := text(part["thoughtSignature"])
	if part["thoughtSignature"] != nil && !isBytes(signature) && signature != "skip_thought_signature_validator" {
		c.flag("signature", i, j, "Invalid value at '%s.thought_signature' (TYPE_BYTES), Base64 decoding failed for %q", at, signature)
	}
	if said, ok := part["text"]; ok {
		if s, isString := said.(string); !isString {
			c.flag("text", i, j, "Invalid value at '%s.text' (TYPE_STRING), %v", at, said)
		} else if s == "" && signature == "" {
			c.flag("text", i, j, "Unable to submit request because it has an empty text parameter. Add a value to the parameter and try again.")
		}
	}
	if turn != "model" && (part["functionCall"] != nil || part["thought"] != nil || part["thoughtSignature"] != nil) {
		c.flag("part-role", i, j, "Please use a valid role: model, for function calls and thoughts.")
	}
	if turn == "model" && part["functionResponse"] != nil {
		c.flag("part-role", i, j, "Please use a valid role: user, for function responses.")
	}
	c.function(i, j, at+".function_call", part["functionCall"], "args", []string{"id", "name", "args"})
	c.function(i, j, at+".function_response", part["functionResponse"], "response", []string{"id", "name", "response", "parts", "willContinue", "scheduling"})
	if blob, ok := part["inlineData"]; ok {
		c.blob(i, j, at, blob)
	}
	if file, ok := part["fileData"]; ok {
		file := object(file)
		c.members(file, []string{"mimeType", "fileUri", "displayName"}, at+".file_data", i, j)
		if text(file["fileUri"]) == "" {
			c.flag("media", i, j, "* GenerateContentRequest.%s.file_data.file_uri: file_uri is not specified", at)
		}
	}
}

// function checks a call or a response.
func (c *geminiCheck) function(i, j int, at string, v any, member string, known []string) {
	if v == nil {
		return
	}
	f, ok := v.(map[string]any)
	if !ok {
		c.flag("args", i, j, "Invalid value at '%s'", at)
		return
	}
	c.members(f, known, at, i, j)
	if !geminiName.Get().MatchString(text(f["name"])) {
		c.flag("name", i, j, "* GenerateContentRequest.%s.name: Invalid function name. Must start with a letter or an underscore.", at)
	}
	if value, ok := f[member]; ok || member == "response" {
		if object(value) == nil {
			c.flag("args", i, j, "Invalid value at '%s.%s' (type.googleapis.com/google.protobuf.Struct), %v", at, member, value)
		}
	}
}

func (c *geminiCheck) blob(i, j int, at string, v any) {
	blob := object(v)
	c.members(blob, []string{"mimeType", "data", "displayName"}, at+".inline_data", i, j)
	mime := text(blob["mimeType"])
	if !slices.Contains(geminiMedia, mime) && !strings.HasPrefix(mime, "audio/") && !strings.HasPrefix(mime, "video/") {
		c.flag("media", i, j, "Unable to submit request because it has a mimeType parameter with value %s, which is not supported. Update the mimeType and try again.", mime)
	}
	if !isBytes(text(blob["data"])) {
		c.flag("media", i, j, "Invalid value at '%s.inline_data.data' (TYPE_BYTES), Base64 decoding failed", at)
	}
}

// geminiBlock returns a part as a block. A result has no call yet.
func geminiBlock(part map[string]any) transcript.Block {
	call, response, blob, file := object(part["functionCall"]), object(part["functionResponse"]), object(part["inlineData"]), object(part["fileData"])
	switch {
	case call != nil:
		input := encode(call["args"])
		if call["args"] == nil {
			input = nil
		}
		return transcript.ToolCallBlock{ID: text(call["id"]), Name: text(call["name"]), Input: input}
	case response != nil:
		object := object(response["response"])
		said, isText := object["output"].(string)
		failed, isError := object["error"].(string)
		if !isText && !isError {
			said = string(encode(object))
		}
		return transcript.ToolResultBlock{Content: []transcript.Block{transcript.TextBlock{Text: said + failed}}, IsError: isError && !isText}
	case blob != nil:
		source := transcript.Source{Type: "base64", MediaType: text(blob["mimeType"]), Data: text(blob["data"])}
		if strings.HasPrefix(source.MediaType, "image/") {
			return transcript.ImageBlock{Source: source}
		}
		return transcript.DocumentBlock{Source: source}
	case file != nil:
		return transcript.DocumentBlock{Source: transcript.Source{Type: "url", URL: text(file["fileUri"])}}
	case part["thought"] == true:
		return transcript.ThinkingBlock{Thinking: text(part["text"])}
	}
	return transcript.TextBlock{Text: text(part["text"])}
}
