// Package openaichat speaks to OpenAI's Chat Completions API and its imitators.
package openaichat

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/convolog/convolog/internal/jsontext"
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
func (c Format) inDialect() Format {
	if c.Dialect == "" {
		return c
	}
	c.Reasoning, c.MaxTokens = true, true
	c.ShortIDs = c.ShortIDs || c.Dialect == Mistral
	return c
}

// maxID is the length in bytes that an ID of a call may have.
const maxID = 40

func (c Format) ids() format.IDForm {
	if c.ShortIDs {
		return format.IDForm{Most: 9, Exact: true}
	}
	return format.IDForm{Prefix: "call_", Most: maxID}
}

// Request renders the body of a call to POST /v1/chat/completions.
//
// Beyond what every format does, see package wire, it sees to this:
//
//   - A result becomes a message of its own. Images and documents in it follow
//     in a user message behind all results ([rebuild.MovedMedia]), with a text that says
//     which call they belong to. The API has no mark for errors.
//   - An image or a document that the API does not take (a URL of a document, a
//     file of another provider, another type) becomes a short text; a text
//     document its text; a search result its texts.
//   - Reasoning is left out unless [Format.Reasoning] or a dialect is set: then
//     it goes back to the model that made it, and an answer with calls that has none
//     has an empty one, save with Mistral and OpenRouter.
//   - What an answer said aloud goes back by its ID to the model that said it, and
//     as a text to others.
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
	r := renderer{
		Renderer:  openai.Renderer{Talk: format.Talk{Rendering: format.NewRendering(req, format.APIOpenAIChat, c.ids())}},
		reasoning: c.Reasoning, dialect: c.Dialect,
	}
	if r.Req.System != "" {
		r.Out = append(r.Out, format.Said{Role: cmp.Or(c.SystemRole, "system"), Parts: format.PlainText(req.System)})
	}
	r.Messages(&r)

	return r.Body(
		c.Params, "model", js.Opt(req.Model), "prompt_cache_key", js.Opt(c.CacheKey), limit, js.Number(req.MaxOutput), "stream", js.When(c.Stream, "true"),
		"stream_options", js.When(c.Stream, `{"include_usage":true}`),
		"thinking", js.When(c.Dialect == GLM, `{"type":"enabled","clear_thinking":false}`),
		"", c.Params, "tools", js.OptList(req.Tools, toolJSON), "messages", js.List(r.Out, messageJSON),
	)
}

func toolJSON(t transcript.Tool) js.Written {
	return js.Object("type", "function", "function", js.Object(format.ToolMembers(t, "parameters", openai.NoParameters)...))
}

func messageJSON(m format.Said) js.Written {
	members := []any{"role", m.Role, "tool_call_id", js.Opt(m.CallID)}
	for _, r := range m.Reasoning {
		members = append(members, r.Name, r.Value)
	}
	content := openai.Content(m.Parts, partJSON)
	if len(m.Parts) == 0 && m.Role == "assistant" {
		content = json.RawMessage("null")
	}
	members = append(members, "content", content)
	if m.Audio != "" {
		members = append(members, "audio", js.Object("id", m.Audio))
	}
	return js.Object(append(members, "refusal", js.Opt(m.Refusal), "tool_calls", js.OptList(m.Calls, callJSON))...)
}

func partJSON(b transcript.Block) js.Written {
	switch b := b.(type) {
	case transcript.TextBlock:
		return js.Object("type", "text", "text", b.Text)
	case transcript.ThinkingBlock: // of Mistral
		return js.Object("type", "thinking", "thinking", js.List(format.PlainText(b.Thinking), partJSON))
	case transcript.ImageBlock:
		return js.Object("type", "image_url", "image_url", js.Object("url", openai.SourceURL(b.Source)))
	case transcript.DocumentBlock:
		file := js.Object("file_id", js.Opt(b.Source.FileID), "filename", js.Opt(b.Title), "file_data", js.Opt(openai.SourceURL(b.Source)))
		return js.Object("type", "file", "file", file)
	case transcript.RawBlock:
		return js.Object("type", "input_audio", "input_audio", js.Get(b.JSON, "input_audio"))
	}
	return nil
}

func callJSON(c transcript.ToolCallBlock) js.Written {
	return js.Object("id", c.ID, "type", "function", "function", js.Object("name", c.Name, "arguments", openai.CallArguments(c.Input)))
}

// A renderer turns the messages of one request into those of the Chat
// Completions API.
type renderer struct {
	openai.Renderer
	reasoning bool
	dialect   Dialect
}

// maxCalls is how many calls an answer may have.
const maxCalls = 128

// place returns where the result of a call goes: behind the others of the message that
// has the call, which may be followed by more of the same answer.
func (r *renderer) place(id string) int {
	at := len(r.Out)
	for i, m := range slices.Backward(r.Out) {
		switch {
		case slices.ContainsFunc(m.Calls, func(c transcript.ToolCallBlock) bool { return c.ID == id }):
			return at
		case len(m.Calls) > 0:
			at = i
		case m.Role != "tool":
			return len(r.Out)
		}
	}
	return len(r.Out)
}

// Result renders the texts of a result and returns the rest of it.
func (r *renderer) Result(entry string, b transcript.ToolResultBlock) (moved []transcript.Block) {
	m := format.Said{Role: "tool", CallID: r.IDs.Result(b.CallID)}
	r.DropExtra(entry, "tool_result", b.Extra)
	for _, c := range b.Content {
		for _, p := range r.Parts(r, entry, c) {
			if format.IsType[transcript.TextBlock](p) {
				m.Parts = append(m.Parts, p)
				continue
			}
			if len(moved) == 0 {
				moved = format.PlainText("[from the result of call " + m.CallID + "]")
			}
			r.Note(rebuild.MovedMedia, entry, "call "+m.CallID)
			moved = append(moved, p)
		}
	}
	if len(m.Parts) == 0 && len(moved) > 0 {
		m.Parts = format.PlainText("[in the user message behind the results]")
	}
	r.Out = slices.Insert(r.Out, r.place(m.CallID), m)
	return moved
}

func (r *renderer) Answer(_ int, m transcript.Message) bool {
	r.IDs.Open()
	out := format.Said{Role: "assistant"}
	for j, b := range m.Content {
		o := format.OriginOf(m, j)
		switch b := b.(type) {
		case transcript.TextBlock:
			r.DropExtra(o.Entry, "text", b.Extra)
			ext := r.Ext(o, b.Extra)
			if _, refusal := jsontext.Member(ext, "refusal"); refusal && out.Refusal == "" {
				out.Refusal = b.Text
				continue
			}
			if audio := js.String(ext, "audio", "id"); audio != "" && out.Audio == "" {
				out.Audio = audio
				continue
			}
			out.Parts = append(out.Parts, transcript.TextBlock{Text: b.Text})
		case transcript.ToolCallBlock:
			b.ID = r.CallID(o.Entry, b.ID)
			r.DropExtra(o.Entry, "tool_use", b.Extra)
			out.Calls = append(out.Calls, b)
		case transcript.ThinkingBlock:
			r.think(o, b, &out)
		case transcript.ContextBlock:
			out.Parts = append(out.Parts, r.Parts(r, o.Entry, b)...)
		default:
			r.Drop(o.Entry, b)
		}
	}
	spoken := func(p transcript.Block) bool { return !format.IsThinking(p) }
	if !slices.ContainsFunc(out.Parts, spoken) && len(out.Calls) == 0 && out.Refusal == "" && out.Audio == "" {
		return false
	}
	if len(out.Calls) > maxCalls {
		r.Note(rebuild.SplitAnswer, format.OriginOf(m, 0).Entry, strconv.Itoa(len(out.Calls))+" calls")
	}
	if r.reasoning && r.dialect != Mistral && r.dialect != OpenRouter && len(out.Calls) > 0 && len(out.Reasoning) == 0 {
		out.Reasoning = []js.Member{{Name: reasoningContent, Value: []byte(`""`)}}
	}
	// The first message keeps the rest of the answer. All of them have the reasoning,
	// which imitators demand of every answer with calls.
	for calls := range slices.Chunk(out.Calls, maxCalls) {
		out.Calls = calls
		r.Out = append(r.Out, out)
		out.Parts, out.Refusal, out.Audio = nil, "", ""
	}
	if len(out.Calls) == 0 {
		r.Out = append(r.Out, out)
	}
	return true
}

// The members for reasoning: most imitators have the first.
const (
	reasoningContent = "reasoning_content"
	reasoningPlain   = "reasoning"
	reasoningDetails = "reasoning_details" // with signatures
	reasoningChunks  = "thinking"          // in a part of the content
)

// think gives reasoning back in the members that it came in.
func (r *renderer) think(o transcript.Origin, b transcript.ThinkingBlock, out *format.Said) {
	drop := func(why string) { r.Note(rebuild.DroppedThinking, o.Entry, why) }
	switch {
	case !r.reasoning:
		drop("the API does not take it")
	case !r.Native(o):
		drop("of another model")
	case len(out.Reasoning) > 0:
		drop("a second one in an answer")
	case r.dialect == Mistral:
		out.Parts = append(out.Parts, transcript.ThinkingBlock{Thinking: b.Thinking})
	default:
		ext := r.Ext(o, b.Extra)
		name := reasoningContent
		if js.String(ext, "member") == reasoningPlain {
			name = reasoningPlain
		}
		out.Reasoning = append(out.Reasoning, js.Member{Name: name, Value: jsontext.AppendString(nil, b.Thinking)})
		if details, ok := jsontext.Member(ext, reasoningDetails); ok && jsontext.IsArray(details) {
			out.Reasoning = append(out.Reasoning, js.Member{Name: reasoningDetails, Value: details})
		}
	}
}
