package wiretest

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/transcript"
)

// Gemini is generateContent of the Gemini API and of Vertex.
type Gemini struct {
	// Model is the model named in the path: Gemini 3 and later want signatures,
	// and so does an empty Model.
	Model string
	// Stream is set if the path is for a stream.
	Stream bool
}

// Decode reads the body of a request and judges it. A call without an ID gets one. The
// results of a content answer the calls of the content before, in order.
func (g Gemini) Decode(body []byte) (Request, []Violation) {
	c := geminiCheck{model: g.Model}
	c.body(body)
	c.req.Model, c.req.Stream = g.Model, g.Stream
	return c.req, c.found
}

type geminiCheck struct {
	judge
	model string
	calls []geminiCall // of the content before, if the model made it
}

// A geminiCall is a call that waits for its response.
type geminiCall struct {
	call map[string]any
	id   string // of the call, in the request
}

const (
	geminiMembers  = "contents systemInstruction tools toolConfig generationConfig safetySettings cachedContent labels model serviceTier store"
	geminiPartData = "text inlineData fileData functionCall functionResponse executableCode codeExecutionResult toolCall toolResponse"
	geminiPartMore = "thought thoughtSignature partMetadata videoMetadata mediaResolution"
	geminiFunction = "name description parameters parametersJsonSchema response responseJsonSchema behavior"
	geminiAPI      = "type.googleapis.com/google.ai.generativelanguage.v1beta."
)

var (
	geminiName = lazy.New(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)
	unsigned   = lazy.New(`gemini-(1|2|pro-vision)|gemma|learnlm`)
	// Of parts of responses, which models before Gemini 3 do not take
	// (ai.google.dev/gemini-api/docs/function-calling: multimodal function responses).
	responseMedia = lazy.New(`^(image/(png|jpeg|webp)|application/pdf|text/plain)$`)
	geminiMedia   = lazy.New(`^(image/(png|jpeg|webp|heic|heif)|application/pdf|text/(plain|html|css|markdown|csv|xml|rtf|javascript)|audio/.*|video/.*)$`)
)

func (c *geminiCheck) body(body []byte) {
	req := tree(body)
	if !c.want(req != nil, "json", -1, -1, "Invalid JSON payload received. Unexpected token.") {
		return
	}
	if at, _ := halfSurrogate(body); at >= 0 {
		c.flag("surrogate", -1, -1, "Invalid JSON payload received. Invalid unicode escape: %s", body[at:at+6])
	}
	c.members(req, geminiMembers, "", -1, -1)
	config, ok := req["generationConfig"].(map[string]any)
	c.want(ok || req["generationConfig"] == nil, "member", -1, -1, "Invalid value at 'generation_config' (%sGenerationConfig)", geminiAPI)
	if limit, ok := config["maxOutputTokens"]; ok {
		c.req.MaxOutput, ok = integer(limit)
		c.want(ok && c.req.MaxOutput >= 1, "max-tokens", -1, -1, "max_output_tokens must be positive.")
	}
	system, ok := req["systemInstruction"]
	parts := list(object(system)["parts"])
	c.want(!ok || len(parts) > 0, "text", -1, -1, "* GenerateContentRequest.system_instruction.parts: contents.parts must not be empty.")
	for j, p := range parts {
		c.want(!blank(object(p)["text"]), "text", -1, -1, "* GenerateContentRequest.system_instruction.parts[%d].data: required oneof field 'data' must have one initialized field", j)
	}
	c.req.System = texts(parts)
	c.tools(req["tools"])
	contents := list(req["contents"])
	c.want(len(contents) > 0, "contents", -1, -1, "* GenerateContentRequest.contents: contents is not specified")
	turn, before := c.runningTurn(contents), ""
	for i, v := range contents {
		before = c.content(i, v, before, i >= turn)
	}
	c.want(before != "model", "prefill", len(contents)-1, -1, "Requests ending with a model turn are not supported.")
	c.pair(len(contents)-1, nil)
	c.count(3600, "Too many images: %d. Please use fewer than %d images in your request.")
}

// members flags the unknown members of obj.
func (c *geminiCheck) members(obj map[string]any, known, at string, content, part int) {
	if at != "" {
		at = " at '" + at + "'"
	}
	for _, name := range unknown(obj, strings.Fields(known)...) {
		c.flag("member", content, part, "Invalid JSON payload received. Unknown name %q%s: Cannot find field.", name, at)
	}
}

func (c *geminiCheck) tools(v any) {
	tools, ok := v.([]any)
	c.want(ok || v == nil, "tools", -1, -1, "Invalid value at 'tools' (%sTool)", geminiAPI)
	for i, t := range tools {
		for j, f := range list(object(t)["functionDeclarations"]) {
			function := object(f)
			name := text(function["name"])
			at := fmt.Sprintf("tools[%d].function_declarations[%d]", i, j)
			c.members(function, geminiFunction, at, -1, -1)
			c.want(geminiName.Get().MatchString(name), "name", -1, -1, "* GenerateContentRequest.%s.name: Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.", at)
			c.want(c.fresh("tool", name), "tools", -1, -1, "Duplicate function declaration found: %s", name)
			tool := transcript.Tool{Name: name, Description: text(function["description"])}
			for _, schema := range []string{"parameters", "parametersJsonSchema"} {
				if s, ok := function[schema]; ok {
					tool.InputSchema = encode(s)
					c.want(object(s) != nil, "tools", -1, -1, "* GenerateContentRequest.%s.%s: schema must be an object", at, schema)
				}
			}
			c.req.Tools = append(c.req.Tools, tool)
		}
	}
}

// runningTurn returns the index of the last content of the user after an answer
// without calls.
func (c *geminiCheck) runningTurn(contents []any) int {
	start, calls := 0, false
	for i, v := range contents {
		switch turn, called := geminiTurn(object(v)); {
		case turn == "model":
			calls = called
		case turn == "user" && !calls:
			start = i
		}
	}
	return start
}

// geminiTurn returns the author of a content ("model", "function" or "user") and
// whether the model calls functions.
func geminiTurn(content map[string]any) (turn string, calls bool) {
	parts := list(content["parts"])
	switch {
	case content["role"] == "model":
		return "model", hasBlock(parts, "functionCall")
	case hasBlock(parts, "functionResponse"):
		return "function", false
	}
	return "user", false
}

func (c *geminiCheck) content(i int, v any, before string, running bool) string {
	content, ok := v.(map[string]any)
	if !c.want(ok, "member", i, -1, "Invalid value at 'contents[%d]' (%sContent)", i, geminiAPI) {
		return before
	}
	c.members(content, "role parts", fmt.Sprintf("contents[%d]", i), i, -1)
	role := transcript.RoleAssistant
	if content["role"] == "user" {
		role = transcript.RoleUser
	}
	c.want(content["role"] == "model" || role == transcript.RoleUser, "role", i, -1, "Please use a valid role: user, model.")
	parts := list(content["parts"])
	c.want(len(parts) > 0, "parts", i, -1, "* GenerateContentRequest.contents[%d].parts: contents.parts must not be empty.", i)
	turn, calls := geminiTurn(content)
	const alternate = "Please ensure that multiturn requests alternate between user and model."
	switch {
	case calls && (i == 0 || before == turn):
		c.flag("alternation", i, -1, "Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
	case i == 0 && turn == "model":
		c.flag("first-user", i, -1, alternate)
	case turn == "function" && before != "model":
		c.flag("orphan-result", i, -1, "Please ensure that function response turn comes immediately after a function call turn.")
	case turn == before:
		c.flag("alternation", i, -1, alternate)
	}
	if turn != "function" {
		c.pair(i-1, nil)
	}
	var made []geminiCall
	var given []map[string]any
	signed := false
	for j, p := range parts {
		part, ok := p.(map[string]any)
		if !c.want(ok, "part", i, j, "Invalid value at 'contents[%d].parts[%d]' (%sPart)", i, j, geminiAPI) {
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
	if turn == "function" {
		c.want(len(given) == len(parts), "mixed", i, -1, unequal)
		c.pair(i, given)
	}
	if made != nil && turn == "model" {
		// The versions without signatures are fixed; all others want them.
		c.want(!running || signed || unsigned.Get().MatchString(c.model), "signature", i, -1, "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:%s` , position %d.", text(made[0].call["name"]), i+1)
		c.calls = made
	}
	return turn
}

const unequal = "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."

// pair checks the responses of content i against the calls before it, which then wait no more.
func (c *geminiCheck) pair(i int, given []map[string]any) {
	calls := c.calls
	c.calls = nil
	if !c.want(len(given) >= len(calls), "missing-result", i, -1, unequal) || !c.want(len(given) <= len(calls), "orphan-result", i, -1, unequal) {
		return
	}
	for k, response := range given {
		call := calls[k].call
		c.want(reflect.DeepEqual(call["name"], response["name"]), "orphan-result", i, k, "function response %v answers function call %v", response["name"], call["name"])
		c.want(reflect.DeepEqual(call["id"], response["id"]), "orphan-result", i, k, "function response with ID %v answers function call with ID %v", response["id"], call["id"])
	}
}

func (c *geminiCheck) part(i, j int, part map[string]any, turn string) {
	at := fmt.Sprintf("contents[%d].parts[%d]", i, j)
	const known = geminiPartData + " " + geminiPartMore
	if turn != "model" { // a model's may contain newer members
		c.members(part, known, at, i, j)
	}
	data := 0
	for name := range strings.FieldsSeq(geminiPartData) {
		if part[name] != nil {
			data++
		}
	}
	newer := len(unknown(part, strings.Fields(known)...)) > 0
	c.want(data == 1 || data == 0 && newer, "part", i, j, "* GenerateContentRequest.%s.data: required oneof field 'data' must have one initialized field", at)
	signature := text(part["thoughtSignature"])
	c.want(part["thoughtSignature"] == nil || isBytes(signature) || signature == "skip_thought_signature_validator", "signature", i, j,
		"Invalid value at '%s.thought_signature' (TYPE_BYTES), Base64 decoding failed for %q", at, signature)
	if said, ok := part["text"]; ok {
		s, isString := said.(string)
		_ = c.want(isString, "text", i, j, "Invalid value at '%s.text' (TYPE_STRING), %v", at, said) &&
			c.want(s != "" || signature != "", "text", i, j, "Unable to submit request because it has an empty text parameter. Add a value to the parameter and try again.")
	}
	ofModel := part["functionCall"] != nil || part["thought"] != nil || part["thoughtSignature"] != nil
	c.want(turn == "model" || !ofModel, "part-role", i, j, "Please use a valid role: model, for function calls and thoughts.")
	c.want(turn != "model" || part["functionResponse"] == nil, "part-role", i, j, "Please use a valid role: user, for function responses.")
	c.function(i, j, at+".function_call", part["functionCall"], "args", "id name args")
	c.function(i, j, at+".function_response", part["functionResponse"], "response", "id name response parts willContinue scheduling")
	c.inline(i, j, at, part, geminiMedia)
	for _, p := range list(object(part["functionResponse"])["parts"]) {
		c.members(object(p), "inlineData", at+".function_response.parts", i, j)
		c.want(!unsigned.Get().MatchString(c.model), "media", i, j, "Multimodal function responses are not supported by this model.")
		c.inline(i, j, at+".function_response.parts", object(p), responseMedia)
	}
	if file, ok := part["fileData"]; ok {
		file := object(file)
		c.members(file, "mimeType fileUri displayName", at+".file_data", i, j)
		c.want(text(file["fileUri"]) != "", "media", i, j, "* GenerateContentRequest.%s.file_data.file_uri: file_uri is not specified", at)
	}
}

// inline checks the bytes in a part and their media type.
func (c *geminiCheck) inline(i, j int, at string, part map[string]any, types *lazy.Regexp) {
	if blob, ok := part["inlineData"]; ok {
		blob, mime := object(blob), text(object(blob)["mimeType"])
		c.members(blob, "mimeType data displayName", at+".inline_data", i, j)
		c.want(types.Get().MatchString(mime), "media", i, j, "Unable to submit request because it has a mimeType parameter with value %s, which is not supported. Update the mimeType and try again.", mime)
		_ = c.want(isBytes(text(blob["data"])), "media", i, j, "Invalid value at '%s.inline_data.data' (TYPE_BYTES), Base64 decoding failed", at) &&
			c.want(begins(mime, text(blob["data"])), "media", i, j, "Unable to process input image. Please retry or report in the troubleshooting guide")
	}
}

func (c *geminiCheck) function(i, j int, at string, v any, member, known string) {
	f, ok := v.(map[string]any)
	if v == nil || !c.want(ok, "args", i, j, "Invalid value at '%s'", at) {
		return
	}
	c.members(f, known, at, i, j)
	c.want(geminiName.Get().MatchString(text(f["name"])), "name", i, j, "* GenerateContentRequest.%s.name: Invalid function name. Must start with a letter or an underscore.", at)
	value, ok := f[member]
	c.want(object(value) != nil || !ok && member != "response", "args", i, j, "Invalid value at '%s.%s' (type.googleapis.com/google.protobuf.Struct), %v", at, member, value)
}

// geminiBlock returns a part as a block. A result lacks its call here.
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
		given := object(response["response"])
		said, isText := given["output"].(string)
		failed, isError := given["error"].(string)
		if !isText && !isError {
			said = string(encode(given))
		}
		content := []transcript.Block{transcript.TextBlock{Text: said + failed}}
		for _, p := range list(response["parts"]) {
			content = append(content, geminiBlock(object(p)))
		}
		return transcript.ToolResultBlock{Content: content, IsError: isError && !isText}
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
