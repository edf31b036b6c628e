// Package openaichat renders requests for OpenAI's Chat Completions API and its
// imitators and reads their answers. Any HTTP client sends the body that Request of a
// [Format] returns. Response reads a whole answer, NewStream the events of
// [wire.ReadSSE]. Package [wire] reads refusals and documents the common rules.
package openaichat

import (
	"cmp"
	"encoding/json"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/rebuild/wire/internal/openai"
	"github.com/convolog/convolog/transcript"
)

// Format renders for OpenAI's Chat Completions API and the many services
// that imitate it, and reads their answers. The zero value is ready to use and
// is for OpenAI itself. It is a plain value, safe for several goroutines.
type Format struct {
	// Stream asks for the answer as server-sent events, usage included.
	Stream bool
	// SystemRole is the role of the system prompt. Empty: "system", which all
	// take; newer models of OpenAI call it "developer".
	SystemRole string
	// MaxTokens writes the output limit as "max_tokens", which imitators know,
	// not as "max_completion_tokens", which models that reason demand.
	MaxTokens bool
	// Reasoning returns the reasoning of all turns to the model, as DeepSeek and
	// others that reason between calls demand. OpenAI does not take it.
	Reasoning bool
	// ShortIDs is for Mistral: calls have IDs of nine letters and digits, and a
	// short answer goes between results and the user's next text.
	ShortIDs bool
	// Dialect is the service that imitates the API, if it is one that wants its
	// reasoning back in its own way. It sets Reasoning, MaxTokens and, for
	// Mistral, ShortIDs.
	Dialect Dialect
	// With Prefill the model continues an answer at the end. Otherwise a text follows it.
	Prefill bool
	// CacheKey is the member prompt_cache_key, the same for requests that begin in
	// the same way: an ID of the session for example. Empty leaves it out.
	CacheKey string
	// Params are further members of the request, temperature or tool_choice for
	// example. "tools" and "stream_options" replace the members that Request
	// writes. The other members that it writes cannot be in it.
	Params map[string]json.RawMessage
}

// Dialect is a service that imitates Chat Completions.
type Dialect string

const (
	// DeepSeek (V4) and Kimi (K2.6 and later) refuse an answer with calls without its
	// reasoning, in all later requests; for answers of other models empty reasoning
	// will do.
	DeepSeek Dialect = "deepseek"
	Kimi     Dialect = "kimi"
	// GLM keeps the reasoning of all turns on request: the member "thinking" gets
	// "clear_thinking":false unless Params set it.
	GLM Dialect = "glm"
	// Mistral puts its reasoning among the parts of an answer's content.
	Mistral Dialect = "mistral"
	// OpenRouter wants "reasoning_details" back as they came, and requires none.
	OpenRouter Dialect = "openrouter"
)

// prefixes are the members that mark an answer to continue.
var prefixes = map[Dialect]string{DeepSeek: "prefix", Mistral: "prefix", Kimi: "partial"}

// inDialect returns the format with the settings of its dialect.
func (c Format) inDialect() Format {
	if c.Dialect == "" {
		return c
	}
	c.Reasoning, c.MaxTokens = true, true
	c.ShortIDs = c.ShortIDs || c.Dialect == Mistral
	return c
}

// maxID is the greatest length of an ID of a call, in bytes.
const maxID = 40

// Request renders the body of a call to POST /v1/chat/completions.
//
// In addition to the rules of package wire it does this:
//
//   - A result becomes a message of its own. Images and documents in it follow in a user
//     message after all results (moved-media in the report), with a text that names their
//     call. The API does not mark errors.
//   - An image or a document that the API does not take (a URL of a document, a
//     file of another provider, another type) becomes a short text; a text
//     document its text; a search result its texts.
//   - Reasoning is left out unless [Format.Reasoning] or a dialect is set: then it
//     goes back to the model that made it, and an answer with calls but without
//     reasoning gets an empty one, except with Mistral and OpenRouter.
//   - Spoken answers go back by ID to the model that made them, and as text to
//     others.
//   - An answer with more than 128 calls becomes several, each with its results.
func (c Format) Request(req transcript.Request) (body []byte, report rebuild.Report, err error) {
	c = c.inDialect()
	limit := "max_completion_tokens"
	if c.MaxTokens {
		limit = "max_tokens"
	}
	if err := cmp.Or(format.CheckRoles(req.Messages), format.CheckParams(c.Params, "model", limit, "stream", "messages", openai.CacheKey(c.CacheKey))); err != nil {
		return nil, nil, err
	}
	ids := format.IDForm{Prefix: "call_", Most: maxID}
	if c.ShortIDs {
		ids = format.IDForm{Most: 9, Exact: true}
	}
	r := renderer{
		Renderer:  openai.Renderer{Talk: format.Talk{Rendering: format.NewRendering(req, format.APIOpenAIChat, ids)}},
		reasoning: c.Reasoning, dialect: c.Dialect,
	}
	if req.Tools, err = r.Renamed(req.Tools, neutral.ToolName); err != nil {
		return nil, nil, err
	}
	if r.Req.System != "" {
		r.Out = append(r.Out, format.Said{Role: cmp.Or(c.SystemRole, "system"), Parts: format.PlainText(req.System)})
	}
	r.Prefill = c.Prefill
	if r.Messages(&r); c.Prefill && r.Last().Role == "assistant" {
		r.Last().Prefix = prefixes[c.Dialect]
	}

	return r.Body(
		c.Params, "model", js.Opt(req.Model), "prompt_cache_key", js.Opt(c.CacheKey), limit, js.Number(req.MaxOutput), "stream", js.When(c.Stream, "true"),
		"stream_options", js.When(c.Stream, `{"include_usage":true}`),
		"thinking", js.When(c.Dialect == GLM, `{"type":"enabled","clear_thinking":false}`),
		"", c.Params, "tools", js.OptList(req.Tools, toolJSON), "messages", js.List(r.Out, messageJSON),
	)
}

func toolJSON(t transcript.Tool) js.Written {
	return js.Object("type", "function", "function", js.Object(format.ToolMembers(t, "parameters", openai.NoParameters, "strict")...))
}
