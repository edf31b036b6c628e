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
	// Model is the model named in the path.
	Model string
	// Stream is set if the path is for a stream.
	Stream bool
	// PureResults allows only results in a message with results, as the models
	// of Meta require.
	PureResults bool
}

// Decode reads the body of a request and judges it.
func (b Bedrock) Decode(body []byte) (Request, []Violation) {
	c := bedrockCheck{pure: b.PureResults || strings.Contains(b.Model, "llama"), media: map[string]int{}}
	c.body(body)
	c.req.Model, c.req.Stream = b.Model, b.Stream
	return c.req, c.found
}

type bedrockCheck struct {
	judge
	pure   bool
	calls  []string // of the message before
	media  map[string]int
	tools  bool // the messages use tools
	points int  // cache points so far
}

const (
	bedrockMembers = `messages system inferenceConfig toolConfig guardrailConfig additionalModelRequestFields
		promptVariables additionalModelResponseFieldPaths requestMetadata performanceConfig serviceTier outputConfig`
	bedrockData = "text image document toolUse toolResult reasoningContent cachePoint video audio guardContent searchResult citationsContent"
	modelSays   = "The model returned the following errors: "
)

var (
	bedrockID       = lazy.New(`^[a-zA-Z0-9_.:-]+$`)
	bedrockDocument = lazy.New(`^[a-zA-Z0-9\-()\[\]]+( [a-zA-Z0-9\-()\[\]]+)*$`)
	bedrockFormats  = map[string][]string{
		"document": {"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"},
		"image":    {"png", "jpeg", "gif", "webp"},
	}
	// bedrockRoles are the roles of the messages that may hold a block.
	bedrockRoles = map[string]string{"toolUse": "assistant", "reasoningContent": "assistant", "toolResult": "user", "image": "user", "document": "user"}
)

func (c *bedrockCheck) body(body []byte) {
	req := tree(body)
	if !c.want(req != nil, "json", -1, -1, "The request body is not valid JSON.") {
		return
	}
	if at, _ := halfSurrogate(body); at >= 0 {
		c.flag("surrogate", -1, -1, "The request body is not valid JSON: %s", body[at:at+6])
	}
	c.members(req, bedrockMembers, "", -1, -1)
	tools := list(object(req["toolConfig"])["tools"])
	for _, v := range slices.Concat(list(req["system"]), tools) {
		if object(v)["cachePoint"] != nil {
			c.points++
		}
	}
	for _, v := range list(req["system"]) {
		said, isText := object(v)["text"]
		c.want(!isText || !blank(said), "system", -1, -1, "The text field in the SystemContentBlock object at system.0 is blank. Add text to the text field, and try again.")
	}
	c.req.System = texts(req["system"])
	messages := list(req["messages"])
	c.want(len(messages) > 0, "messages", -1, -1, notUserFirst)
	before := ""
	for i, v := range messages {
		before = c.message(i, object(v), before)
	}
	if len(c.calls) > 0 {
		c.results(len(messages), nil)
	}
	c.want(before != "assistant", "prefill", len(messages)-1, -1, "This model does not support assistant message prefill. The conversation must end with a user message.")
	c.want(c.media["document"] <= 5, "media-count", -1, -1, "You can't include more than 5 documents in a request.")
	c.want(c.media["image"] <= 20, "media-count", -1, -1, "You can't include more than 20 images in a request.")
	c.config(req, tools, messages)
}

const notUserFirst = "A conversation must start with a user message. Try again with a conversation that starts with a user message."

// config checks the members other than the messages.
func (c *bedrockCheck) config(req map[string]any, tools, messages []any) {
	c.want(!c.tools || len(tools) > 0, "tool-config", -1, -1, "The toolConfig field must be defined when using toolUse and toolResult content blocks.")
	for i, v := range tools {
		spec := object(object(v)["toolSpec"])
		if spec == nil {
			continue // a tool of the provider, or a cache point
		}
		name := text(spec["name"])
		c.members(spec, "name description inputSchema strict", fmt.Sprintf("toolConfig.tools.%d.toolSpec", i), -1, -1)
		c.pattern("name", -1, -1, name, word, fmt.Sprintf("toolConfig.tools.%d.member.toolSpec.name", i+1))
		c.want(c.fresh("tool", name), "tools", -1, -1, "The tool names in toolConfig must be unique: %s", name)
		schema := object(object(spec["inputSchema"])["json"])
		c.want(schema != nil, "tools", -1, -1, "The value at toolConfig.tools.%d.toolSpec.inputSchema.json is invalid. Provide a json object for the field and try again.", i)
		c.req.Tools = append(c.req.Tools, transcript.Tool{Name: name, Description: text(spec["description"]), InputSchema: encode(schema)})
	}
	limit, limited := integer(object(req["inferenceConfig"])["maxTokens"])
	c.req.MaxOutput = limit
	c.want(!limited || limit >= 1, "max-tokens", -1, -1, "1 validation error detected: Value '%v' at 'inferenceConfig.maxTokens' failed to satisfy constraint: Member must have value greater than or equal to 1", limit)
	thinking := object(object(req["additionalModelRequestFields"])["thinking"])
	if thinking["type"] != "enabled" {
		return
	}
	budget, _ := integer(thinking["budget_tokens"])
	c.want(!limited || budget < limit, "max-tokens", -1, -1, modelSays+"`max_tokens` must be greater than `thinking.budget_tokens`.")
	for i, v := range slices.Backward(messages) {
		if m := object(v); m["role"] == "assistant" {
			content := list(m["content"])
			c.want(!hasBlock(content, "toolUse") || object(content[0])["reasoningContent"] != nil, "thinking-order", i, 0,
				modelSays+"messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.", i)
			break
		}
	}
}

func (c *bedrockCheck) message(i int, m map[string]any, before string) string {
	c.members(m, "role content", fmt.Sprintf("messages.%d", i), i, -1)
	role := text(m["role"])
	c.say(transcript.Role(role))
	content := list(m["content"])
	switch {
	case role != "user" && role != "assistant":
		c.flag("role", i, -1, "1 validation error detected: Value '%s' at 'messages.%d.member.role' failed to satisfy constraint: Member must satisfy enum value set: [user, assistant]", role, i+1)
	case i == 0:
		c.want(role == "user", "first-user", i, -1, notUserFirst)
	case role == before:
		c.flag("alternation", i, -1, "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.")
	}
	c.want(len(content) > 0, "content", i, -1, "The content field in the Message object at messages.%d is empty. Add a ContentBlock object to the content field and try again.", i)
	var results, calls []string
	lastResult := -1
	for j, v := range content {
		b := object(v)
		c.block(i, j, b, role)
		if b["cachePoint"] == nil {
			c.say(transcript.Role(role), bedrockBlock(b))
		} else {
			c.points++
			c.want(c.points <= 4, "cache-points", i, j, modelSays+"A maximum of 4 blocks with cache_control may be provided.")
		}
		if id, ok := object(b["toolResult"])["toolUseId"].(string); ok && role != "assistant" {
			c.want(lastResult == j-1, "result-order", i, j, modelSays+"messages.%d: `tool_result` blocks must come first in the content.", i)
			results, lastResult = append(results, id), j
		}
		if id, ok := object(b["toolUse"])["toolUseId"].(string); ok && text(object(b["toolUse"])["type"]) == "" {
			calls = append(calls, id)
		}
		c.want(b["reasoningContent"] == nil || calls == nil && j < len(content)-1, "thinking-order", i, j, modelSays+"messages.%d: reasoning must come before the calls it led to and cannot end a message.", i)
	}
	c.want(!hasBlock(content, "document") || hasBlock(content, "text"), "document-text", i, -1, "The content field at messages.%d has a document without a text. Add a text block and try again.", i)
	c.want(!c.pure || results == nil || len(results) == len(content), "mixed", i, -1, "Conversation blocks and tool result blocks cannot be provided in the same turn.")
	c.results(i, results)
	c.calls = calls
	c.tools = c.tools || results != nil || calls != nil
	return role
}

func (c *bedrockCheck) results(i int, results []string) {
	if !c.want(len(results) <= len(c.calls), "orphan-result", i, -1, "The number of toolResult blocks at messages.%d.content exceeds the number of toolUse blocks of previous turn.", i) {
		return
	}
	for k, id := range results {
		c.want(!slices.Contains(results[:k], id), "doubled-result", i, -1, "The toolResult blocks at messages.%d.content contain duplicate Ids: %s", i, id)
	}
	missing := slices.DeleteFunc(c.calls, func(id string) bool { return slices.Contains(results, id) })
	c.want(len(missing) == 0, "missing-result", i, -1, "Expected toolResult blocks at messages.%d.content for the following Ids: %s", i, strings.Join(missing, ", "))
}

func (c *bedrockCheck) block(i, j int, b map[string]any, role string) {
	at := fmt.Sprintf("messages.%d.content.%d", i, j)
	if role != "assistant" { // an answer may contain newer members
		c.members(b, bedrockData, at, i, j)
	}
	c.want(len(b) == 1, "block", i, j, "The ContentBlock object at %s must set one of the following keys: %s.", at, strings.ReplaceAll(bedrockData, " ", ", "))
	other := map[string]string{"assistant": "User", "user": "Assistant"}
	for _, kind := range unknown(b) {
		if only := bedrockRoles[kind]; only == "assistant" || only == "user" && text(object(b[kind])["type"]) == "" {
			c.want(role == only, "block-role", i, j, "%s messages cannot contain %s. Remove it and try again.", other[only], kind)
		}
	}
	c.data(i, j, at, b)
	if call, ok := b["toolUse"]; ok {
		c.call(i, j, at+".toolUse", object(call))
	}
	if result, ok := b["toolResult"]; ok {
		c.result(i, j, at, object(result))
	}
	reasoning, ok := b["reasoningContent"]
	signed := text(object(object(reasoning)["reasoningText"])["signature"]) != "" || isBytes(text(object(reasoning)["redactedContent"]))
	c.want(!ok || signed, "thinking", i, j, modelSays+"messages.%d.content.%d.thinking.signature: Field required", i, j)
}

// data checks a text, an image or a document, in a message or in a result.
func (c *bedrockCheck) data(i, j int, at string, b map[string]any) {
	said, ok := b["text"]
	c.want(!ok || !blank(said), "text", i, j, "The text field in the ContentBlock object at %s is blank. Add text to the text field, and try again.", at)
	for _, kind := range []string{"document", "image"} {
		v, ok := b[kind]
		if !ok {
			continue
		}
		c.media[kind]++
		formats, format := bedrockFormats[kind], text(object(v)["format"])
		c.want(slices.Contains(formats, format), "media", i, j, "1 validation error detected: Value '%s' at '%s.%s.format' failed to satisfy constraint: Member must satisfy enum value set: %v", format, at, kind, formats)
		data := text(object(object(v)["source"])["bytes"])
		_ = c.want(isPadded(data), "media", i, j, "The value at %s.%s.source.bytes is not valid base64.", at, kind) &&
			c.want(begins(map[string]string{"document": "application/", "image": "image/"}[kind]+format, data), "media", i, j, "Could not process %s", kind)
		if kind == "image" { // 3.75 MB are 5 MB of base64
			c.want(len(data) <= 5<<20, "media", i, j, modelSays+"%s.image.source.bytes: image exceeds 5 MB maximum: %d bytes > %d bytes", at, len(data), 5<<20)
			c.want(sideOf(data) <= 8000, "media", i, j, modelSays+"%s.image.source.bytes: At least one of the image dimensions exceed max allowed size: 8000 pixels", at)
		}
		if name := text(object(v)["name"]); kind == "document" {
			c.want(len(name) <= 200 && bedrockDocument.Get().MatchString(name), "document-name", i, j, "The document file name can only contain alphanumeric characters, whitespace characters, hyphens, parentheses, and square brackets. The name can't contain more than one consecutive whitespace character.")
			c.want(c.fresh(kind, name), "document-name", i, j, "Messages can't contain duplicate document names. Rename the document and retry your request.")
		}
	}
}

func (c *bedrockCheck) call(i, j int, at string, call map[string]any) {
	id := text(call["toolUseId"])
	c.members(call, "toolUseId name input type", at, i, j)
	c.pattern("id", i, j, id, bedrockID, at+".toolUseId")
	c.pattern("name", i, j, text(call["name"]), word, at+".name")
	c.want(c.fresh("call", id), "id-unique", i, j, modelSays+"messages: `tool_use` ids must be unique: %s", id)
	c.want(object(call["input"]) != nil, "input", i, j, "The format of the value at %s.input is invalid. Provide a json object for the field and try again.", at)
}

func (c *bedrockCheck) result(i, j int, at string, result map[string]any) {
	c.members(result, "toolUseId content status type", at+".toolResult", i, j)
	c.pattern("id", i, j, text(result["toolUseId"]), bedrockID, at+".toolResult.toolUseId")
	content := list(result["content"])
	isError := result["status"] == "error"
	c.want(!isError || len(content) > 0, "error-content", i, j, "The content field at %s.toolResult cannot be empty when status value is error.", at)
	for k, v := range content {
		b := object(v)
		c.members(b, "text json image document video searchResult", at+".toolResult.content", i, j)
		c.want(len(b) == 1, "block", i, j, "The ToolResultContentBlock object at %s.toolResult.content.%d must set one key.", at, k)
		c.want(!isError || c.pure || b["text"] != nil || b["json"] != nil, "error-content", i, j, modelSays+"%s: all content must be type \"text\" if \"is_error\" is true", at)
		c.data(i, j, fmt.Sprintf("%s.toolResult.content.%d", at, k), b)
	}
}

// pattern checks a string of 1 to 64 characters.
func (c *bedrockCheck) pattern(rule string, i, j int, s string, want *lazy.Regexp, at string) {
	const failed = "1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must "
	_ = c.want(len(s) <= maxName, rule, i, j, failed+"have length less than or equal to 64", s, at) &&
		c.want(want.Get().MatchString(s), rule, i, j, failed+"satisfy regular expression pattern: %s", s, at, strings.Trim(want.Get().String(), "^$"))
}

func (c *bedrockCheck) members(obj map[string]any, known, at string, message, block int) {
	for _, name := range unknown(obj, strings.Fields(known)...) {
		c.flag("member", message, block, "The value at %s is invalid: unknown member %q.", at, name)
	}
}

func blank(v any) bool { return strings.TrimSpace(text(v)) == "" }

// hasBlock reports whether a block or part of a list contains a member.
func hasBlock(content []any, kind string) bool {
	return slices.ContainsFunc(content, func(v any) bool { return object(v)[kind] != nil })
}

// bedrockBlock converts a block to package transcript.
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
			return transcript.TextBlock{Text: texts(m["content"])}
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
