// Package anthropic renders requests for the Anthropic Messages API and reads its
// answers. Any HTTP client sends the body that Request of a [Format] returns. Response
// reads a whole answer; NewStream puts a streamed one together from the events of
// [wire.ReadSSE]. Package [wire] reads refusals and documents the rules common to all
// APIs.
package anthropic

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/rebuild/wire/internal/messages"
	"github.com/convolog/convolog/transcript"
)

// Format renders for the Anthropic Messages API and reads its answers. The
// zero value is ready to use: no stream, no thinking. It is a plain value,
// safe for several goroutines.
type Format struct {
	// Stream asks for the answer as server-sent events.
	Stream bool
	// Thinking is the request's member "thinking",
	// {"type":"enabled","budget_tokens":4096} for example. Nil leaves it out:
	// the model decides.
	Thinking json.RawMessage
	// Cache puts cache marks on the system prompt, the last tool that is not deferred, the
	// end of the messages and the end of the previous request's messages. Only four marks
	// are allowed: marks in blocks, tools and Params take precedence. Empty: no marks.
	Cache wire.CacheTTL
	// With Prefill the model continues an answer at the end. Otherwise a text follows it.
	Prefill bool
	// PlainPrompts leaves later system prompts texts of the user, for services that
	// imitate the API without its messages of role "system".
	PlainPrompts bool
	// Params are further members of the request, temperature or tool_choice for example.
	// "system", "tools" and "container" replace the request's, for tools that the
	// provider runs for example. [rebuild.PromptHash] does not include them, so changing
	// them may cost a refused request. With "anthropic_version", which Vertex wants
	// there, the model is left out, because it is in the path. Images and documents by URL
	// or file become short texts. The other members that Request writes itself cannot be in
	// Params.
	Params map[string]json.RawMessage
}

// Request renders the body of a call to POST /v1/messages. An output limit of 0
// becomes [wire.DefaultMaxOutput].
//
// In addition to the rules of package wire it does this:
//
//   - A later system prompt of a session, in the history a text of the user, becomes a message of
//     role "system" if the model, and the one that made the next answer, take these. It stays a
//     text where the API does not take such a message. "[no answer]" replaces an emptied answer
//     after one.
//   - Reasoning of this API returns in its place if [rebuild.Reasoned] keeps it
//     and Thinking is not "disabled". Reasoning of answers without a recorded
//     request returns within the running turn, to the model that made it, if a
//     call follows it or Thinking is on, but never to a model that checks its
//     prefix. Reasoning without its signature is left out, as is reasoning that
//     would end its message.
//   - If Thinking demands reasoning ("enabled"), but the answer before the
//     results no longer begins with any, for example after a change of model
//     within a turn, this one request leaves out the member "thinking".
//   - If the output limit does not exceed the budget of Thinking, the budget
//     becomes three quarters of the limit; if that is less than 1,024 tokens
//     the member is left out.
//   - Results that are errors may have only texts: all else becomes a text.
//   - Calls of the provider's own tools return with their results to any Claude. One without its
//     result stays while that can come: at the end of the request, which the provider continues
//     (pause_turn), and while code waits in its container for calls of the client's tools. Texts of
//     the user end the wait, as do answers without such calls: then the calls lose their "caller",
//     and the code becomes a text.
//   - A reference to a tool in a result stays if the request defines the tool.
//   - An image of more than 5 MB becomes a short text, and so do the first
//     images and documents in a body of more than 32 MB.
//   - Of more than four cache marks the last four stay.
func (a Format) Request(req transcript.Request) (body []byte, report rebuild.Report, err error) {
	media := messages.MediaBudget{Sources: a.Params["anthropic_version"] != nil}
	body, report, err = a.request(req, media)
	if media.Bytes = len(body) - maxBody; media.Bytes > 0 {
		return a.request(req, media)
	}
	return body, report, err
}

// request leaves out that much media.
func (a Format) request(req transcript.Request, media messages.MediaBudget) (body []byte, report rebuild.Report, err error) {
	if err := cmp.Or(
		format.CheckRoles(req.Messages), format.CheckObject("thinking", a.Thinking), messages.CheckCache(a.Cache),
		format.CheckParams(a.Params, "model", "max_tokens", "stream", "thinking", "messages"),
	); err != nil {
		return nil, nil, err
	}
	if !jsontext.IsNull(a.Thinking) && js.String(a.Thinking, "type") == "" {
		return nil, nil, fmt.Errorf("wire: thinking %q has no type", js.Excerpt(a.Thinking))
	}
	limit := cmp.Or(req.MaxOutput, wire.DefaultMaxOutput)
	r := messages.New(req, format.APIAnthropic, string(a.Params["container"]))
	r.Media, r.PlainPrompts, r.Optional, r.Prefill = media, a.PlainPrompts, optional, a.Prefill
	if req.Tools, err = r.Renamed(req.Tools, neutral.ToolName); err != nil {
		return nil, nil, err
	}
	tools, ownTools := a.Params["tools"]
	if !ownTools && len(req.Tools) > 0 {
		tools = a.tools(req.Tools)
	}
	r.Tools = map[string]bool{}
	for _, t := range js.Elements(tools) {
		r.Tools[js.String(t, "name")] = true
	}
	thinking := r.Ask(a.Thinking, limit)
	rendered := r.Messages(
		func(i int, m transcript.Message) []transcript.Block { return r.UserContent(i, m, r.UserBlocks) },
		func(i int, m transcript.Message) []transcript.Block {
			return r.AnswerContent(i, m, r.ServerPairs(i, m), r.AnswerBlock)
		},
	)
	_, ownSystem := a.Params["system"]
	ownSystem = ownSystem || neutral.IsBlank(req.System)
	budget := maxMarks - a.marks(tools)
	if a.Cache != "" {
		budget -= messages.Count(!ownSystem)
		roll(a.Cache, rendered)
	}
	for _, m := range slices.Backward(rendered) {
		budget = limitMarks(&r, m.Content, budget)
	}
	thinking = r.Asked(thinking)

	var system any = js.Opt(r.Req.System)
	if a.Cache != "" && !ownSystem {
		system = js.List([]string{req.System}, func(text string) js.Written {
			return js.Object("type", "text", "text", text, messages.CacheControl, messages.Mark(a.Cache, "ephemeral"))
		})
	}
	if a.Params["anthropic_version"] != nil {
		req.Model = "" // it is in the path
	}
	return r.Body(
		a.Params, "model", js.Opt(req.Model), "container", r.Container(), "max_tokens", limit, "stream", js.When(a.Stream, "true"), "thinking", thinking,
		"", a.Params, "system", system, "tools", tools, "messages", js.List(rendered, messageJSON),
	)
}

// tools writes the renderer's definitions. With Cache, the last one that is not deferred
// gets a mark; the API refuses marks on deferred ones.
func (a Format) tools(tools []transcript.Tool) json.RawMessage {
	last := a.Cache != ""
	for i, t := range slices.Backward(tools) {
		if t.DeferLoading {
			tools[i].CacheControl = nil
		} else if last && jsontext.IsNull(t.CacheControl) {
			tools[i].CacheControl = messages.Mark(a.Cache, "ephemeral")
		}
		last = last && t.DeferLoading
	}
	return js.List(tools, func(t transcript.Tool) js.Written {
		return js.Object(format.ToolMembers(t, "input_schema", `{"type":"object"}`, "strict", "defer_loading", "allowed_callers", "input_examples", messages.CacheControl)...)
	}).Bytes()
}

func messageJSON(m transcript.Message) js.Written {
	text, _ := m.MarshalJSON() // never fails
	return func(dst []byte) []byte { return append(dst, text...) }
}

// optional names the optional members of blocks in the Messages API.
var optional = map[string][]string{
	"text":        {messages.CacheControl, "citations"},
	"image":       {messages.CacheControl},
	"document":    {messages.CacheControl, "citations", "context", "title"},
	"tool_use":    {messages.CacheControl, "caller", messages.ToolsetName},
	"tool_result": {messages.CacheControl},
}

// maxBody is how many bytes of JSON a request to the Messages API may have.
const maxBody = 32 << 20
