package wire

import (
	"cmp"
	"encoding/json"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// OpenAIChat renders for OpenAI's Chat Completions API and the many services
// that imitate it, and reads their answers. The zero value is ready to use and
// is for OpenAI itself. It is a plain value, safe for several goroutines.
type OpenAIChat struct {
	// Stream asks for the answer as server-sent events, usage included.
	Stream bool
	// SystemRole is the role of the system prompt. Empty: "system", which all
	// take; newer models of OpenAI call it "developer".
	SystemRole string
	// MaxTokens writes the output limit as "max_tokens", which imitators know,
	// and not as "max_completion_tokens", which models that reason demand.
	MaxTokens bool
	// Reasoning gives the model its reasoning back, that of all turns, as DeepSeek
	// and others demand that reason between calls. OpenAI does not take it.
	Reasoning bool
	// ShortIDs is for Mistral: calls have IDs of nine letters and digits, and a
	// short answer goes between results and what the user says next.
	ShortIDs bool
	// Dialect is the service that imitates the API, if it is one of those that want
	// their reasoning back in a way of their own. It sets Reasoning, MaxTokens and,
	// for Mistral, ShortIDs.
	Dialect Dialect
	// CacheKey is the member prompt_cache_key, the same for requests that begin in
	// the same way: an ID of the session for example. Empty leaves it out.
	CacheKey string
	// Params are further members of the request, temperature or tool_choice
	// for example. "tools" and "stream_options" are used instead of what
	// Request writes. The other members that it writes cannot be in it.
	Params map[string]json.RawMessage
}

// Dialect is a service that imitates Chat Completions.
type Dialect string

const (
	// DeepSeek (V4) and Kimi (K2.6 and later) refuse an answer with calls that does
	// not have its reasoning, in all later requests; an empty one will do for answers
	// of others.
	DeepSeek Dialect = "deepseek"
	Kimi     Dialect = "kimi"
	// GLM keeps the reasoning of all turns if the request says so, which it does:
	// the member "thinking" has "clear_thinking":false unless Params have it.
	GLM Dialect = "glm"
	// Mistral has its reasoning among the parts of an answer's content.
	Mistral Dialect = "mistral"
	// OpenRouter wants "reasoning_details" back as they came, and misses none.
	OpenRouter Dialect = "openrouter"
)

// inDialect returns the format with what its dialect sets.
func (c OpenAIChat) inDialect() OpenAIChat {
	if c.Dialect == "" {
		return c
	}
	c.Reasoning, c.MaxTokens = true, true
	c.ShortIDs = c.ShortIDs || c.Dialect == Mistral
	return c
}

// maxChatID is the length in bytes that an ID of a call may have.
const maxChatID = 40

func (c OpenAIChat) ids() idForm {
	if c.ShortIDs {
		return idForm{most: 9, exact: true}
	}
	return idForm{prefix: "call_", most: maxChatID}
}

// Request renders the body of a call to POST /v1/chat/completions.
//
// Beyond what every format does, see the package, it sees to this:
//
//   - A result becomes a message of its own. Images and documents in it follow
//     in a user message behind all results ([rebuild.MovedMedia]), with a text that says
//     which call they belong to. The API has no mark for errors.
//   - An image or a document that the API does not take (a URL of a document, a
//     file of another provider, another type) becomes a short text; a text
//     document its text; a search result its texts.
//   - Reasoning is left out unless [OpenAIChat.Reasoning] or a dialect is set: then
//     it goes back to the model that made it, and an answer with calls that has none
//     has an empty one, save with Mistral and OpenRouter.
//   - What an answer said aloud goes back by its ID to the model that said it, and
//     as a text to others.
//   - An answer with more than 128 calls becomes several, each with its results.
func (c OpenAIChat) Request(req transcript.Request) (body []byte, report rebuild.Report, err error) {
	c = c.inDialect()
	limit := "max_completion_tokens"
	if c.MaxTokens {
		limit = "max_tokens"
	}
	if err := cmp.Or(checkRoles(req.Messages), checkParams(c.Params, "model", limit, "stream", "messages", cacheKey(c.CacheKey))); err != nil {
		return nil, nil, err
	}
	r := chatRenderer{
		openAI:    openAI{talk{rendering: newRendering(req, apiOpenAIChat, c.ids())}},
		reasoning: c.Reasoning, dialect: c.Dialect,
	}
	if r.req.System != "" {
		r.out = append(r.out, said{role: cmp.Or(c.SystemRole, "system"), parts: plainText(req.System)})
	}
	r.messages(&r)

	return r.request(
		c.Params, "model", opt(req.Model), "prompt_cache_key", opt(c.CacheKey), limit, number(req.MaxOutput), "stream", when(c.Stream, "true"),
		"stream_options", when(c.Stream, `{"include_usage":true}`),
		"thinking", when(c.Dialect == GLM, `{"type":"enabled","clear_thinking":false}`),
		"", c.Params, "tools", optList(req.Tools, chatToolJSON), "messages", list(r.out, chatMessageJSON),
	)
}

func chatToolJSON(t transcript.Tool) written {
	return object("type", "function", "function", object(toolMembers(t, "parameters", noParameters)...))
}

func chatMessageJSON(m said) written {
	members := []any{"role", m.role, "tool_call_id", opt(m.callID)}
	for _, r := range m.reasoning {
		members = append(members, r.name, r.value)
	}
	content := openAIContent(m.parts, chatPartJSON)
	if len(m.parts) == 0 && m.role == "assistant" {
		content = json.RawMessage("null")
	}
	members = append(members, "content", content)
	if m.audio != "" {
		members = append(members, "audio", object("id", m.audio))
	}
	return object(append(members, "refusal", opt(m.refusal), "tool_calls", optList(m.calls, chatCallJSON))...)
}

func chatPartJSON(b transcript.Block) written {
	switch b := b.(type) {
	case transcript.TextBlock:
		return object("type", "text", "text", b.Text)
	case transcript.ThinkingBlock: // of Mistral
		return object("type", "thinking", "thinking", list(plainText(b.Thinking), chatPartJSON))
	case transcript.ImageBlock:
		return object("type", "image_url", "image_url", object("url", sourceURL(b.Source)))
	case transcript.DocumentBlock:
		file := object("file_id", opt(b.Source.FileID), "filename", opt(b.Title), "file_data", opt(sourceURL(b.Source)))
		return object("type", "file", "file", file)
	case transcript.RawBlock:
		return object("type", "input_audio", "input_audio", get(b.JSON, "input_audio"))
	}
	return nil
}

func chatCallJSON(c transcript.ToolCallBlock) written {
	return object("id", c.ID, "type", "function", "function", object("name", c.Name, "arguments", callArguments(c.Input)))
}
