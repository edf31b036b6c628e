package wiretest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/transcript"
)

// Bedrock is Converse of Amazon Bedrock.
type Bedrock struct {
	// Model is the model that is asked, which the path says.
	Model string
	// Stream says that the path asks for a stream.
	Stream bool
	// PureResults says that nothing may be beside results. The models of Meta want
	// that too.
	PureResults bool
}

// Decode reads the body of a request and judges it.
func (b Bedrock) Decode(body []byte) (Request, []Violation) {
	c := bedrockCheck{pure: b.PureResults || strings.Contains(b.Model, "llama"), ids: map[string]bool{}, documents: map[string]bool{}}
	c.body(body)
	c.req.Model, c.req.Stream = b.Model, b.Stream
	return c.req, c.found
}

// Validate returns what is wrong with the body of a request.
func (b Bedrock) Validate(body []byte) []Violation { return validate(b, body) }

type bedrockCheck struct {
	judge
	pure      bool
	ids       map[string]bool // of calls
	calls     []string        // of the message before
	documents map[string]bool
	media     map[string]int
	tools     bool // the messages use tools
	points    int  // cache points so far
}

var (
	bedrockMembers = []string{
		"messages", "system", "inferenceConfig", "toolConfig", "guardrailConfig", "additionalModelRequestFields",
		"promptVariables", "additionalModelResponseFieldPaths", "requestMetadata", "performanceConfig", "serviceTier", "outputConfig",
	}
	bedrockData      = []string{"text", "image", "document", "toolUse", "toolResult", "reasoningContent", "cachePoint", "video", "audio", "guardContent", "searchResult", "citationsContent"}
	bedrockID        = lazy.New(`^[a-zA-Z0-9_.:-]+$`)
	bedrockName      = lazy.New(`^[a-zA-Z0-9_-]+$`)
	bedrockDocument  = lazy.New(`^[a-zA-Z0-9\-()\[\]]+( [a-zA-Z0-9\-()\[\]]+)*$`)
	bedrockImages    = []string{"png", "jpeg", "gif", "webp"}
	bedrockDocuments = []string{"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"}
)

func (c *bedrockCheck) body(body []byte) {
	req := tree(body)
	if req == nil {
		c.flag("json", -1, -1, "The request body is not valid JSON.")
		return
	}
	if at, _ := halfSurrogate(body); at >= 0 {
		c.flag("surrogate", -1, -1, "The request body is not valid JSON: %s", body[at:at+6])
	}
	c.members(req, bedrockMembers, "", -1, -1)
	for _, v := range list(req["system"]) {
		if object(v)["cachePoint"] != nil {
			c.points++
		}
		said, isText := object(v)["text"]
		if isText && blank(said) {
			c.flag("system", -1, -1, "The text field in the SystemContentBlock object at system.0 is blank. Add text to the text field, and try again.")
		}
		c.req.System += text(said)
	}
	for _, v := range list(object(req["toolConfig"])["tools"]) {
		if object(v)["cachePoint"] != nil {
			c.points++
		}
	}
	messages := list(req["messages"])
	if len(messages) == 0 {
		c.flag("messages", -1, -1, "A conversation must start with a user message. Try again with a conversation that starts with a user message.")
	}
	c.media = map[string]int{}
	before := ""
	for i, v := range messages {
		before = c.message(i, object(v), before)
	}
	if len(c.calls) > 0 {
		c.results(len(messages), nil)
	}
	if before == "assistant" {
		c.flag("prefill", len(messages)-1, -1, "This model does not support assistant message prefill. The conversation must end with a user message.")
	}
	if c.media["document"] > 5 {
		c.flag("media-count", -1, -1, "You can't include more than 5 documents in a request.")
	}
	if c.media["image"] > 20 {
		c.flag("media-count", -1, -1, "You can't include more than 20 images in a request.")
	}
	c.config(req, messages)
}

// config checks what is beside the messages.
func (c *bedrockCheck) config(req map[string]any, messages []any) {
	tools := list(object(req["toolConfig"])["tools"])
	if c.tools && len(tools) == 0 {
		c.flag("tool-config", -1, -1, "The toolConfig field must be defined when using toolUse and toolResult content blocks.")
	}
	c.req.HasTools = len(tools) > 0
	names := map[string]bool{}
	for i, v := range tools {
		spec := object(object(v)["toolSpec"])
		if spec == nil {
			continue // a tool of the provider, or a cache point
		}
		name := text(spec["name"])
		c.pattern("name", -1, -1, name, bedrockName, fmt.Sprintf("toolConfig.tools.%d.member.toolSpec.name", i+1))
		if names[name] {
			c.flag("tools", -1, -1, "The tool names in toolConfig must be unique: %s", name)
		}
		names[name] = true
		schema := object(object(spec["inputSchema"])["json"])
		if schema == nil {
			c.flag("tools", -1, -1, "The value at toolConfig.tools.%d.toolSpec.inputSchema.json is invalid. Provide a json object for the field and try again.", i)
		}
		c.req.Tools = append(c.req.Tools, transcript.Tool{Name: name, Description: text(spec["description"]), InputSchema: encode(schema)})
	}
	limit, limited := integer(object(req["inferenceConfig"])["maxTokens"])
	c.req.MaxOutput = limit
	if limited && limit < 1 {
		c.flag("max-tokens", -1, -1, "1 validation error detected: Value '%v' at 'inferenceConfig.maxTokens' failed to satisfy constraint: Member must have value greater than or equal to 1", limit)
	}
	thinking := object(object(req["additionalModelRequestFields"])["thinking"])
	if thinking["type"] != "enabled" {
		return
	}
	if budget, _ := integer(thinking["budget_tokens"]); limited && budget >= limit {
		c.flag("max-tokens", -1, -1, "The model returned the following errors: `max_tokens` must be greater than `thinking.budget_tokens`.")
	}
	for i, v := range slices.Backward(messages) {
		m := object(v)
		if m["role"] != "assistant" {
			continue
		}
		content := list(m["content"])
		if hasBlock(content, "toolUse") && object(content[0])["reasoningContent"] == nil {
			c.flag("thinking-order", i, 0, "The model returned the following errors: messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.", i)
		}
		break
	}
}

// message checks one message and returns its role.
func (c *bedrockCheck) message(i int, m map[string]any, before string) string {
	c.members(m, []string{"role", "content"}, fmt.Sprintf("messages.%d", i), i, -1)
	role := text(m["role"])
	c.say(transcript.Role(role))
	content := list(m["content"])
	switch {
	case role != "user" && role != "assistant":
		c.flag("role", i, -1, "1 validation error detected: Value '%s' at 'messages.%d.member.role' failed to satisfy constraint: Member must satisfy enum value set: [user, assistant]", role, i+1)
	case i == 0 && role == "assistant":
		c.flag("first-user", i, -1, "A conversation must start with a user message. Try again with a conversation that starts with a user message.")
	case role == before:
		c.flag("alternation", i, -1, "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.")
	}
	if len(content) == 0 {
		c.flag("content", i, -1, "The content field in the Message object at messages.%d is empty. Add a ContentBlock object to the content field and try again.", i)
	}
	var results, calls []string
	lastResult, called := -1, false
	for j, v := range content {
		b := object(v)
		c.block(i, j, b, role)
		if b["cachePoint"] == nil {
			c.say(transcript.Role(role), bedrockBlock(b))
		} else if c.points++; c.points > 4 {
			c.flag("cache-points", i, j, "The model returned the following errors: A maximum of 4 blocks with cache_control may be provided.")
		}
		if id, ok := object(b["toolResult"])["toolUseId"].(string); ok && role != "assistant" {
			results = append(results, id)
			if lastResult != j-1 {
				c.flag("result-order", i, j, "The model returned the following errors: messages.%d: `tool_result` blocks must come first in the content.", i)
			}
			lastResult = j
		}
		if id, ok := object(b["toolUse"])["toolUseId"].(string); ok && text(object(b["toolUse"])["type"]) == "" {
			calls, called = append(calls, id), true
		}
		if b["reasoningContent"] != nil && (called || j == len(content)-1) {
			c.flag("thinking-order", i, j, "The model returned the following errors: messages.%d: reasoning must come before the calls it led to and cannot end a message.", i)
		}
	}
	if hasBlock(content, "document") && !hasBlock(content, "text") {
		c.flag("document-text", i, -1, "The content field at messages.%d has a document without a text. Add a text block and try again.", i)
	}
	if c.pure && len(results) > 0 && len(results) < len(content) {
		c.flag("mixed", i, -1, "Conversation blocks and tool result blocks cannot be provided in the same turn.")
	}
	c.results(i, results)
	c.calls = calls
	c.tools = c.tools || len(results) > 0 || len(calls) > 0
	return role
}

// results checks the results of message i against the calls before it.
func (c *bedrockCheck) results(i int, results []string) {
	if len(results) > len(c.calls) {
		c.flag("orphan-result", i, -1, "The number of toolResult blocks at messages.%d.content exceeds the number of toolUse blocks of previous turn.", i)
		return
	}
	seen := map[string]bool{}
	for _, id := range results {
		if seen[id] {
			c.flag("doubled-result", i, -1, "The toolResult blocks at messages.%d.content contain duplicate Ids: %s", i, id)
		}
		seen[id] = true
	}
	var missing []string
	for _, id := range c.calls {
		if !seen[id] {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		c.flag("missing-result", i, -1, "Expected toolResult blocks at messages.%d.content for the following Ids: %s", i, strings.Join(missing, ", "))
	}
}

// block checks one block of a message.
func (c *bedrockCheck) block(i, j int, b map[string]any, role string) {
	at := fmt.Sprintf("messages.%d.content.%d", i, j)
	if role != "assistant" { // an answer may have what is newer than this
		c.members(b, bedrockData, at, i, j)
	}
	if len(b) != 1 {
		c.flag("block", i, j, "The ContentBlock object at %s must set one of the following keys: %s.", at, strings.Join(bedrockData, ", "))
	}
	for _, kind := range unknown(b) {
		switch kind {
		case "toolUse", "reasoningContent":
			if role != "assistant" {
				c.flag("block-role", i, j, "User messages cannot contain %s. Remove it and try again.", kind)
			}
		case "toolResult", "image", "document":
			if role != "user" && text(object(b[kind])["type"]) == "" {
				c.flag("block-role", i, j, "Assistant messages cannot contain %s. Remove it and try again.", kind)
			}
		}
	}
	c.data(i, j, at, b)
	if call, ok := b["toolUse"]; ok {
		c.call(i, j, at, object(call))
	}
	if result, ok := b["toolResult"]; ok {
		c.result(i, j, at, object(result))
	}
	if reasoning, ok := b["reasoningContent"]; ok {
		said := object(object(reasoning)["reasoningText"])
		if text(said["signature"]) == "" && !isBytes(text(object(reasoning)["redactedContent"])) {
			c.flag("thinking", i, j, "The model returned the following errors: messages.%d.content.%d.thinking.signature: Field required", i, j)
		}
	}
}

// data checks a text, an image or a document, in a message or in a result.
func (c *bedrockCheck) data(i, j int, at string, b map[string]any) {
	if said, ok := b["text"]; ok && blank(said) {
		c.flag("text", i, j, "The text field in the ContentBlock object at %s is blank. Add text to the text field, and try again.", at)
	}
	for kind, formats := range map[string][]string{"image": bedrockImages, "document": bedrockDocuments} {
		v, ok := b[kind]
		if !ok {
			continue
		}
		c.media[kind]++
		format := text(object(v)["format"])
		if !slices.Contains(formats, format) {
			c.flag("media", i, j, "1 validation error detected: Value '%s' at '%s.%s.format' failed to satisfy constraint: Member must satisfy enum value set: %v", format, at, kind, formats)
		}
		if !isPadded(text(object(object(v)["source"])["bytes"])) {
			c.flag("media", i, j, "The value at %s.%s.source.bytes is not valid base64.", at, kind)
		}
		if kind == "document" {
			c.documentName(i, j, object(v)["name"])
		}
	}
}

func (c *bedrockCheck) documentName(i, j int, v any) {
	name := text(v)
	if len(name) > 200 || !bedrockDocument.Get().MatchString(name) {
		c.flag("document-name", i, j, "The document file name can only contain alphanumeric characters, whitespace characters, hyphens, parentheses, and square brackets. The name can't contain more than one consecutive whitespace character.")
	}
	if c.documents[name] {
		c.flag("document-name", i, j, "Messages can't contain duplicate document names. Rename the document and retry your request.")
	}
	c.documents[name] = true
}

func (c *bedrockCheck) call(i, j int, at string, call map[string]any) {
	id := text(call["toolUseId"])
	name := text(call["name"])
	c.members(call, []string{"toolUseId", "name", "input", "type"}, at+".toolUse", i, j)
	c.pattern("id", i, j, id, bedrockID, at+".toolUse.toolUseId")
	c.pattern("name", i, j, name, bedrockName, at+".toolUse.name")
	if c.ids[id] {
		c.flag("id-unique", i, j, "The model returned the following errors: messages: `tool_use` ids must be unique: %s", id)
	}
	c.ids[id] = true
	if _, ok := call["input"].(map[string]any); !ok {
		c.flag("input", i, j, "The format of the value at %s.toolUse.input is invalid. Provide a json object for the field and try again.", at)
	}
}

func (c *bedrockCheck) result(i, j int, at string, result map[string]any) {
	id := text(result["toolUseId"])
	c.members(result, []string{"toolUseId", "content", "status", "type"}, at+".toolResult", i, j)
	c.pattern("id", i, j, id, bedrockID, at+".toolResult.toolUseId")
	content := list(result["content"])
	isError := result["status"] == "error"
	if isError && len(content) == 0 {
		c.flag("error-content", i, j, "The content field at %s.toolResult cannot be empty when status value is error.", at)
	}
	for k, v := range content {
		b := object(v)
		c.members(b, []string{"text", "json", "image", "document", "video", "searchResult"}, at+".toolResult.content", i, j)
		if len(b) != 1 {
			c.flag("block", i, j, "The ToolResultContentBlock object at %s.toolResult.content.%d must set one key.", at, k)
		}
		if isError && !c.pure && b["text"] == nil && b["json"] == nil {
			c.flag("error-content", i, j, "The model returned the following errors: %s: all content must be type \"text\" if \"is_error\" is true", at)
		}
		c.data(i, j, fmt.Sprintf("%s.toolResult.content.%d", at, k), b)
	}
}

// pattern checks a string of 1 to 64 characters.
func (c *bedrockCheck) pattern(rule string, i, j int, s string, want *lazy.Regexp, at string) {
	const failed = "1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must "
	switch {
	case len(s) > 64:
		c.flag(rule, i, j, failed+"have length less than or equal to 64", s, at)
	case !want.Get().MatchString(s):
		c.flag(rule, i, j, failed+"satisfy regular expression pattern: %s", s, at, strings.Trim(want.Get().String(), "^$"))
	}
}

func (c *bedrockCheck) members(obj map[string]any, known []string, at string, message, block int) {
	for _, name := range unknown(obj, known...) {
		c.flag("member", message, block, "The value at %s is invalid: unknown member %q.", at, name)
	}
}

func blank(v any) bool {
	return strings.TrimSpace(text(v)) == ""
}

func hasBlock(content []any, kind string) bool {
	return slices.ContainsFunc(content, func(v any) bool { return object(v)[kind] != nil })
}

// bedrockBlock returns a block as one of ours.
func bedrockBlock(b map[string]any) transcript.Block {
	media := func(kind string, v map[string]any) transcript.Source {
		return transcript.Source{Type: "base64", MediaType: kind + "/" + text(v["format"]), Data: text(object(v["source"])["bytes"])}
	}
	for kind, v := range b {
		m := object(v)
		switch kind {
		case "text":
			return transcript.TextBlock{Text: text(v)}
		case "citationsContent":
			var said strings.Builder
			for _, c := range list(m["content"]) {
				said.WriteString(text(object(c)["text"]))
			}
			return transcript.TextBlock{Text: said.String()}
		case "image":
			return transcript.ImageBlock{Source: media(kind, m)}
		case "document":
			return transcript.DocumentBlock{Title: text(m["name"]), Source: media("application", m)}
		case "toolUse":
			if text(m["type"]) != "" {
				break // of a tool that the provider ran
			}
			return transcript.ToolCallBlock{ID: text(m["toolUseId"]), Name: text(m["name"]), Input: encode(m["input"])}
		case "toolResult":
			if text(m["type"]) != "" {
				break
			}
			result := transcript.ToolResultBlock{CallID: text(m["toolUseId"]), IsError: m["status"] == "error"}
			for _, c := range list(m["content"]) {
				result.Content = append(result.Content, bedrockBlock(object(c)))
			}
			return result
		case "reasoningContent":
			if said := object(m["reasoningText"]); said != nil {
				return transcript.ThinkingBlock{Thinking: text(said["text"]), Signature: text(said["signature"])}
			}
			return transcript.RedactedThinkingBlock{Data: text(m["redactedContent"])}
		}
	}
	return transcript.RawBlock{JSON: encode(map[string]any{"type": "bedrock_block", "block": b})}
}
